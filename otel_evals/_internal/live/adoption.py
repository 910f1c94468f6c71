"""Adds scoring to an existing tracer provider, and to the processors that are added to it later.

Capture is put in front of the provider's processors, and the exporters inside them are wrapped, so that
judged spans carry their scores. Both are done once per provider; configuring again replaces the pipeline.

Long for one module, because the SDK has no public API for this: its private fields, and those of wrappers
around it, are used here only. Each access is guarded: a provider that is built differently gets capture by
`add_span_processor`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit

from opentelemetry.context import Context
from opentelemetry.sdk._logs import LogRecordProcessor, ReadWriteLogRecord
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from otel_evals._internal.attach.hold import ScoringSpanExporter
from otel_evals._internal.attach.providers import unwrapped

_logger = logging.getLogger(__name__)
_MAX_DEPTH = 6
"""Where wrappers of tracer providers keep what they wrap: Logfire's proxy, for one."""
_PROCESSORS = (
    "processor",
    "_processor",
    "span_processor",
    "wrapped",
    "_wrapped",
    "processors",
    "_span_processors",
)
"""Where wrappers of span processors keep what they wrap."""
_STOP_SECONDS = 0.5
"""What held spans are given to leave when scoring ends; those behind a slow exporter go on leaving."""
_BATCH = "_batch_processor"
_EXPORTERS = ("span_exporter", "_exporter", "exporter")


class Front(Protocol):
    """The part of a pipeline that providers are connected to."""

    @property
    def spans(self) -> SpanProcessor:
        """Captures spans."""

    @property
    def log_records(self) -> LogRecordProcessor:
        """Captures log records."""

    def hold(self, exporter: SpanExporter) -> ScoringSpanExporter:
        """Wrap an exporter, so that judged spans carry their scores as attributes."""


class AdoptedExporter(SpanExporter):
    """Wraps an exporter: while there is a pipeline, judged spans are held for their scores.

    All other attributes are those of the exporter itself.
    """

    def __init__(self, exporter: SpanExporter) -> None:
        self._own = exporter
        self._held: ScoringSpanExporter | None = None
        self._leaving: ScoringSpanExporter | None = None
        """A hold that is over, and still has spans: its exporter is slow."""

    @property
    def holds(self) -> bool:
        """Whether judged spans are held."""
        return self._held is not None

    def hold_for(self, front: Front | None) -> None:
        """Hold spans for the scores of this pipeline from now on; None for no hold."""
        last = self._held or self._leaving
        self._leaving = None if last is None or last.stop(_STOP_SECONDS) else last
        self._held = None if front is None else front.hold(self._leaving or self._own)

    @property
    def _next(self) -> SpanExporter:
        return self._held or self._leaving or self._own

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Export through the hold, or directly if there is none."""
        return self._next.export(spans)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Release what is held and flush."""
        return self._next.force_flush(timeout_millis)

    def shutdown(self) -> None:
        """Release what is held and shut down."""
        self._next.shutdown()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_own"], name)


class _Spans(SpanProcessor):
    """Capture of whichever pipeline is configured, for providers whose processors cannot be replaced."""

    def __init__(self) -> None:
        self.target: SpanProcessor | None = None

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Pass a started span on."""
        if self.target is not None:
            self.target.on_start(span, parent_context)

    def on_end(self, span: ReadableSpan) -> None:
        """Pass an ended span on."""
        if self.target is not None:
            self.target.on_end(span)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Score what was captured."""
        return self.target is None or self.target.force_flush(timeout_millis)

    def shutdown(self) -> None:
        """Stop scoring."""
        if self.target is not None:
            self.target.shutdown()


class _Retired(SpanProcessor):
    """Exports the spans that a processor has, and takes no more."""

    def __init__(self, processor: SpanProcessor) -> None:
        self.processor = processor

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Export what is left."""
        return self.processor.force_flush(timeout_millis)

    def shutdown(self) -> None:
        """Export what is left, and stop."""
        self.processor.shutdown()


class _LogRecords(LogRecordProcessor):
    """Forwards log records to the capture of the configured pipeline."""

    def __init__(self) -> None:
        self.target: LogRecordProcessor | None = None

    def on_emit(self, log_record: ReadWriteLogRecord) -> None:
        """Pass a log record on."""
        if self.target is not None:
            self.target.on_emit(log_record)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Nothing is queued."""
        return True

    def shutdown(self) -> None:
        """Nothing to free."""


