"""Captures the spans of one call, or of a while, through the same capture as the live pipeline."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

from opentelemetry import _logs, trace
from opentelemetry import context as context_api
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.trace import INVALID_SPAN, format_span_id, format_trace_id

from otel_evals.assembly import find_runs
from otel_evals.assembly.scattered import join_scattered
from otel_evals.capture import CaptureLogRecords, CaptureSpans, EndedSpan, LogOfSpan
from otel_evals.dialect import Dialects, load_dialects
from otel_evals.errors import ConfigError
from otel_evals.model import Run, SpanEvent, SpanRecord

__all__ = ["Recorder", "Take", "recorder_of"]

_KEY = context_api.create_key("otel-evals-take")
_POLL_SECONDS = 0.005


class Take:
    """What was captured in one go."""

    def __init__(self, dialects: Dialects) -> None:
        self._dialects = dialects
        self.items: list[EndedSpan | LogOfSpan] = []
        """Claimed spans in the order of their ends, and log records."""
        self.open: set[int] = set()
        """Ids of spans that have not ended."""

    async def settled(self, seconds: float) -> None:
        """Wait until no span is open, at most so long."""
        if self.open:
            await asyncio.to_thread(self.wait, seconds)

    def wait(self, seconds: float) -> None:
        """Block the calling thread until no span is open, at most so long."""
        deadline = time.monotonic() + seconds
        while self.open and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)

    def runs(self) -> list[Run]:
        """The runs that the spans tell of, by the time they ended."""
        logs: dict[str, list[SpanEvent]] = defaultdict(list)
        for item in self.items:
            if isinstance(item, LogOfSpan):
                logs[format_trace_id(item.trace_id) + format_span_id(item.span_id)].append(item.event)
        traces: dict[str, list[SpanRecord]] = defaultdict(list)
        links: dict[str, str | None] = {}
        for item in self.items:
            if isinstance(item, EndedSpan):
                record = item.record()
                held = logs.get(record.trace_id + record.span_id)
                traces[record.trace_id].append(replace(record, logs=tuple(held)) if held else record)
                if item.owner and format_span_id(item.owner) != record.parent_span_id:
                    links[record.span_id] = format_span_id(item.owner)
        found = (run for spans in traces.values() for run in find_runs(spans, self._dialects, links))
        return sorted(join_scattered(found), key=lambda run: run.end_time or run.start_time)


class Recorder(SpanProcessor):
    """A span processor that is idle but for the takes under way.

    Args:
        dialects: who claims spans.
    """

    def __init__(self, dialects: Dialects) -> None:
        self._dialects = dialects
        self._capture = CaptureSpans(self, dialects, 1.0)
        self._takes: set[Take] = set()
        self._everything: Take | None = None
        self._by_trace: dict[int, Take] = {}
        self.log_records = CaptureLogRecords(self, lambda trace_id, _: trace_id in self._by_trace)

    @contextmanager
    def one(self) -> Iterator[Take]:
        """Capture what begins in this context, and whatever runs in copies of it, as traces of their own."""
        take = Take(self._dialects)
        context = trace.set_span_in_context(INVALID_SPAN, context_api.set_value(_KEY, take))
        self._takes.add(take)
        token = context_api.attach(context)
        try:
            yield take
        finally:
            context_api.detach(token)
            self._end(take)

    @contextmanager
    def all(self) -> Iterator[Take]:
        """Capture everything that begins from now on, in whatever thread or context."""
        take = self._everything = Take(self._dialects)
        self._takes.add(take)
        try:
            yield take
        finally:
            self._everything = None
            self._end(take)

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Find out whose span it is."""
        if not self._takes:
            return
        take = self._by_trace.get(span.context.trace_id)
        if take is None:
            found: Any = context_api.get_value(_KEY, parent_context) or self._everything
            if found not in self._takes:
                return
            take = self._by_trace[span.context.trace_id] = found
        take.open.add(span.context.span_id)
        self._capture.on_start(span, parent_context)

    def on_end(self, span: ReadableSpan) -> None:
        """Take it, if a dialect claims it."""
        context: Any = span.context
        take = self._by_trace.get(context.trace_id)
        if take is not None:
            self._capture.on_end(span)
            take.open.discard(context.span_id)

    def put(self, item: EndedSpan | LogOfSpan) -> None:
        """Where capture hands over what is claimed."""
        context: Any = item.span.context if isinstance(item, EndedSpan) else item
        take = self._by_trace.get(context.trace_id)
        if take is not None:
            take.items.append(item)

    def shutdown(self) -> None:
        """Nothing to release."""

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Nothing waits here."""
        return True

    def _end(self, take: Take) -> None:
        self._takes.discard(take)
        for trace_id in [t for t, owner in list(self._by_trace.items()) if owner is take]:
            self._by_trace.pop(trace_id, None)
        if not self._takes:
            self._capture.reset()


_recorders: WeakKeyDictionary[Any, Recorder] = WeakKeyDictionary()
_heard: WeakKeyDictionary[Any, list[Recorder]] = WeakKeyDictionary()


def recorder_of(tracer_provider: Any = None, logger_provider: Any = None) -> Recorder:
    """The recorder on a provider, or on the global one; the SDK's is made and set where there is none.

    A provider gets no more than one: span processors cannot be taken off again.

    Raises:
        ConfigError: the tracer provider is not the SDK's.
    """
    provider: Any = tracer_provider or trace.get_tracer_provider()
    if isinstance(provider, trace.ProxyTracerProvider):
        trace.set_tracer_provider(TracerProvider())
        provider = trace.get_tracer_provider()
    if not hasattr(provider, "add_span_processor"):
        problem = f"a {type(provider).__name__} takes no span processors; give the SDK's TracerProvider"
        raise ConfigError("tracer_provider", problem)
    if provider not in _recorders:
        _recorders[provider] = Recorder(load_dialects())
        provider.add_span_processor(_recorders[provider])
    recorder = _recorders[provider]
    loggers: Any = logger_provider or _logs.get_logger_provider()
    heard = _heard.setdefault(loggers, []) if hasattr(loggers, "add_log_record_processor") else [recorder]
    if recorder not in heard:
        heard.append(recorder)
        loggers.add_log_record_processor(recorder.log_records)
    return recorder
