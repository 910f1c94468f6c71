"""Cascades: samplers that select runs by another scorer's low or high score.

A cascade is decided once the other scorer's outcome for the same run is known. Both rules use the same
randomness of the trace, so the other rule sampled every run that the cascade samples, with its probability.
That is also the cascade's probability, and `below(...) & ratio(p)` has the smaller of the two.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from otel_evals._internal.model import Run, Score
from otel_evals._internal.sampling.algebra import ALONE, Chance, Earlier, NamedSampler, Sampler, SamplerFacts
from otel_evals.errors import ConfigError

_NOT_SAMPLED = Chance(0.0, why="cascade_not_sampled")
_NOT_SCORED = Chance(0.0, why="cascade_not_scored")
_NOT_MET = Chance(0.0, why="cascade_not_met")


class _Cascade(NamedSampler):
    ceiling = 0.0  # it adds nothing to the ceiling of the rule it depends on

    def __init__(self, verb: str, scorer: Any, bound: float) -> None:
        name = getattr(scorer, "id", scorer)
        words = f"{verb}({name!r}, {bound!r})"
        if not isinstance(name, str) or not name:
            raise ConfigError("sample", f"{words}: give a scorer's id, as in {verb}('answered', 0.5)")
        if isinstance(bound, bool) or not isinstance(bound, int | float) or bound != bound:
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
