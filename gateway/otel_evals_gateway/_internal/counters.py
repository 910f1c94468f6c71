"""What the gateway counts: traffic and recent scores, for the pages `/stats` and `/metrics`."""

from __future__ import annotations

import logging
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from heapq import nlargest
from typing import Any

from opentelemetry.metrics import CallbackOptions, Meter, Observation
from opentelemetry.sdk.metrics import MeterProvider

from otel_evals.model import Direction, Evaluation, Run, Score
from otel_evals_gateway._internal.receiver.receiver import RequestLimits
from otel_evals_gateway._internal.receiver.selection import Selection

_logger = logging.getLogger(__name__)
_SCORES = 500
"""Per rule, for its mean."""
_RUNS = 2_000
"""Over all rules, for the worst runs."""
_WORST = 10

TextPage = Callable[[], tuple[int, str]]


class TrafficCounters:
    """Counts spans and log records by signal and outcome. Receivers' thread only."""

    def __init__(self, limits: RequestLimits) -> None:
        self._limits = limits
        self.counts: Counter[tuple[str, str]] = Counter()

    def received(self, signal: str, selection: Selection) -> None:
        """Count the items of an accepted request."""
        self.count(signal, "received", selection.seen)
        self.count(signal, "rejected", selection.rejected.total())
        self.count(signal, "to_judge", len(selection.items))
        for reason, number in selection.ignored.items():
            self.count(signal, reason, number)

    def count(self, signal: str, outcome: str, number: int) -> None:
        """Count items: `forwarded` or `refused` by the next endpoint, `lost` before the engine, ..."""
        self.counts[signal, outcome] += number

    def snapshot(self) -> dict[str, Any]:
        """Return all counters as plain values."""
        signals: dict[str, dict[str, int]] = {}
        for (signal, outcome), count in self.counts.items():
            signals.setdefault(signal, {})[outcome] = count
        answers: dict[str, dict[str, int]] = {}
        for (signal, status), count in self._limits.answers.items():
            answers.setdefault(signal, {})[str(status)] = count
        return {"items": signals, "requests": answers, "in_progress": self._limits.in_progress}

    def observe(self, meter: Meter) -> None:
        """Report the counters as metrics."""
        for name, read, unit, description in (
            ("items", self._items, "{item}", "Spans and log records, by signal and outcome"),
            ("requests", self._requests, "{request}", "Requests, by signal and HTTP status"),
        ):
            meter.create_observable_counter(f"otel_evals.gateway.{name}", [read], unit, description)

    def _items(self, _: CallbackOptions) -> Iterable[Observation]:
        counts = dict(self.counts)
        return [Observation(n, {"signal": signal, "outcome": end}) for (signal, end), n in counts.items()]

    def _requests(self, _: CallbackOptions) -> Iterable[Observation]:
        counts = dict(self._limits.answers)
        return [
            Observation(n, {"signal": signal, "http.response.status_code": status})
            for (signal, status), n in counts.items()
        ]


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


def prometheus_page(meters: Any) -> tuple[Any, TextPage]:
    """Return the meter provider to use, and the page with its metrics.

    A provider that takes no reader, such as the API's own without OTLP export, is replaced by a new one. The
    page answers 501 without the exporter.
    """
    try:
        from opentelemetry.exporter.prometheus import PrometheusMetricReader
        from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector, generate_latest
    except ImportError as error:
        problem = f"/metrics needs opentelemetry-exporter-prometheus: {error}"
        _logger.warning(problem)
        return meters, lambda: (501, problem)
    registry = CollectorRegistry()
    reader = PrometheusMetricReader(registry=registry)
    if hasattr(meters, "add_metric_reader"):
        meters.add_metric_reader(reader)
    else:
        meters = MeterProvider([reader], shutdown_on_exit=False)
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    return meters, lambda: (200, generate_latest(registry).decode())
