"""Imports `python:package.module:name` in a configuration."""

from __future__ import annotations

import importlib
import inspect
from functools import partial
from typing import Any

from otel_evals._internal.config.mistakes import annotated_return
from otel_evals._internal.scoring.scorer import Scorer
from otel_evals.errors import ConfigError

PREFIX = "python:"
"""Names without this prefix import nothing but registered entry points."""


def imported(path: str, field: str, kind: type[Any] | None = None) -> Any:
    """Import `python:package.module:name`, and check that it is of a kind, or annotated to return it."""
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
    if kind is not None and not _builds(value, kind):
        what = kind.__name__
        problem = f"{path!r} is no {what}, class of {what}s or function with the return type {what}"
        raise ConfigError(field, f"{problem}; it was not called")
    return value


def _builds(found: Any, kind: type[Any]) -> bool:
    """Return True for an object of this kind, its class, or a function annotated to return one.

    Nothing else is called: a call could have any effect.
    """
    if inspect.isroutine(found) or isinstance(found, partial):
        found = annotated_return(found.func if isinstance(found, partial) else found)
    if kind is Scorer:
        return isinstance(found, Scorer) or (isinstance(found, type) and issubclass(found, Scorer))
    return found is kind or all(hasattr(found, name) for name in ("export", "shutdown"))
