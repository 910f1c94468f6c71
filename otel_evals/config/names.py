"""Finds scorers, resolvers and destinations by name: built-in ones, entry points, and import paths.

A name is looked up among the entry points of its group first; a name with a colon, `package.module:name`,
is imported.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from functools import partial
from importlib.metadata import entry_points
from typing import Any, cast, get_origin, get_type_hints

from otel_evals.config.validation import suggestion
from otel_evals.errors import ConfigError
from otel_evals.export import ENTRY_POINT_GROUP as DESTINATIONS
from otel_evals.export import Destination
from otel_evals.scoring.scorer import Scorer

__all__ = ["SCORERS", "build_destination", "build_scorer"]

SCORERS = "otel_evals_scorer"
"""Entry-point group of scorers: each is a Scorer, or a callable that returns one."""


def build_scorer(name: str, options: Mapping[str, Any], field: str) -> Scorer:
    """A scorer by name, built with these options.

    Raises:
        ConfigError: there is no such scorer, or it does not accept the options.
    """
    options = dict(options)
    if isinstance(options.get("get_context"), str):
        options["get_context"] = _resolver(options["get_context"], f"{field}.options.get_context")
    scorer = _build(SCORERS, "scorer", name, options, f"{field}.scorer")
    if not isinstance(scorer, Scorer):
        raise ConfigError(f"{field}.scorer", f"{name!r} is a {type(scorer).__name__}, not a scorer")
    return scorer


def build_destination(name: str, options: Mapping[str, Any], field: str) -> Destination:
    """A destination by name, built with these options.

    Raises:
        ConfigError: there is no such destination, or it does not accept the options.
    """
    return cast("Destination", _build(DESTINATIONS, "destination", name, options, field))


def _resolver(name: str, field: str) -> Any:
    context = importlib.import_module("otel_evals.context")
    if ":" in name:
        return _imported(name, field)
    if name not in context.__all__:
        raise ConfigError(field, f"there is no resolver {name!r}{suggestion(name, context.__all__)}")
    return getattr(context, name)()


def _build(group: str, what: str, name: str, options: Mapping[str, Any], field: str) -> Any:
    found = _imported(name, field) if ":" in name else _point(group, what, name, field)
    if ":" in name and not _makes(found, group):
        kind = "Scorer" if group == SCORERS else "Destination"
        problem = f"{name!r} is no {what}, class of {what}s or function with the return type {kind}"
        raise ConfigError(field, f"{problem}; it was not called")
    if not callable(found) or isinstance(found, Scorer):
        if options:
            raise ConfigError(field, f"{name!r} is a {what} already and takes no options")
        return found
    try:
        return found(**options)
    except ConfigError as error:
        raise ConfigError(f"{field}.{error.field}", error.problem) from None
    except (TypeError, ValueError) as error:
        raise ConfigError(field, f"{name} does not accept its options: {error}") from error


def _makes(found: Any, group: str) -> bool:
    """Whether an imported thing is what a configuration may name, or says that it makes one when called.

    Anything else could do anything if it were called.
    """
    if inspect.isroutine(found) or isinstance(found, partial):
        try:
            found = get_type_hints(found.func if isinstance(found, partial) else found).get("return")
        except Exception:  # whatever an annotation's evaluation raises
            return False
        found = get_origin(found) or found
    if group == SCORERS:
        return isinstance(found, Scorer) or (isinstance(found, type) and issubclass(found, Scorer))
    return found is Destination or all(hasattr(found, name) for name in ("export", "shutdown"))


def _point(group: str, what: str, name: str, field: str) -> Any:
    points = {point.name: point for point in entry_points(group=group)}
    if name not in points:
        raise ConfigError(field, f"there is no {what} {name!r}{suggestion(name, points)}")
    try:
        return points[name].load()
    except ImportError as error:
        raise ConfigError(field, f"{name!r} needs a package that is not installed: {error}") from error


def _imported(path: str, field: str) -> Any:
    module, _, attribute = path.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(field, f"{path!r} cannot be imported: {error}") from error
