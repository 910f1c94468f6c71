"""Capture in process: a span processor and a log-record processor.

Both run on the application's threads, so they do little: a ratio test on the trace id, a look-up of the
convention, and an append. They parse nothing, never wait and never raise.

They also decide which span is the root of a run, because only they know which spans above are still open:
a claimed span below no open claimed span is a root.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final

from opentelemetry import context as context_api
from opentelemetry.context import Context
from opentelemetry.sdk._logs import LogRecordProcessor, ReadWriteLogRecord
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
from opentelemetry.trace import DEFAULT_TRACE_STATE, SpanContext, TraceState, format_span_id, format_trace_id

from otel_evals import semconv
from otel_evals._internal.capture.backlog import Intake
from otel_evals._internal.capture.items import CapturedLog, CapturedSpan, OpenSpans
from otel_evals._internal.model import SpanEvent
from otel_evals._internal.model.convention import Conventions
from otel_evals._internal.sampling.consistent import credible_state, randomness, threshold
from otel_evals._internal.trust.keys import TRUST_KEY, proof_of
from otel_evals._internal.trust.marks import marking, need_span
from otel_evals._internal.util.bounded_cache import BoundedCache

_logger = logging.getLogger(__name__)
_MAX_OPEN = 50_000
_MOST_TRACES = 10_000
_UNSEEN: Any = object()
GUARD: Final = context_api.create_key("otel-evals-guard")
"""Context value of a guarded call: a list, to which ids of the traces that begin in it are added."""
# Places in a `SpanContext`, which is a tuple: its properties cost a call each.
_TRACE_ID: Final = 0
_SPAN_ID: Final = 1
_TRACE_STATE: Final = 4


class RemoteState:
    """Decides how far to believe the `baggage` and `tracestate` of requests, and counts.

    Any sender can write these headers. So a mark counts only if it is signed, and the sampling threshold of a
    request (`ot=th:` in its tracestate) does not count, unless `trust_all` says that a proxy at the edge
    removes these headers.
    """

    def __init__(self, *, trust_all: bool = False) -> None:
        self._trust_all = trust_all
        self.traces: BoundedCache[int, None] = BoundedCache(_MOST_TRACES)
        """The latest traces whose tracestate is not believed."""
        self.counts: Counter[str] = Counter()
        """`marked`: requests that are not scored because evaluations of this deployment sent them.
        `mark_not_signed`: requests with an unsigned mark, which are scored.
        `threshold_not_trusted`: requests whose sampling threshold is ignored."""

    def trusts(self, state: TraceState) -> bool:
        """Return True if a tracestate is believed: everything is, or it says nothing of sampling."""
        return self._trust_all or "ot" not in state

    def note(self, context: SpanContext) -> None:
        if not context.trace_state or self.trusts(context.trace_state):
            return
        # Counted once per trace: all spans of a request carry its tracestate.
        if context.trace_id not in self.traces:
            self.counts["threshold_not_trusted"] += 1
            self.traces[context.trace_id] = None

    def is_ours(self, context: Context | None, parent: SpanContext | None) -> bool:
        """Return True if a span without a captured span above it belongs to an evaluation."""
        found = marking(context, parent)
        if found == "unsigned" and not self._trust_all:
            # Logged once: any sender can repeat the mark.
            if not self.counts["mark_not_signed"]:
                _logger.warning(
                    "a request says that an evaluation sent it, without this deployment's signature: it is"
                    " scored; if it came from your own judges, set %s to the same value in all services",
                    TRUST_KEY,
                )
            self.counts["mark_not_signed"] += 1
            return False
        if found in ("signed", "unsigned"):
            self.counts["marked"] += 1
        return found != ""


@dataclass(eq=False, repr=False)
class CaptureSpans(SpanProcessor):
    """Hands claimed spans of possibly sampled traces to the engine.

    Args:
        ceiling: the highest sampling probability of any rule; traces rejected at it are ignored.
        expect: called with trace id and span id of each span that a score may be attached to.
        trust_remote: believe marks and thresholds of all requests.
        nested_targets: spans other than roots may be scored.
        flush: called by `force_flush` with milliseconds.
        close: called by `shutdown`.
    """

    intake: Intake
    conventions: Conventions
    ceiling: float
    expect: Callable[[int, int], None] | None = None
    _: KW_ONLY
    trust_remote: bool = False
    nested_targets: bool = False
    open_spans: OpenSpans = field(default_factory=OpenSpans)
    flush: Callable[[int], bool] = lambda _: True
    close: Callable[[], object] = lambda: None

    def __post_init__(self) -> None:
        self._floor = threshold(self.ceiling)
        self._open = self.open_spans.by_id
        self._foreign = RemoteState(trust_all=self.trust_remote)

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Remember an open span for the spans below it; None marks a span of an evaluation."""
        try:
            context = span.context
            parent = span.parent
            above = _UNSEEN if parent is None else self._open.get(parent[_SPAN_ID], _UNSEEN)
            if above is _UNSEEN:
                if parent is not None and parent.is_remote:
                    self._foreign.note(context)
                if self.open_spans.checks:
                    self._note_guard(context[_TRACE_ID], parent_context)
                # A span that no rule can sample is not remembered; those below it decide the same.
                if self._loses(context):
                    return
                ours = self._foreign.is_ours(parent_context, parent)
            else:
                ours = above is None
            if ours:
                # Readers of the exported trace recognise an evaluation's spans by these.
                ids = format_trace_id(context[_TRACE_ID]), format_span_id(context[_SPAN_ID])
                span.set_attributes({semconv.MARK: True, semconv.MARK_PROOF: proof_of(*ids)})
                need_span(parent_context)
            self._open[context[_SPAN_ID]] = None if ours else span
            if len(self._open) > _MAX_OPEN:
                # The oldest, which may never end; in batches, since copying all ids is slow.
                for span_id in list(self._open)[: _MAX_OPEN // 10]:
                    self._open.pop(span_id, None)
        except Exception:
            _logger.debug("a started span was not captured", exc_info=True)

    def on_end(self, span: ReadableSpan) -> None:
        span_id = 0
        try:
            context: Any = span.context
            span_id = context[_SPAN_ID]
            opened = self._open.get(span_id, _UNSEEN)
            if opened is None or (opened is _UNSEEN and self._loses(context)) or not self._claims(span):
                return
            owner = self._owner(span)
            if self.expect is not None and (owner == 0 or self.nested_targets):
                self.expect(context[_TRACE_ID], span_id)
            foreign = self._is_foreign(span, context)
            # Only a root is marked: the run below it is what may be incomplete.
            lacking = not owner and context[_TRACE_ID] in self.intake.backlog.traces
            self.intake.put(CapturedSpan(span, owner, foreign, lacking), owner == 0)
        except Exception:
            _logger.debug("an ended span was not captured", exc_info=True)
        finally:  # last: assembly takes a span that is not open for one that was handed over
            self._open.pop(span_id, None)

    def capture_all(self) -> None:
        """Capture all traces from now on: the answer of any may be checked."""
        if not self.open_spans.checks:
            self.open_spans.checks, self.ceiling, self._floor = True, 1.0, 0

    def _note_guard(self, trace_id: int, context: Context | None) -> None:
        traces: Any = context_api.get_value(GUARD, context)
        if traces is not None:
            traces.append(trace_id)
            self.open_spans.guarded.add(trace_id)

    def keeps(self, trace_id: int, span_id: int) -> bool:
        return self._open.get(span_id) is not None or randomness(trace_id) >= self._floor

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Score the captured spans, in half the given time.

        The other half, and the result, are left to the processors that export: a provider may skip those
        after one that took all the time or failed.
        """
        self.flush(timeout_millis // 2)
        return True

    def shutdown(self) -> None:
        """Score or count the captured spans, and stop."""
        self.close()

    @property
    def remote(self) -> Counter[str]:
        return self._foreign.counts

    @property
    def in_run(self) -> bool:
        """True while a span is open that a convention claims."""
        return any(span is not None and self._claims(span) for span in list(self._open.values()))

    def reset(self) -> None:
        """Forget all open spans: in a forked child they belong to the parent process."""
        self._open.clear()
        self.open_spans.guarded.clear()

    def _is_foreign(self, span: ReadableSpan, context: SpanContext) -> bool:
        """Return True if an untrusted sender wrote the span's tracestate, however long ago."""
        state = context[_TRACE_STATE]
        # Identity first: the truth of a state costs a Python call.
        if state is DEFAULT_TRACE_STATE or not state or self._foreign.trusts(state):
            return False
        if context[_TRACE_ID] in self._foreign.traces:
            return True
        parent = span.parent
        while parent is not None and not parent.is_remote:
            above = self._open.get(parent[_SPAN_ID])
            parent = None if above is None else above.parent
        return parent is not None

    def _loses(self, context: SpanContext) -> bool:
        floor = self._floor
        # With a threshold of 0, every trace may be sampled.
        if floor == 0:
            return False
        state = context[_TRACE_STATE]
        if state is not DEFAULT_TRACE_STATE and state:
            trace_id, trusted = context[_TRACE_ID], context[_TRACE_ID] not in self._foreign.traces
            header = credible_state(trace_id, state.to_header(), trusted=trusted)
            return randomness(context[_TRACE_ID], header) < threshold(self.ceiling, header)
        return randomness(context[_TRACE_ID]) < floor

    def _claims(self, span: ReadableSpan) -> bool:
        scope = span.instrumentation_scope
        return self.conventions.claims(scope.name if scope else "", span)

    def _owner(self, span: ReadableSpan) -> int:
        parent = span.parent
        while parent is not None:
            above = self._open.get(parent[_SPAN_ID])
            if above is None:
                return 0
            if self._claims(above):
                return parent[_SPAN_ID]
            parent = above.parent
        return 0


@dataclass(eq=False, repr=False)
class CaptureLogRecords(LogRecordProcessor):
    """Hands log records that carry content of GenAI spans to the engine."""

    intake: Intake
    keeps: Callable[[int, int], bool]
    """Returns True if a span's trace may be sampled; `CaptureSpans.keeps`."""
    claims: Callable[[str, str], bool] = lambda _, event_name: bool(event_name)
    """Returns True if a record of this scope and name may have content; `Conventions.claims_log`."""

    def on_emit(self, log_record: ReadWriteLogRecord) -> None:
        """Hand over a record of a span, unless an evaluation logged it or no rule samples its trace."""
        try:
            record = log_record.log_record
            trace_id, span_id = record.trace_id, record.span_id
            # A record outside of any span has no ids, or zeros.
            if not trace_id or not span_id or not self.keeps(trace_id, span_id):
                return
            scope = log_record.instrumentation_scope
            if scope is not None and scope.name == semconv.SCOPE_NAME:
                return
            attributes = dict(record.attributes or {})
            name = record.event_name or str(attributes.get("event.name") or "")
            if self.claims(scope.name if scope is not None else "", name):
                event = SpanEvent(
                    name=name,
                    time=record.timestamp or record.observed_timestamp or 0,
                    attributes=attributes,
                    body=record.body,
                    dropped_attributes=getattr(record, "dropped_attributes", 0),
                )
                self.intake.put(CapturedLog(trace_id, span_id, event))
        except Exception:
            _logger.debug("a log record was not captured", exc_info=True)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Nothing waits here."""
        return True

    def shutdown(self) -> None:
        """Nothing to release."""
