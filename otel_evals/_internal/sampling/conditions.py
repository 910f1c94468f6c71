"""Samplers by a condition on the finished run: they sample all runs that meet it, and no others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, auto
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

from otel_evals._internal.model import Run
from otel_evals._internal.model.runs import attributes_of
from otel_evals._internal.sampling.algebra import ALONE, Chance, Earlier, NamedSampler, Sampler, positive
from otel_evals.errors import ConfigError


class _Anything(Enum):
    """Marker for any value; an enum, to be the same object in every process."""

    VALUE = auto()


class _Condition(NamedSampler):
    floor = 1.0

    def __init__(
        self, test: Callable[[Run], bool], words: str, *, known: bool = True, repeatable: bool = True
    ) -> None:
        self._test = test
        self._words = words
        self.repeatable = repeatable
        self._yes = Chance(1.0, known)
        self._no = Chance(0.0, known)

    def chance(self, run: Run, earlier: Mapping[str, Earlier] = ALONE) -> Chance:
        return self._yes if self._test(run) else self._no


def errors() -> Sampler:
    """Sample every run that failed or in which a tool failed."""
    return _Condition(_has_error, "errors()")


def slower_than(seconds: float) -> Sampler:
    """Sample every run that took longer.

    Raises:
        ConfigError: the duration is not a positive number.
    """
    limit = positive(seconds, f"slower_than({seconds!r})", "the duration in seconds")
    return _Condition(partial(_is_slower, limit), f"slower_than({limit:.10g})")


def used_tool(name: str) -> Sampler:
    """Sample every run that called a tool of this name; `*` and `?` are wildcards.

    Raises:
        ConfigError: the name is not a string, or empty.
    """
    if not isinstance(name, str) or not name:
        raise ConfigError("sample", f"used_tool({name!r}): give a tool's name, as in used_tool('search')")
    return _Condition(partial(_has_called, name), f"used_tool({name!r})")


def attribute(key: str, value: Any = _Anything.VALUE) -> Sampler:
    """Sample every run with this attribute on a span or on its resource, such as user feedback.

    Args:
        key: the attribute's name.
        value: the required value; any value by default.

    Raises:
        ConfigError: the key is not a string, or empty.
    """
    if not isinstance(key, str) or not key:
        raise ConfigError(
            "sample", f"attribute({key!r}): give an attribute's name, as in attribute('user.vip')"
        )
    words = f"attribute({key!r})" if value is _Anything.VALUE else f"attribute({key!r}, {value!r})"
    return _Condition(partial(_has_attribute, key, value), words, repeatable=False)


def when(predicate: Callable[[Run], bool]) -> Sampler:
    """Sample every run for which the predicate is true.

    A predicate may depend on anything, so the inclusion probability of runs that it selects is recorded as
    unknown. In `ratio(0.05) | when(f)`, the runs that `ratio(0.05)` samples too are recorded with its
    probability, and estimates use these. To limit a rule to some runs and keep the probability, use the
    rule's own `when`.

    Raises:
        ConfigError: the predicate cannot be called.
    """
    if not callable(predicate):
        raise ConfigError("sample", f"when({predicate!r}): give a function of the run")
    name = getattr(predicate, "__name__", type(predicate).__name__)
    return _Condition(predicate, f"when({name})", known=False, repeatable=False)


def find_attribute(run: Run, key: str) -> Any:
    """Return an attribute from the run's root span, another span or its resource; None if absent."""
    return next((place[key] for place in attributes_of(run) if key in place), None)


def _has_error(run: Run) -> bool:
    return (
        run.error is not None
        or run.error_type is not None
        or any(c.status == "error" for c in run.tool_calls)
        or any(turn.error is not None or turn.error_type is not None for turn in run.turns)
    )


def _is_slower(limit: float, run: Run) -> bool:
    return (run.duration or 0.0) > limit


def _has_called(name: str, run: Run) -> bool:
    return any(fnmatchcase(call.name, name) for call in run.tool_calls)


def _has_attribute(key: str, value: Any, run: Run) -> bool:
    found = [place[key] for place in attributes_of(run) if key in place]
    return bool(found) if value is _Anything.VALUE else any(bool(each == value) for each in found)
