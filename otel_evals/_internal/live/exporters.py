"""Exporters inside span processors, found and replaced by ones that hold judged spans for their scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from otel_evals._internal.attach.scoring_exporter import ScoringSpanExporter
from otel_evals._internal.live.pipeline import Pipeline

_MAX_DEPTH = 6
_MAX_FOUND = 100
"""Fields that are examined in one processor and those inside it."""
_STOP_SECONDS = 0.5
"""Time for held spans to leave when scoring ends; a slow exporter continues afterwards."""
_BATCH = "_batch_processor"
_EXPORTERS = ("span_exporter", "_exporter", "exporter")
"""Fields whose value is an exporter even if its class is not the SDK's."""
_Place = tuple[Any, str, Any, Callable[[Any], object]]
"""An object, the name of its field, a value in it, and a function that replaces the value."""


class AdoptedExporter(SpanExporter):
    """Wraps an exporter: while there is a pipeline, judged spans are held for their scores.

    Other attributes are read from the exporter.
    """

    def __init__(self, exporter: SpanExporter) -> None:
        self._own = exporter
        self._held: ScoringSpanExporter | None = None
        self._leaving: ScoringSpanExporter | None = None
        """A stopped hold that still has spans, because its exporter is slow."""

    @property
    def holds(self) -> bool:
        return self._held is not None

    def hold_for(self, front: Pipeline | None) -> None:
        """Hold spans for the scores of this pipeline; None stops holding."""
        last = self._held or self._leaving
        self._leaving = None if last is None or last.stop(_STOP_SECONDS) else last
        # A new hold exports through the one that still leaves: exporters need not be thread-safe.
        self._held = None if front is None else front.hold(self._leaving or self._own)

    @property
    def _next(self) -> SpanExporter:
        return self._held or self._leaving or self._own

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return self._next.export(spans)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._next.force_flush(timeout_millis)

    def shutdown(self) -> None:
        self._next.shutdown()

    def __getattr__(self, name: str) -> Any:
        # By `__dict__`: an object that is being copied has no `_own` yet, and would ask here for ever.
        return getattr(self.__dict__["_own"], name)


def exporters_in(processor: Any) -> list[_Place]:
    """Return the exporters inside a processor, found by interface: wrappers name their fields freely."""
    found: list[_Place] = []
    seen: set[int] = set()

    def examine(owner: Any, depth: int) -> None:
        for _, name, value, put in _places(owner):
            if len(seen) + len(found) >= _MAX_FOUND or depth == 0:
                continue
            if isinstance(value, SpanExporter) or (name in _EXPORTERS and hasattr(value, "export")):
                found.append((owner, name, value, put))
            elif id(value) in seen:
                continue
            elif name == _BATCH or hasattr(value, "on_end"):
                seen.add(id(value))
                examine(value, depth - 1)

    examine(processor, _MAX_DEPTH)
    return found


def _places(owner: Any) -> Iterator[_Place]:
    """Yield the values of an object's fields, and the values in lists and tuples there."""
    for name, value in list(getattr(owner, "__dict__", {}).items()):
        if isinstance(value, list):
            items = list(enumerate(value))[:_MAX_FOUND]
            yield from ((owner, name, each, partial(value.__setitem__, place)) for place, each in items)
        elif isinstance(value, tuple):
            yield from ((owner, name, each, partial(_put, owner, name, each)) for each in value)
        else:
            yield owner, name, value, partial(setattr, owner, name)


def _put(owner: Any, name: str, old: Any, new: Any) -> None:
    """Replace a value in a tuple."""
    setattr(owner, name, tuple(new if each is old else each for each in getattr(owner, name)))
