"""Counters of received and forwarded items, for metrics and for `/stats`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from otel_evals_gateway._internal.receiver.receiver import RequestLimits
from otel_evals_gateway._internal.receiver.selection import Selection


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
