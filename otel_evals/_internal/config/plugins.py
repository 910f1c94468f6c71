"""Builds scorers, destinations and resolvers from their names: entry points, or `python:package.module:name`.

Resolvers as text: `tool_results`, `documents(top=5)`, `combine(tool_results(), static('All in euros.'))`.
As values: `{documents: {top: 5}}`, `{tool_results: [find_order]}`, `[tool_results, {static: All in euros.}]`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from otel_evals._internal.config.imports import PREFIX, destination_mistake, imported, scorer_mistake
from otel_evals._internal.deliver.destination import ENTRY_POINT_GROUP as DESTINATIONS
from otel_evals._internal.deliver.destination import Destination
from otel_evals._internal.scorers.kit import context
from otel_evals._internal.scorers.kit.scorer import Scorer
from otel_evals._internal.util.installed import entry_points, load
from otel_evals._internal.util.options import Problems, call_with, evaluate, suggestion
from otel_evals._internal.util.plain import read_lines
from otel_evals.errors import ConfigError

SCORERS = "otel_evals_scorer"
"""Entry-point group of scorers: each is a Scorer, or a callable that returns one."""


def scorer_names() -> list[str]:
    return sorted({point.name for point in entry_points(group=SCORERS)})


def find_scorer(name: str, field: str) -> Any:
    return _find(SCORERS, "scorer", name, field)


def build_scorer(name: str, options: Mapping[str, Any], field: str) -> Scorer:
    """Build a scorer from its name and its options in YAML; `field` is the rule's path."""
    options = dict(options)
    # A path is ours; scorers with an option of that name take another type.
    examples = options.pop("examples") if isinstance(options.get("examples"), str) else None
    found = find_scorer(name, f"{field}.scorer")
    problems = Problems()
    if options.get("get_context") is not None:
        with problems.noting():
            options["get_context"] = build_context(options.pop("get_context"), f"{field}.options.get_context")
    if not isinstance(found, Scorer):
        with problems.noting():
            found = call_with(found, options, f"{field}.options")
    elif options:
        problems.add(f"{field}.options", f"{name!r} is a scorer and takes no options: leave them out")
    problems.raise_any()
    mistake = scorer_mistake(found)
    if mistake is not None:
        raise ConfigError(f"{field}.scorer", mistake)
    return found if examples is None else _with_examples(found, examples, f"{field}.options.examples")


def _with_examples(scorer: Scorer, path: str, field: str) -> Scorer:
    """Show the labels in a file to the scorer's judge."""
    # Imported late: only scorers with judges need it.
    from otel_evals._internal.scorers.kit.labels import read_labels, with_examples

    try:
        found = read_labels(read_lines(path, "labels"))
        return with_examples(scorer, [(example.run, example.label) for example in found])
    except ConfigError as error:
        raise ConfigError(field, f"{path}: {error}") from None


def build_destination(name: str, options: Mapping[str, Any], field: str) -> Destination:
    """Build a destination from its name and options."""
    found = _find(DESTINATIONS, "destination", name, field)
    if isinstance(found, type) or not hasattr(found, "export"):
        found = call_with(found, options, f"{field}.{name}")
    elif options:
        problem = f"{name!r} is a destination and takes no options: leave them out"
        raise ConfigError(f"{field}.{name}", problem)
    mistake = destination_mistake(found)
    if mistake is not None:
        raise ConfigError(field, mistake)
    return cast("Destination", found)


def _find(group: str, what: str, name: str, field: str) -> Any:
    if name.startswith(PREFIX):
        kind = Scorer if group == SCORERS else Destination
        return imported(name, field, kind)
    points = {point.name: point for point in entry_points(group=group)}
    if name not in points:
        fix = f"; to import it, write {PREFIX}{name}" if ":" in name else suggestion(name, points)
        raise ConfigError(field, f"there is no {what} {name!r}{fix}")
    return load(points[name], field)


RESOLVERS: Mapping[str, Callable[..., Any]] = {
    name: getattr(context, name)
    for name in ("attribute", "combine", "conversation", "documents", "evidence", "static", "tool_results")
}


def build_context(value: Any, field: str) -> Any:
    """Build a resolver from its name, a call as text, `{name: options}`, or a list of these."""
    if isinstance(value, str):
        if value.strip().startswith(PREFIX):
            return imported(value.strip(), field)
        return evaluate(value, RESOLVERS, field, "resolver", "write for example 'documents(top=5)'")
    if isinstance(value, list):
        return context.combine(*(build_context(each, f"{field}[{i}]") for i, each in enumerate(value)))
    if isinstance(value, Mapping) and len(value) == 1:
        ((name, options),) = value.items()
        if name not in RESOLVERS:
            raise ConfigError(field, f"there is no resolver {name!r}{suggestion(str(name), RESOLVERS)}")
        if isinstance(options, Mapping):
            return call_with(RESOLVERS[name], options, f"{field}.{name}")
        return call_with(RESOLVERS[name], {}, f"{field}.{name}", *([] if options is None else [options]))
    if not callable(value):
        raise ConfigError(field, "must be a resolver, such as 'documents(top=5)' or {documents: {top: 5}}")
    return value
