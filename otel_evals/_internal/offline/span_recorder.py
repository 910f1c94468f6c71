"""Records the spans of a call or a period, with the capture of the live pipeline."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

from msgspec.structs import replace
from opentelemetry import _logs, trace
from opentelemetry import context as context_api
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.trace import INVALID_SPAN, format_span_id, format_trace_id

from otel_evals._internal.capture.backlog import Backlog
from otel_evals._internal.capture.items import CapturedItem, CapturedLog, CapturedSpan
from otel_evals._internal.capture.processors import CaptureLogRecords, CaptureSpans
from otel_evals._internal.model import Run, SpanEvent, SpanRecord
from otel_evals._internal.model.convention import Conventions, load_conventions
from otel_evals._internal.read.runs import read_runs
from otel_evals.errors import ConfigError

_KEY = context_api.create_key("otel-evals-recording")
_POLL_SECONDS = 0.005


class Recording:
    def __init__(self, conventions: Conventions) -> None:
        self._conventions = conventions
        self.items: list[CapturedItem] = []
        """Claimed spans in the order of their ends, and log records."""
        self.open: set[int] = set()
        """Ids of spans that have not ended."""

    def wait(self, seconds: float) -> None:
        """Block the calling thread until no span is open, for at most `seconds`."""
        deadline = time.monotonic() + seconds
        while self.open and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)

    def runs(self) -> list[Run]:
        """Assemble the recorded spans to runs, in the order of their ends."""
        logs: dict[tuple[str, str], list[SpanEvent]] = defaultdict(list)
        for item in self.items:
            if isinstance(item, CapturedLog):
                logs[format_trace_id(item.trace_id), format_span_id(item.span_id)].append(item.event)
        traces: dict[str, list[SpanRecord]] = defaultdict(list)
        links: dict[str, str | None] = {}
        for item in self.items:
            if isinstance(item, CapturedSpan):
                record = item.record()
                events = logs.get((record.trace_id, record.span_id))
                if events:
                    record = replace(record, logs=tuple(events))
                traces[record.trace_id].append(record)
                if item.owner and format_span_id(item.owner) != record.parent_span_id:
                    links[record.span_id] = format_span_id(item.owner)
        found = read_runs(traces.values(), self._conventions, links)
        return sorted(found, key=lambda run: run.end_time or run.start_time)


class SpanRecorder(SpanProcessor):
    """A span processor that records while a recording is active, and is idle otherwise."""

    def __init__(self, conventions: Conventions) -> None:
        self._conventions = conventions
        self.backlog = Backlog(1, 1)  # nothing waits here
        self._capture = CaptureSpans(self, conventions, 1.0)
        self._recordings: set[Recording] = set()
        self._everything: Recording | None = None
        self._by_trace: dict[int, Recording] = {}
        self.log_records = CaptureLogRecords(
            self, lambda trace_id, _: trace_id in self._by_trace, conventions.claims_log
        )

    @contextmanager
    def record_context(self) -> Iterator[Recording]:
        """Record the spans that start in this context and in copies of it, as separate traces."""
        recording = Recording(self._conventions)
        # Without a parent: the spans of each item become a separate trace, also inside another span.
        context = trace.set_span_in_context(INVALID_SPAN, context_api.set_value(_KEY, recording))
        self._recordings.add(recording)
        token = context_api.attach(context)
        try:
            yield recording
        finally:
            context_api.detach(token)
            self._end(recording)

    @contextmanager
    def record_all(self) -> Iterator[Recording]:
        """Record all spans that start during the recording, in any thread or context."""
        recording = self._everything = Recording(self._conventions)
        self._recordings.add(recording)
        try:
            yield recording
        finally:
            self._everything = None
            self._end(recording)

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        if not self._recordings:
            return
        # By trace: children may start in contexts that lost the key, such as those of other threads.
        recording = self._by_trace.get(span.context.trace_id)
        if recording is None:
            found: Any = context_api.get_value(_KEY, parent_context) or self._everything
            if found not in self._recordings:
                return
            recording = self._by_trace[span.context.trace_id] = found
        recording.open.add(span.context.span_id)
        self._capture.on_start(span, parent_context)

    def on_end(self, span: ReadableSpan) -> None:
        context: Any = span.context
        recording = self._by_trace.get(context.trace_id)
        if recording is not None:
            self._capture.on_end(span)
            recording.open.discard(context.span_id)

    def put(self, item: CapturedItem, ends_run: bool = False) -> None:
        """Add a captured item to its recording; called by capture."""
        captured: Any = item
        context = item if isinstance(item, CapturedLog) else captured.span.context
        recording = self._by_trace.get(context.trace_id)
        if recording is not None:
            recording.items.append(item)

    def shutdown(self) -> None:
        """Do nothing."""

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Return True: nothing is queued."""
        return True

    def _end(self, recording: Recording) -> None:
        self._recordings.discard(recording)
        for trace_id in [t for t, owner in list(self._by_trace.items()) if owner is recording]:
            self._by_trace.pop(trace_id, None)
        if not self._recordings:
            self._capture.reset()


_recorders: WeakKeyDictionary[Any, SpanRecorder] = WeakKeyDictionary()
_log_recorders: WeakKeyDictionary[Any, list[SpanRecorder]] = WeakKeyDictionary()


def recorder_for(tracer_provider: Any = None, logger_provider: Any = None) -> SpanRecorder:
    """Return the recorder of a provider, by default of the global one; it is created and set if missing.

    A provider has at most one recorder, because span processors cannot be removed.
    """
    provider: Any = tracer_provider or trace.get_tracer_provider()
    if isinstance(provider, trace.ProxyTracerProvider):
        trace.set_tracer_provider(TracerProvider())
        provider = trace.get_tracer_provider()
    if not hasattr(provider, "add_span_processor"):
        problem = f"a {type(provider).__name__} takes no span processors; give the SDK's TracerProvider"
        raise ConfigError("tracer_provider", problem)
    # Otherwise every call would add another processor, for as long as the provider lives.
    if provider not in _recorders:
        _recorders[provider] = SpanRecorder(load_conventions())
        provider.add_span_processor(_recorders[provider])
    recorder = _recorders[provider]
    loggers: Any = logger_provider or _logs.get_logger_provider()
    if hasattr(loggers, "add_log_record_processor"):
        attached = _log_recorders.setdefault(loggers, [])
        if recorder not in attached:
            attached.append(recorder)
            loggers.add_log_record_processor(recorder.log_records)
    return recorder
