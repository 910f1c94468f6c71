"""Imports what a configuration names as `python:package.module:name`."""

from __future__ import annotations

import importlib
from typing import Any

from otel_evals.errors import ConfigError

__all__ = ["PREFIX", "imported"]

PREFIX = "python:"
"""Without it, no name in a configuration has code imported, but that of registered entry points."""


def imported(path: str, field: str) -> Any:
    """The object that `python:package.module:name` names.

    Raises:
        ConfigError: it cannot be imported, or the path has another form.
    """
    module, found, attribute = path.removeprefix(PREFIX).partition(":")
    if not (found and module and attribute):
        raise ConfigError(field, f"{path!r} must have the form python:package.module:name")
    try:
        value: Any = importlib.import_module(module)
        for name in attribute.split("."):
            value = getattr(value, name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(field, f"{path!r} cannot be imported: {error}") from error
    except Exception as error:  # whatever the module does when it is imported
        problem = f"{path!r} cannot be imported: {type(error).__name__}: {error}"
        raise ConfigError(field, problem) from error
    return value
