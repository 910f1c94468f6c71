"""Conditions of a rule: `when` as a mapping, for its runs, and `review` as text, for its scores."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from otel_evals._internal.model import Run
from otel_evals._internal.model.runs import attributes_of
from otel_evals._internal.util.options import Problems, suggestion
from otel_evals.errors import ConfigError

_Accepted = tuple[Any, ...]
FIELDS = (*(name for name in Run.__dataclass_fields__ if name not in ("operations", "children")), "input")
"""Fields of a run in `when`."""
_FORM = re.compile(r"\s*score\s*(<=|>=|<|>)\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*")
_COMPARE = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


class Where:
    """A printable condition: accepted values by field of the run, and by attribute of spans or resource.

    A field that is a list must contain an accepted value.
    """

    def __init__(self, fields: Mapping[str, _Accepted], attributes: Mapping[str, _Accepted]) -> None:
        self._fields = dict(fields)
        self._attributes = dict(attributes)

    def __call__(self, run: Run) -> bool:
        return all(_among(getattr(run, name), values) for name, values in self._fields.items()) and all(
            _has(run, key, values) for key, values in self._attributes.items()
        )

    def __str__(self) -> str:
        wanted = {**self._fields, **self._attributes}
        return " and ".join(f"{name} is {' or '.join(map(repr, values))}" for name, values in wanted.items())


def condition(value: Any) -> Any:
    """Build a condition from a mapping; other values are returned as they are.

    A name with a dot that is not a field of runs is an attribute; `attributes` may hold any attribute.
    """
    if not isinstance(value, Mapping):
        if value is not None and not callable(value):
            wanted = "a mapping such as {'agent_name': 'support'}, or a function of the run"
            raise ConfigError("when", f"must be {wanted}, not {value!r:.80}")
        return value
    problems = Problems()
    fields: dict[str, _Accepted] = {}
    attributes: dict[str, _Accepted] = {}
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
            other = f"an attribute without a dot goes under `attributes: {{{name}: ...}}`"
            problems.add(
                f"when.{name}", f"a run has no field {name!r}, and {other}{suggestion(name, FIELDS)}"
            )
    if not value:
        problems.add("when", "is empty: leave it out to judge every run")
    problems.raise_any()
    return Where(fields, attributes)


def _values(wanted: Any, field: str, problems: Problems) -> _Accepted:
    values = tuple(wanted) if isinstance(wanted, list | tuple | set | frozenset) else (wanted,)
    if not values:
        problems.add(field, "is an empty list, which no run can match: name at least one value")
    if any(isinstance(each, Mapping | list | tuple) for each in values):
        problems.add(field, "must be a value or a list of accepted values")
    return values


def _among(value: Any, values: _Accepted) -> bool:
    return any(each in values for each in value) if isinstance(value, tuple) else value in values


def _has(run: Run, key: str, values: _Accepted) -> bool:
    return any(_among(place[key], values) for place in attributes_of(run) if key in place)


@dataclass(frozen=True, slots=True)
class ReviewCondition:
    """Compares scores with a limit."""

    sign: str
    limit: float

    def __call__(self, value: float) -> bool:
        """Return True if the run of this score should be reviewed."""
        return bool(_COMPARE[self.sign](value, self.limit))

    def __str__(self) -> str:
        return f"score {self.sign} {self.limit:g}"


def review_condition(value: str) -> ReviewCondition:
    """Parse a text such as `score < 0.5`."""
    found = _FORM.fullmatch(value)
    if found is None or not math.isfinite(float(found[2])):
        raise ConfigError(
            "review", f"must compare the score with a number, not {value!r:.60}; fix: score < 0.5"
        )
    return ReviewCondition(found[1], float(found[2]))
