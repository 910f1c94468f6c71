"""Proposals from human labels: a threshold and examples, chosen on one half and tested on the other."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from otel_evals._internal.model import Score
from otel_evals._internal.offline.agreement import Pair, interval_of, kappa
from otel_evals._internal.scoring.examples import with_examples
from otel_evals._internal.scoring.labels import Example
from otel_evals._internal.scoring.scorer import Scorer

FEWEST = 40
"""Labels below which nothing is proposed."""

Scored = Sequence[tuple[Example, Score]]


@dataclass(frozen=True)
class Halves:
    """Labels to choose a proposal by, and held-out labels to test it."""

    tuning: Scored
    held_out: Scored


def halves(scored: Scored) -> Halves | None:
    """Split by a hash of the texts, which keeps copies in the same half; None if there are too few labels."""
    parts: tuple[list[Any], list[Any]] = ([], [])
    for example, score in scored:
        text = f"{example.run.input}\n{example.run.output}"
        parts[hashlib.sha256(text.encode()).digest()[0] % 2].append((example, score))
    return None if len(scored) < FEWEST else Halves(*parts)


def best_threshold(tuning: Scored, threshold: float) -> float:
    """Return the score with the highest kappa as threshold, the nearest to `threshold` of equal ones."""
    values = sorted({score.value for _, score in tuning})
    between = [(low + high) / 2 for low, high in pairwise(values)]

    def quality(candidate: float) -> tuple[float, float]:
        pairs = [(e.label >= threshold, s.value >= candidate) for e, s in tuning]
        return kappa(pairs) or 0.0, -abs(candidate - threshold)

    return max([threshold, *between], key=quality)


def comparison(before: Sequence[Pair], after: Sequence[Pair]) -> dict[str, Any]:
    """Compare two ways to judge the same labels."""

    def gain(both: Sequence[tuple[Pair, Pair]]) -> float | None:
        old, new = kappa([pair for pair, _ in both]), kappa([pair for _, pair in both])
        return None if old is None or new is None else new - old

    interval = interval_of(gain, list(zip(before, after, strict=True)))
    return {
        "held_out": len(before),
        "kappa_before": kappa(before),
        "kappa_after": kappa(after),
        "gain_interval": interval,
        "helped": interval is not None and interval[0] > 0,
    }


def propose_threshold(parts: Halves, threshold: float) -> dict[str, Any]:
    proposed = best_threshold(parts.tuning, threshold)
    before, after = (
        [(e.label >= threshold, s.value >= bound) for e, s in parts.held_out]
        for bound in (threshold, proposed)
    )
    return {"threshold": proposed, **comparison(before, after)}


def choose_examples(tuning: Scored, count: int, threshold: float) -> list[Example]:
    """Return examples that the scorer got most wrong, positive and negative ones in turn."""
    wrong = sorted(tuning, key=lambda pair: -abs(pair[0].label - pair[1].value))
    sides = [[e for e, _ in wrong if (e.label >= threshold) is side] for side in (True, False)]
    turns = [example for pair in zip(*sides, strict=False) for example in pair]
    return turns[:count]


Judge = Callable[[Scorer, Sequence[Example]], Any]
"""Judges examples with a scorer."""


async def try_examples(
    scorer: Scorer, parts: Halves, count: int, threshold: float, judge: Judge
) -> dict[str, Any]:
    """Judge the held-out half again with examples of the other half."""
    examples = choose_examples(parts.tuning, count, threshold)
    shown = with_examples(scorer, [(example.run, example.label) for example in examples])
    again = await judge(shown, [e for e, _ in parts.held_out])
    old = {example.id: score for example, score in parts.held_out}
    both = [(e, old[e.id], s) for e, s in again if isinstance(s, Score)]
    before = [(e.label >= threshold, first.value >= threshold) for e, first, _ in both]
    after = [(e.label >= threshold, second.value >= threshold) for e, _, second in both]
    return {"examples": [example.id for example in examples], **comparison(before, after)}
