"""Counts what the gateway receives and forwards, for metrics and for `/stats`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from otel_evals_gateway._internal.receiver.request_limits import Load
from otel_evals_gateway._internal.receiver.selection import Selection

__all__ = ["Traffic"]


class Traffic:
    """Counters of spans and log records, by signal and end; written on the receivers' thread only.

    Args:
        load: counts requests.
    """

    def __init__(self, load: Load) -> None:
        self._load = load
        self.counts: Counter[tuple[str, str]] = Counter()

    def received(self, signal: str, selection: Selection) -> None:
        """A request was taken."""
        rejected = selection.rejected.total()
        self.counts[signal, "received"] += selection.seen
        self.counts[signal, "rejected"] += rejected
        self.counts[signal, "to_judge"] += len(selection.items)

    def lost(self, signal: str, count: int) -> None:
        """Items of a request that was taken could not be given to the stages."""
        self.counts[signal, "lost"] += count

    def forwarded(self, signal: str, count: int) -> None:
        """Spans or log records were accepted by the next endpoint."""
        self.counts[signal, "forwarded"] += count

    def refused(self, signal: str, count: int) -> None:
        """The next endpoint did not accept spans or log records, and the sender was told."""
        self.counts[signal, "refused"] += count

    def snapshot(self) -> dict[str, Any]:
        """All counters as plain values."""
        signals: dict[str, dict[str, int]] = {}
        for (signal, end), count in self.counts.items():
            signals.setdefault(signal, {})[end] = count
        answers: dict[str, dict[str, int]] = {}
        for (signal, status), count in self._load.answers.items():
            answers.setdefault(signal, {})[str(status)] = count
        return {"items": signals, "requests": answers, "in_progress": self._load.in_progress}

    def observe(self, meter: Meter) -> None:
        """Report the counters as metrics."""
        meter.create_observable_counter(
            "otel_evals.gateway.items",
            [self._items],
            "{item}",
            "Spans and log records, by signal and outcome",
        )
        meter.create_observable_counter(
            "otel_evals.gateway.requests",
            [self._requests],
            "{request}",
            "Requests, by signal and HTTP status",
        )

    def _items(self, _: CallbackOptions) -> Iterable[Observation]:
        counts = dict(self.counts)
        return [Observation(n, {"signal": signal, "outcome": end}) for (signal, end), n in counts.items()]

    def _requests(self, _: CallbackOptions) -> Iterable[Observation]:
        counts = dict(self._load.answers)
        return [
            Observation(n, {"signal": signal, "http.response.status_code": status})
            for (signal, status), n in counts.items()
        ]