class _Adopted:
    """What stands in one tracer provider.

    Args:
        provider: the SDK's.
    """

    def __init__(self, provider: Any) -> None:
        self.exporters: list[AdoptedExporter] = []
        self.front: Front | None = None
        self.holds = False
        self._composite = getattr(provider, "_active_span_processor", None)
        self._indirect: _Spans | None = None
        if isinstance(getattr(self._composite, "_span_processors", None), tuple):
            self._wrap_later_ones()
        else:
            self._indirect = _Spans()
            provider.add_span_processor(self._indirect)

    def use(self, front: Front | None, *, holds: bool) -> None:
        """Connect capture and exporters to this pipeline."""
        before, self.front, self.holds = self.front, front, holds
        spans = None if front is None else front.spans
        if self._indirect is not None:
            self._indirect.target = spans
        else:
            self._place(spans, None if before is None else before.spans)
        for exporter in self.exporters:
            exporter.hold_for(front if holds else None)

    def others(self) -> list[SpanProcessor]:
        """The provider's processors but for ours."""
        placed = self._indirect or (None if self.front is None else self.front.spans)
        processors = getattr(self._composite, "_span_processors", ())
        return [processor for processor in processors if processor is not placed]

    def _place(self, spans: SpanProcessor | None, before: SpanProcessor | None) -> None:
        """Put capture in front of all exporters: a span must be announced before it is exported."""
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
            self._give_way(span_processor)

        composite.add_span_processor = add_and_wrap

    def _give_way(self, added: SpanProcessor) -> None:
        """Retire the exporter made here where a library adds its own to the same server: no span twice."""
        composite: Any = self._composite
        for made in [p for p in composite._span_processors if getattr(p, MADE, False)]:
            if _servers(added) & _servers(made):
                retired = _Retired(made)
                composite._span_processors = tuple(
                    retired if p is made else p for p in composite._span_processors
                )
                _logger.info("%s exports to the same server: our exporter gives way", type(added).__name__)

    def wrap(self, processor: SpanProcessor) -> bool:
        """Wrap the exporters inside a processor; whether there were any."""
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


MADE = "_otel_evals_made"
"""The field that tells a processor that was made here, for a process that had no exporter."""
_MARK = "_otel_evals_adopted"
"""The field of a provider in which its adoption is remembered: providers need not be hashable."""


def adopt(provider: Any, front: Front | None, *, wrap: bool) -> list[str]:
    """Have a provider's spans captured by a pipeline and, if asked, its exporters wrapped.

    Args:
        provider: an SDK's tracer provider, or a wrapper of one.
        front: the pipeline; None to stop.
        wrap: whether exporters are wrapped, those of processors added later too.

    Returns:
        The names of processors in which no exporter was found: their spans go on without scores.
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
    """A span processor of a provider."""

    processor: str
    exporter: str
    """Empty where none was found in it."""
    held: bool
    """Whether the exporter holds judged spans for their scores."""


def describe(provider: Any) -> list[Described]:
    """A provider's processors but for ours, and the exporters in them."""
    adopted = getattr(unwrapped(provider), _MARK, None)
    if adopted is None:
        return []
    found = []
    for processor in adopted.others():
        inside = [getattr(owner, name) for owner, name in _exporters(processor, _MAX_DEPTH)]
        for exporter in inside or [None]:
            own = exporter._own if isinstance(exporter, AdoptedExporter) else exporter
            held = isinstance(exporter, ScoringSpanExporter) or getattr(exporter, "holds", False) is True
            name = "" if own is None else type(own).__name__
            found.append(Described(processor=type(processor).__name__, exporter=name, held=held))
    return found


def same_provider(one: Any, other: Any) -> bool:
    """Whether two providers are one behind their wrappers."""
    return unwrapped(one) is unwrapped(other)


def adopt_logs(provider: Any, front: Front | None) -> None:
    """Have a logger provider's records captured by a pipeline; None to stop."""
    if not hasattr(provider, "add_log_record_processor"):
        return
    records = getattr(provider, _MARK, None)
    if records is None:
        records = _LogRecords()
        setattr(provider, _MARK, records)
        provider.add_log_record_processor(records)
    records.target = None if front is None else front.log_records


def _servers(processor: SpanProcessor) -> set[str]:
    """Host and port of the OTLP servers that a processor's exporters send to."""
    found = [getattr(owner, name) for owner, name in _exporters(processor, _MAX_DEPTH)]
    places = [_endpoint(exporter, _MAX_DEPTH) for exporter in found]
    return {urlsplit(p if "//" in p else f"//{p}").netloc for p in places} - {""}


def _endpoint(exporter: Any, depth: int) -> str:
    """The address that an exporter, or the one that it wraps, sends to; empty if it is not known."""
    fields = getattr(exporter, "__dict__", {})
    if depth == 0 or isinstance(fields.get("_endpoint"), str):
        return str(fields.get("_endpoint", ""))
    inside = (fields.get(name) for name in ("_own", *_EXPORTERS))
    return next((_endpoint(each, depth - 1) for each in inside if hasattr(each, "export")), "")


def _exporters(processor: Any, depth: int) -> Iterator[tuple[Any, str]]:
    """Find the exporters inside a processor: the object that has one, and the name of its field."""
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
