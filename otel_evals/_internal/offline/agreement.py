"""Agreement of a scorer with human labels: confusion, precision, recall, kappa and its interval."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from otel_evals._internal.model import NotScored, Score
from otel_evals._internal.offline.judge_trials import Judged, cost_of
from otel_evals._internal.scorers.kit.outcome import root_cause
from otel_evals._internal.util.plain import type_name
from otel_evals.errors import ConfigError

Pair = tuple[bool, bool]
"""The human label and the scorer's."""
CONFUSION = ("true_positive", "false_positive", "false_negative", "true_negative")
FIGURES = ("kappa", "accuracy", "precision", "recall")
"""Figures for which a minimum can be required."""


def agreement(pairs: Sequence[Pair]) -> dict[str, Any]:
    """Compare a scorer's binary answers with human labels; undefined numbers are None."""
    tp, fp, fn, tn = counts = _counts(pairs)
    return {
        "confusion": dict(zip(CONFUSION, counts, strict=True)),
        "accuracy": _ratio(tp + tn, len(pairs)),
        "precision": _ratio(tp, tp + fp),
        "recall": _ratio(tp, tp + fn),
        "kappa": kappa(pairs),
        "kappa_interval": _interval(pairs),
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


def _interval(pairs: Sequence[Pair]) -> tuple[float, float] | None:
    """Return the 95% interval of kappa by bootstrap; None if it cannot be known."""
    draw = random.Random(0)
    drawn = (kappa(draw.choices(pairs, k=len(pairs))) for _ in range(2000 if len(pairs) > 1 else 0))
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


def calibration(judged: Sequence[Judged], threshold: float) -> dict[str, Any]:
    """Report how a scorer agrees with labels, where it differs, and why examples have no score."""
    scored = [(example, outcome) for example, outcome in judged if isinstance(outcome, Score)]
    pairs = [(example.label >= threshold, score.value >= threshold) for example, score in scored]
    apart = sorted(scored, key=lambda pair: -abs(pair[0].label - pair[1].value))
    differing = [(e, s) for e, s in apart if (e.label >= threshold) != (s.value >= threshold)]
    error = sum(abs(e.label - s.value) for e, s in scored) / len(scored) if scored else None
    outcomes = [outcome for _, outcome in judged]
    cost = cost_of(outcomes)
    return {
        "examples": len(judged),
        "scored": len(scored),
        "not_scored": Counter(o.reason for o in outcomes if isinstance(o, NotScored)),
        "failed": Counter(type_name(root_cause(o)) for o in outcomes if isinstance(o, Exception)),
        **agreement(pairs),
        "mean_absolute_error": error,
        "cost_per_item": cost / len(scored) if cost is not None and scored else None,
        "disagreements": [
            {
                "id": e.id,
                "label": e.label,
                "score": s.value,
                "explanation": s.explanation,
                "output": e.run.output,
            }
            for e, s in differing
        ],
    }


def minimums_of(given: Sequence[str]) -> dict[str, float]:
    """Read requirements such as `kappa=0.6`."""
    found: dict[str, float] = {}
    for text in given:
        name, _, bound = text.partition("=")
        try:
            found[name] = float(bound)
        except ValueError:
            name = ""
        if name not in FIGURES:
            known = ", ".join(FIGURES)
            raise ConfigError("--require", f"must be NAME=MINIMUM with one of {known}, not {text!r}")
    return found


def missed(report: Mapping[str, Any], minimums: Mapping[str, float]) -> list[str]:
    """Return what a report misses of the requirements; examples without a score miss them, too."""
    found = []
    for name, minimum in minimums.items():
        value = report[name]
        if value is None or value < minimum:
            found.append(f"{name} {'is not defined' if value is None else f'{value:.2f}'}, below {minimum:g}")
    if minimums and report["failed"]:
        found.append(f"{report['failed'].total()} examples failed")
    return found
