"""Imports what a configuration names as `python:package.module:name`."""

from __future__ import annotations

import importlib
import inspect
from functools import partial
from typing import Any, get_origin, get_type_hints

from otel_evals._internal.scoring.scorer import Scorer
from otel_evals.errors import ConfigError

__all__ = ["PREFIX", "imported"]

PREFIX = "python:"
"""Without it, no name in a configuration has code imported, but that of registered entry points."""


def imported(path: str, field: str, kind: type[Any] | None = None) -> Any:
    """The object that `python:package.module:name` names.

    Args:
        path: what the configuration says.
        field: path of the option, for messages.
        kind: the interface that it must have, or say that it returns; None for any.

    Raises:
        ConfigError: it cannot be imported, is of another kind, or the path has another form.
    """
    value = _load(path, field)
    if kind is not None and not _makes(value, kind):
        what = kind.__name__
        problem = f"{path!r} is no {what}, class of {what}s or function with the return type {what}"
        raise ConfigError(field, f"{problem}; it was not called")
    return value


def _load(path: str, field: str) -> Any:
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


def _makes(found: Any, kind: type[Any]) -> bool:
    """Whether an imported thing is what a configuration may name, or says that it makes one when called.

    Anything else could do anything if it were called.
    """
    if inspect.isroutine(found) or isinstance(found, partial):
        try:
            found = get_type_hints(found.func if isinstance(found, partial) else found).get("return")
        except Exception:  # whatever an annotation's evaluation raises
            return False
        found = get_origin(found) or found
    if kind is Scorer:
        return isinstance(found, Scorer) or (isinstance(found, type) and issubclass(found, Scorer))
    return found is kind or all(hasattr(found, name) for name in ("export", "shutdown"))
