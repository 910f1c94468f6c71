"""A rule's `when` as a mapping: run fields and attributes, and the values they must have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from otel_evals._internal.config.validation import Problems, suggestion
from otel_evals._internal.model import Run
from otel_evals.errors import ConfigError

__all__ = ["FIELDS", "Where", "condition"]

FIELDS = (*(name for name in Run.__dataclass_fields__ if name not in ("operations", "children")), "input")
"""What `when` may name of a run."""


class Where:
    """A printable condition: each field or attribute has one of its values.

    Args:
        fields: values by field of the run. A field that is a list must contain one of them.
        attributes: values by attribute of the run's spans or resource.
    """

    def __init__(
        self, fields: Mapping[str, tuple[Any, ...]], attributes: Mapping[str, tuple[Any, ...]]
    ) -> None:
        self._fields = dict(fields)
        self._attributes = dict(attributes)

    def __call__(self, run: Run) -> bool:
        """Whether the run meets it."""
        return all(_among(getattr(run, name), values) for name, values in self._fields.items()) and all(
            _has(run, key, values) for key, values in self._attributes.items()
        )

    def __str__(self) -> str:
        wanted = {**self._fields, **self._attributes}
        return " and ".join(f"{name} is {' or '.join(map(repr, values))}" for name, values in wanted.items())


def condition(value: Any) -> Any:
    """Make a condition of a mapping; anything else stays as it is.

    `{cel: EXPRESSION}` is an expression over the run. In other mappings, a name with a dot that is no field
    of runs is an attribute's; any attribute can stand under `attributes`.

    Raises:
        ConfigError: the mapping is empty, names no field of runs, or has a value that cannot be compared.
    """
    if not isinstance(value, Mapping):
        return value
    if "cel" in value:
        return _cel(value)
    problems = Problems()
    fields: dict[str, tuple[Any, ...]] = {}
    attributes: dict[str, tuple[Any, ...]] = {}
    for key, wanted in value.items():
        name = str(key)
        if name == "attributes" and isinstance(wanted, Mapping):
            for each, values in wanted.items():
                attributes[str(each)] = _values(values, f"when.attributes.{each}", problems)
        elif name in FIELDS:
            fields[name] = _values(wanted, f"when.{name}", problems)
        elif "." in name:
            attributes[name] = _values(wanted, f"when.{name}", problems)
        else:
            other = f"an attribute without a dot stands under `attributes: {{{name}: ...}}`"
            problems.add(
                f"when.{name}", f"a run has no field {name!r}, and {other}{suggestion(name, FIELDS)}"
            )
    if not value:
        problems.add("when", "is empty: leave it out to have every run judged")
    problems.raise_any()
    return Where(fields, attributes)


def _cel(value: Mapping[Any, Any]) -> Any:
    if len(value) > 1:
        raise ConfigError("when.cel", "stands alone: put the other conditions into the expression, with &&")
    from otel_evals._internal.config.cel import CelCondition

    return CelCondition(value["cel"])


def _values(wanted: Any, field: str, problems: Problems) -> tuple[Any, ...]:
    values = tuple(wanted) if isinstance(wanted, list | tuple | set | frozenset) else (wanted,)
    if not values:
        problems.add(field, "is an empty list, which no run can meet: name at least one value")
    if any(isinstance(each, Mapping | list | tuple) for each in values):
        problems.add(field, "must be a value or a list of values, any of which will do")
    return values


def _among(value: Any, values: tuple[Any, ...]) -> bool:
    return any(each in values for each in value) if isinstance(value, tuple) else value in values


def _has(run: Run, key: str, values: tuple[Any, ...]) -> bool:
    places = [*(operation.span.attributes for operation in run.operations), run.resource]
    return any(_among(place[key], values) for place in places if key in place)
