"""Adds scoring to an existing tracer provider, and to the processors that are added to it later.

Capture goes in front of the provider's processors, and their exporters are wrapped to add scores to judged
spans. Both happen once per provider; configuring again replaces the pipeline.

The SDK has no public API for this: this is the only module that uses private fields of the SDK and of
libraries that wrap it. Each access is guarded: a provider with other fields gets capture by
`add_span_processor`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from opentelemetry.context import Context
from opentelemetry.sdk._logs import LogRecordProcessor, ReadWriteLogRecord
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from otel_evals._internal.attach.hold import ScoringSpanExporter
from otel_evals._internal.attach.providers import unwrapped
from otel_evals._internal.pipeline.pipeline import Pipeline

_logger = logging.getLogger(__name__)
_MAX_DEPTH = 6
_PROCESSORS = (
    *("processor", "_processor", "span_processor", "wrapped", "_wrapped"),
    *("processors", "_span_processors"),
)
"""Fields in which wrappers of span processors keep them."""
_STOP_SECONDS = 0.5
"""Time for held spans to leave when scoring ends; a slow exporter continues afterwards."""
_BATCH = "_batch_processor"
_EXPORTERS = ("span_exporter", "_exporter", "exporter")


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
        return getattr(self.__dict__["_own"], name)


class _Spans(SpanProcessor):
    """Forwards spans to the capture of the configured pipeline, if processors cannot be replaced."""

    def __init__(self, target: SpanProcessor) -> None:
        self.target = target

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self.target.force_flush(timeout_millis)

    def shutdown(self) -> None:
        self.target.shutdown()

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        self.target.on_start(span, parent_context)

    def on_end(self, span: ReadableSpan) -> None:
        self.target.on_end(span)


class _LogRecords(LogRecordProcessor):
    """Forwards log records to the capture of the configured pipeline."""

    def __init__(self) -> None:
        self.target: LogRecordProcessor | None = None

    def on_emit(self, log_record: ReadWriteLogRecord) -> None:
        if self.target is not None:
            self.target.on_emit(log_record)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return True

    def shutdown(self) -> None:
        """Nothing to free."""


class _Adopted:
    """Scoring in one tracer provider of the SDK."""

    def __init__(self, provider: Any) -> None:
        self.exporters: list[AdoptedExporter] = []
        self.front: Pipeline | None = None
        self.holds = False
        self._composite = getattr(provider, "_active_span_processor", None)
        self._indirect: _Spans | None = None
        if isinstance(getattr(self._composite, "_span_processors", None), tuple):
            self._wrap_later_ones()
        else:
            self._indirect = _Spans(SpanProcessor())
            provider.add_span_processor(self._indirect)

    def use(self, front: Pipeline | None, *, holds: bool) -> None:
        before, self.front, self.holds = self.front, front, holds
        spans = None if front is None else front.spans
        if self._indirect is not None:
            self._indirect.target = spans or SpanProcessor()
        else:
            self._place(spans, None if before is None else before.spans)
        for exporter in self.exporters:
            exporter.hold_for(front if holds else None)

    def others(self) -> list[SpanProcessor]:
        placed = self._indirect or (None if self.front is None else self.front.spans)
        processors = getattr(self._composite, "_span_processors", ())
        return [processor for processor in processors if processor is not placed]

    def _place(self, spans: SpanProcessor | None, before: SpanProcessor | None) -> None:
        """Put capture in front of all exporters: a span must be captured before it is exported."""
        composite: Any = self._composite
        others = tuple(p for p in composite._span_processors if p is not before)
        composite._span_processors = others if spans is None else (spans, *others)

    def _wrap_later_ones(self) -> None:
        composite: Any = self._composite
        add = composite.add_span_processor

        def add_and_wrap(span_processor: SpanProcessor) -> None:
            if self.holds:
                self.wrap(span_processor)
            add(span_processor)

        composite.add_span_processor = add_and_wrap

    def wrap(self, processor: SpanProcessor) -> bool:
        """Wrap the exporters inside a processor; return False if it has none."""
        found = False
        for owner, name in _exporters(processor, _MAX_DEPTH):
            exporter = getattr(owner, name)
            found = True
            if isinstance(exporter, ScoringSpanExporter) or exporter in self.exporters:
                continue
            if not isinstance(exporter, AdoptedExporter):
                exporter = AdoptedExporter(exporter)
                setattr(owner, name, exporter)
            exporter.hold_for(self.front if self.holds else None)
            self.exporters.append(exporter)
        return found


_MARK = "_otel_evals_adopted"
"""Field of a provider with its adoption: providers need not be hashable."""


def adopt(provider: Any, front: Pipeline | None, *, wrap: bool) -> list[str]:
    """Capture a provider's spans and wrap its exporters, also those that are added later; None stops.

    Returns the names of processors in which no exporter was found: their spans are exported without scores.
    """
    provider = unwrapped(provider)
    adopted = getattr(provider, _MARK, None)
    if adopted is None:
        adopted = _Adopted(provider)
        setattr(provider, _MARK, adopted)
    adopted.use(front, holds=wrap)
    if not wrap or front is None:
        return []
    return [type(processor).__name__ for processor in adopted.others() if not adopted.wrap(processor)]


@dataclass(frozen=True, kw_only=True)
class Described:
    processor: str
    exporter: str
    """Empty if none was found in it."""
    held: bool
    """True if the exporter holds judged spans for their scores."""


def describe(provider: Any) -> list[Described]:
    """List a provider's processors except ours, and their exporters."""
    adopted = getattr(unwrapped(provider), _MARK, None)
    if adopted is None:
        return []
    found = []
    for processor in adopted.others():
        for exporter in _exporters_in(processor) or [None]:
            own = exporter._own if isinstance(exporter, AdoptedExporter) else exporter
            held = isinstance(exporter, ScoringSpanExporter) or getattr(exporter, "holds", False) is True
            name = "" if own is None else type(own).__name__
            found.append(Described(processor=type(processor).__name__, exporter=name, held=held))
    return found


def same_provider(one: Any, other: Any) -> bool:
    return unwrapped(one) is unwrapped(other)


def adopt_logs(provider: Any, front: Pipeline | None) -> None:
    """Capture a logger provider's records; None stops."""
    if not hasattr(provider, "add_log_record_processor"):
        return
    records = getattr(provider, _MARK, None)
    if records is None:
        records = _LogRecords()
        setattr(provider, _MARK, records)
        provider.add_log_record_processor(records)
    records.target = None if front is None else front.log_records


def _exporters_in(processor: SpanProcessor) -> list[Any]:
    return [getattr(owner, name) for owner, name in _exporters(processor, _MAX_DEPTH)]


def _exporters(processor: Any, depth: int) -> Iterator[tuple[Any, str]]:
    """Yield the exporters inside a processor, as owner and name of the field."""
    if depth == 0:
        return
    fields = getattr(processor, "__dict__", {})
    batch = fields.get(_BATCH)
    if batch is not None:
        yield from _exporters(batch, depth - 1)
    for name in _EXPORTERS:
        if hasattr(fields.get(name), "export"):
            yield processor, name
    for name in _PROCESSORS:
        inner = fields.get(name)
        for each in inner if isinstance(inner, list | tuple) else (inner,):
            if each is not None and hasattr(each, "on_end"):
                yield from _exporters(each, depth - 1)
