"""Samplers by a condition on the finished run, or on another scorer's score of it.

The first kind samples all runs that meet it, and no others. The second kind are cascades: they are decided
once the other scorer's outcome for the same run is known. Both rules use the same randomness of the trace, so
the other rule sampled every run that the cascade samples, with its probability. That is also the cascade's
probability, and `below(...) & ratio(p)` has the smaller of the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from otel_evals._internal.model import Run, Score
from otel_evals._internal.model.runs import attributes_of
from otel_evals._internal.sampling.algebra import (
    ALONE,
    Chance,
    Earlier,
    NamedSampler,
    Sampler,
    SamplerFacts,
    positive,
)
from otel_evals._internal.util.plain import is_number
from otel_evals.errors import ConfigError

_ANYTHING: Any = object()
"""Marker for any value."""


class _Condition(NamedSampler):
    floor = 1.0

    def __init__(self, test: Callable[[Run], Any], words: str, *, known: bool = True) -> None:
        self._test = test
        self._words = words
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
    return _Condition(lambda run: (run.duration or 0.0) > limit, f"slower_than({limit:.10g})")


def used_tool(name: str) -> Sampler:
    """Sample every run that called a tool of this name; `*` and `?` are wildcards.

    Raises:
        ConfigError: the name is not a string, or empty.
    """
    _check_name(name, f"used_tool({name!r}): give a tool's name, as in used_tool('search')")
    return _Condition(
        lambda run: any(fnmatchcase(call.name, name) for call in run.tool_calls), f"used_tool({name!r})"
    )


def attribute(key: str, value: Any = _ANYTHING) -> Sampler:
    """Sample every run with this attribute on a span or on its resource, such as user feedback.

    Args:
        key: the attribute's name.
        value: the required value; any value by default.

    Raises:
        ConfigError: the key is not a string, or empty.
    """
    _check_name(key, f"attribute({key!r}): give an attribute's name, as in attribute('user.vip')")
    words = f"attribute({key!r})" if value is _ANYTHING else f"attribute({key!r}, {value!r})"

    def has_it(run: Run) -> bool:
        found = [place[key] for place in attributes_of(run) if key in place]
        return bool(found) if value is _ANYTHING else any(bool(each == value) for each in found)

    return _Condition(has_it, words)


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
    return _Condition(predicate, f"when({name})", known=False)


def find_attribute(run: Run, key: str) -> Any:
    """Return an attribute from the run's root span, another span or its resource; None if absent."""
    return next((place[key] for place in attributes_of(run) if key in place), None)


def _check_name(name: object, problem: str) -> None:
    if not isinstance(name, str) or not name:
        raise ConfigError("sample", problem)


def _has_error(run: Run) -> bool:
    failed = [each for run in (run, *run.turns) for each in (run.error, run.error_type) if each is not None]
    return bool(failed) or any(call.status == "error" for call in run.tool_calls)


# --- cascades ---

_NOT_SAMPLED = Chance(0.0, why="cascade_not_sampled")
_NOT_SCORED = Chance(0.0, why="cascade_not_scored")
_NOT_MET = Chance(0.0, why="cascade_not_met")


class _Cascade(NamedSampler):
    ceiling = 0.0  # it adds nothing to the ceiling of the rule it depends on

    def __init__(self, verb: str, scorer: Any, bound: float) -> None:
        name = getattr(scorer, "id", scorer)
        words = f"{verb}({name!r}, {bound!r})"
        _check_name(name, f"{words}: give a scorer's id, as in {verb}('answered', 0.5)")
        if not is_number(bound) or bound != bound:
            raise ConfigError("sample", f"{words}: the score to compare with must be a number")
        self._id, self._bound, self._is_below = name, float(bound), verb == "below"
        self.follows = frozenset([name])
        self._words = f"{verb}({name!r}, {bound:.10g})"

    def chance(self, run: Run, earlier: Mapping[str, Earlier] = ALONE) -> Chance:
        other = earlier.get(self._id)
        if other is None:
            return _NOT_SAMPLED
        if not isinstance(other.outcome, Score):
            return _NOT_SCORED
        value = other.outcome.value
        met = value < self._bound if self._is_below else value > self._bound
        return other.chance if met else _NOT_MET


def below(scorer: Any, score: float) -> Sampler:
    """Sample the runs that another rule's scorer gave a lower score than this.

    Args:
        scorer: the other scorer, or its id; it must be configured for the same scope.
        score: the bound, exclusive.

    Raises:
        ConfigError: the scorer has no id, or the score is not a number.
    """
    return _Cascade("below", scorer, score)


def above(scorer: Any, score: float) -> Sampler:
    """Sample the runs that another rule's scorer gave a higher score than this; see `below`.

    Raises:
        ConfigError: the scorer has no id, or the score is not a number.
    """
    return _Cascade("above", scorer, score)


def cascade_order(rules: Sequence[tuple[str, str, SamplerFacts]]) -> list[int]:
    """Return the indices of rules, each after the rules it depends on."""
    places = {(scorer, scope): index for index, (scorer, scope, _) in enumerate(rules)}
    after = [list(_followed(index, rules, places)) for index in range(len(rules))]
    done: list[int] = []
    while len(done) < len(rules):
        # Rules are few: repeated passes keep the configured order, which explanations use.
        ready = [i for i in range(len(rules)) if i not in done and all(j in done for j in after[i])]
        if not ready:
            stuck = next(i for i in range(len(rules)) if i not in done)
            circle = " and ".join(sorted(repr(rules[i][0]) for i in range(len(rules)) if i not in done))
            raise ConfigError(
                f"rules[{stuck}].sample",
                f"{circle} depend on each other; sample one of them independently",
            )
        done += ready
    return done


def _followed(
    index: int, rules: Sequence[tuple[str, str, SamplerFacts]], places: Mapping[tuple[str, str], int]
) -> Iterator[int]:
    scorer, scope, sampler = rules[index]
    for wanted in sorted(sampler.follows):
        if (wanted, scope) not in places:
            known = sorted(name for name, its_scope in places if its_scope == scope and name != scorer)
            hint = f"known are {', '.join(map(repr, known))}" if known else "add a rule for it"
            raise ConfigError(
                f"rules[{index}].sample",
                f"{sampler.words} depends on {wanted!r}, which no rule of scope {scope!r} scores; {hint}",
            )
        yield places[wanted, scope]
