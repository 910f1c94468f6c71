"""Agreement of a scorer with human labels: confusion, precision, recall, kappa and its interval."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

_Item = TypeVar("_Item")
Pair = tuple[bool, bool]
"""The human label and the scorer's."""


CONFUSION = ("true_positive", "false_positive", "false_negative", "true_negative")


def agreement(pairs: Sequence[Pair]) -> dict[str, Any]:
    """Compare a scorer's binary answers with human labels; undefined numbers are None."""
    tp, fp, fn, tn = counts = _counts(pairs)
    return {
        "confusion": dict(zip(CONFUSION, counts, strict=True)),
        "accuracy": _ratio(tp + tn, len(pairs)),
        "precision": _ratio(tp, tp + fp),
        "recall": _ratio(tp, tp + fn),
        "kappa": kappa(pairs),
        "kappa_interval": interval_of(kappa, pairs),
    }


def kappa(pairs: Sequence[Pair]) -> float | None:
    """Cohen's kappa: (observed - expected agreement) / (1 - expected agreement)."""
    n = len(pairs)
    if n == 0:
        return None
    tp, fp, fn, tn = _counts(pairs)
    observed = (tp + tn) / n
    expected = ((tp + fn) * (tp + fp) + (fp + tn) * (fn + tn)) / (n * n)
    return None if expected == 1.0 else (observed - expected) / (1.0 - expected)


def interval_of(
    statistic: Callable[[Sequence[_Item]], float | None], items: Sequence[_Item]
) -> tuple[float, float] | None:
    """Return the 95% interval of a statistic by bootstrap; None if it cannot be known."""
    draw = random.Random(0)
    drawn = (statistic(draw.choices(items, k=len(items))) for _ in range(2000 if len(items) > 1 else 0))
    values = sorted(value for value in drawn if value is not None)
    if not values:
        return None
    return values[int(0.025 * (len(values) - 1))], values[int(0.975 * (len(values) - 1) + 0.5)]


def _counts(pairs: Sequence[Pair]) -> tuple[int, int, int, int]:
    def of(human: bool, scorer: bool) -> int:
        return sum(pair == (human, scorer) for pair in pairs)

    return of(True, True), of(False, True), of(True, False), of(False, False)


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None
