"""Sections of the configuration that other packages define, such as `gateway` and `alarms`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from typing import Any

from opentelemetry._logs import Logger

from otel_evals._internal.util.installed import entry_points, load
from otel_evals._internal.util.options import call_with
from otel_evals.errors import ConfigError

ENTRY_POINT_GROUP = "otel_evals_config_section"
"""Entry-point group of sections: the name of the section, and the model that reads it."""

CHECK_GROUP = "otel_evals_config_check"
"""Entry-point group of checks: the name of a section, and a function that gets the configuration."""


def section_names() -> set[str]:
    return {point.name for point in entry_points(group=ENTRY_POINT_GROUP)}


def section_model(name: str) -> type:
    """Return the model that reads a section.

    Raises:
        ConfigError: its package cannot be imported, or it is not a dataclass.
    """
    model: type = load(entry_points(group=ENTRY_POINT_GROUP)[name], name)
    if not is_dataclass(model):
        raise ConfigError(name, "is not a dataclass; fix: update or uninstall the package that defines it")
    return model


def build_section(name: str, value: Any) -> Any:
    """Read a section from a mapping; a model's instance is returned as it is."""
    model = section_model(name)
    if isinstance(value, model):
        return value
    if not isinstance(value, Mapping):
        raise ConfigError(name, f"must be a mapping of options, not {type(value).__name__}")
    return call_with(model, {str(key): each for key, each in value.items()}, name)


def check_sections(config: Any) -> None:
    """Check the sections of a configuration beyond what their models check.

    Raises:
        ConfigError: a file that a section names cannot be used, or options do not work together.
    """
    for name in config.sections:
        for point in entry_points(group=CHECK_GROUP).select(name=name):
            load(point, name)(config)


def start_watches(
    sections: Mapping[str, Any], destinations: tuple[Any, ...], logger: Callable[[], Logger]
) -> list[Any]:
    """Start the background work of sections that have a method `watch(destinations, logger)`.

    Each result has `start()`, which is called again in forked children, and `stop()`.

    Raises:
        ConfigError: the configuration lacks an option that the work needs.
    """
    return [each.watch(destinations, logger) for each in sections.values() if hasattr(each, "watch")]
