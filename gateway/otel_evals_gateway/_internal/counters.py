"""What the gateway counts: traffic and recent scores, for the pages `/stats` and `/metrics`."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.metrics import CallbackOptions, Meter, Observation
from opentelemetry.sdk.metrics import MeterProvider
from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector, generate_latest

from otel_evals.model import Evaluation, Run, Score
from otel_evals_gateway._internal.receiver.selection import Selection

_SCORES = 500
"""Per rule, for its mean."""


class TrafficCounters:
    """Counts spans and log records by signal and outcome, and requests by signal and HTTP status."""

    def __init__(self, answers: Mapping[tuple[str, int], int]) -> None:
        self._answers = answers
        self._items: Counter[tuple[str, str]] = Counter()

    def received(self, signal: str, selection: Selection) -> None:
        """Count the items of an accepted request."""
        self.count(signal, "received", selection.seen)
        self.count(signal, "rejected", selection.rejected.total())
        self.count(signal, "to_judge", len(selection.items))
        for reason, number in selection.ignored.items():
            self.count(signal, reason, number)

    def count(self, signal: str, outcome: str, number: int) -> None:
        """Count items: `forwarded` or `refused` by the next endpoint, `lost` before the engine, ..."""
        self._items[signal, outcome] += number

    def forwarded(self, signal: str, sent: int, rejected: int, outcome: str) -> None:
        """Count items that were sent in a request, of which some were rejected: `refused` or `lost`."""
        self.count(signal, "forwarded", sent - rejected)
        if rejected:
            self.count(signal, outcome, rejected)

    def snapshot(self) -> dict[str, Any]:
        """Return all counters as plain values."""
        return {"items": _by_signal(self._items), "requests": _by_signal(self._answers)}

    def observe(self, meter: Meter) -> None:
        """Report the counters as metrics."""

        def observe(name: str, counts: Mapping[Any, int], by: str, unit: str, description: str) -> None:
            def read(_: CallbackOptions) -> list[Observation]:
                # A copy: the receivers' thread counts while the reader iterates.
                found = dict(counts).items()
                return [Observation(number, {"signal": signal, by: end}) for (signal, end), number in found]

            meter.create_observable_counter(f"otel_evals.gateway.{name}", [read], unit, description)

        observe("items", self._items, "outcome", "{item}", "Spans and log records, by signal and outcome")
        status = "http.response.status_code"
        observe("requests", self._answers, status, "{request}", "Requests, by signal and HTTP status")


def _by_signal(counts: Mapping[Any, int]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for (signal, end), count in counts.items():
        found.setdefault(signal, {})[str(end)] = count
    return found


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
        self._scorers: defaultdict[str, _Scorer] = defaultdict(_Scorer)

    def note(self, run: Run, evaluation: Evaluation, _: object = None) -> None:
        outcome, weight = evaluation.outcome, evaluation.sampled.weight
        with self._lock:
            scorer = self._scorers[evaluation.rule or evaluation.scorer_id]
            for step in getattr(outcome, "steps", ()):
                scorer.tokens += step.usage.total_tokens
                scorer.cost += step.cost or 0.0
            if isinstance(outcome, Score) and weight is not None:
                scorer.scores.append((outcome.value, weight))

    def snapshot(self) -> dict[str, Any]:
        """Return means and costs by rule, as plain values."""
        with self._lock:
            return {"scorers": {name: _summary(scorer) for name, scorer in self._scorers.items()}}


def _summary(scorer: _Scorer) -> dict[str, Any]:
    weights = sum(weight for _, weight in scorer.scores)
    mean = sum(value * weight for value, weight in scorer.scores) / weights if weights else None
    return {"mean": mean, "of": len(scorer.scores), "cost": scorer.cost, "tokens": scorer.tokens}


def prometheus_page(meters: Any) -> tuple[Any, Callable[[], tuple[int, str]]]:
    """Return the meter provider to use, and the page with its metrics.

    A provider that takes no reader, such as the API's own without OTLP export, is replaced by a new one.
    """
    # Not the global one, which would add the metrics of other libraries.
    registry = CollectorRegistry()
    reader = PrometheusMetricReader(registry=registry)
    if hasattr(meters, "add_metric_reader"):
        meters.add_metric_reader(reader)
    else:
        meters = MeterProvider([reader], shutdown_on_exit=False)
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    return meters, lambda: (200, generate_latest(registry).decode())
