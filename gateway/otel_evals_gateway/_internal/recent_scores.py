"""Recent scores without content, for `/stats`: means, costs of judges, the worst runs."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field
from heapq import nlargest
from typing import Any

from otel_evals.model import Direction, Evaluation, Run, Score

_SCORES = 500
"""Per rule, for its mean."""
_RUNS = 2_000
"""Over all rules, for the worst runs."""
_WORST = 10


@dataclass(slots=True)
class _Scorer:
    scores: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=_SCORES))
    """Value and weight."""
    cost: float = 0.0
    tokens: int = 0


class RecentScores:
    """Notes evaluations on the engine's thread; any thread may read them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._scorers: dict[str, _Scorer] = {}
        self._runs: deque[tuple[float, dict[str, Any]]] = deque(maxlen=_RUNS)

    def note(self, run: Run, evaluation: Evaluation) -> None:
        outcome = evaluation.outcome
        with self._lock:
            scorer = self._scorers.setdefault(evaluation.rule or evaluation.scorer_id, _Scorer())
            for step in getattr(outcome, "steps", ()):
                scorer.tokens += step.usage.total_tokens
                scorer.cost += step.cost or 0.0
            if isinstance(outcome, Score):
                weight = evaluation.sampled.weight
                if weight is not None:
                    scorer.scores.append((outcome.value, weight))
                self._runs.append(_scored(run, evaluation, outcome))

    def snapshot(self) -> dict[str, Any]:
        """Return means and costs by rule, and the worst of the latest runs, as plain values."""
        with self._lock:
            scorers = {name: _summary(scorer) for name, scorer in self._scorers.items()}
            runs = list(self._runs)
        bad = [(badness, at, row) for at, (badness, row) in enumerate(runs) if badness > 0]
        worst = nlargest(_WORST, bad, key=lambda each: each[:2])
        return {"scorers": scorers, "worst": [row for *_, row in worst]}


def _summary(scorer: _Scorer) -> dict[str, Any]:
    weights = sum(weight for _, weight in scorer.scores)
    mean = sum(value * weight for value, weight in scorer.scores) / weights if weights else None
    return {"mean": mean, "of": len(scorer.scores), "cost": scorer.cost, "tokens": scorer.tokens}


def _scored(run: Run, evaluation: Evaluation, score: Score) -> tuple[float, dict[str, Any]]:
    """Return the badness of a score, from 0 for the best value to 1, and its row."""
    share = score.value / evaluation.scale if evaluation.scale else score.value
    badness = share if evaluation.direction is Direction.LOWER else 1.0 - share
    return badness, {
        "scorer": evaluation.rule or evaluation.scorer_id,
        "score": score.value,
        "agent": run.agent_name,
        "trace_id": evaluation.trace_id,
        "time": evaluation.time // 1_000_000_000,
    }
