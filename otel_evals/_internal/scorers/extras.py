"""Imports libraries of extras, and evaluators given by name."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from otel_evals._internal.util.install_hint import extra, package
from otel_evals.errors import ConfigError


def extra_library(module: str, scorer_id: str, library: str | None = None) -> Any:
    """Import a module of the extra `text`, or of a library; raise ConfigError if it is not installed."""
    with extra("text", scorer_id) if library is None else package(library, scorer_id):
        return importlib.import_module(module)


def built(value: Any, options: Mapping[str, Any] | None, field: str) -> Any:
    """Return an object as it is, or create one from a class given as `package.module:name`."""
    if not isinstance(value, str):
        if options:
            raise ConfigError(f"{field}.options", "only go with a class that is given by name")
        return value
    module, _, name = value.partition(":")
    try:
        return getattr(importlib.import_module(module), name)(**(options or {}))
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise ConfigError(field, f"{value!r} cannot be made: {error}") from error
