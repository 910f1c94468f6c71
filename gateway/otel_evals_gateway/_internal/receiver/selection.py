"""Selects the spans and log records to score: trace id and scope decide before attributes are read.

A span of a trace that no rule can sample costs a look at its trace id. A span of a scope that no convention
claims becomes a link, since claimed spans may be above and below it.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from otel_evals import semconv
from otel_evals.conventions import Conventions
from otel_evals.model import SpanRecord
from otel_evals.sdk.otlp import attributes_of, log_event, span_record
from otel_evals.sdk.pipeline import (
    CapturedLog,
    IntakeItem,
    RecordedSpan,
    UnclaimedSpan,
    credible_state,
    is_proof,
    is_sampled,
    keyed_state,
    state_marking,
)

_logger = logging.getLogger(__name__)
_MARKS = (semconv.MARK, semconv.MARK_PROOF)
_NO_TRACE = bytes(16)
_NO_SPAN = bytes(8)

Place = tuple[int, int, int]
"""Indices of resource, scope, and span or log record."""


@dataclass(slots=True, eq=False)
class Selection:
    """A message's selected items."""

    items: list[IntakeItem] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    """Position of each item: resource, scope, and span or log record."""
    trace_ids: list[str] = field(default_factory=list)
    """Trace of each item."""
    seen: int = 0
    """Spans or log records in the message."""
    rejected: Counter[str] = field(default_factory=Counter)
    """Malformed ones among them, by reason."""
    ignored: Counter[str] = field(default_factory=Counter)
    """Well-formed ones that are not scored: `sampled_out`, `evaluation_span`, `marked`. `mark_not_signed`
    counts spans that are scored in spite of their mark."""
    claimed: dict[Place, RecordedSpan] = field(default_factory=dict)
    roots: int = 0
    """Spans without a parent among the items."""
    kept: bool = True
    """False if the journal could not keep the items."""

    @property
    def traces(self) -> set[str]:
        return set(self.trace_ids)

    def add(self, item: IntakeItem, place: Place, trace_id: str, *, root: bool = False) -> None:
        self.items.append(item)
        self.places.append(place)
        self.trace_ids.append(trace_id)
        self.roots += root

    def is_top(self, span: SpanRecord) -> bool:
        """Return True if no span above this one can come in the sender's other requests."""
        links = {item.span_id: item.parent_span_id for item in self.items if isinstance(item, UnclaimedSpan)}
        above = None if span.parent_is_remote else span.parent_span_id
        for _ in links:
            if above not in links:
                break
            above = links[above]
        return above is None

    def judged(self, *, nested: bool) -> dict[Place, RecordedSpan]:
        """Return the claimed spans that may be judged: without a claimed parent here, or all if nested."""
        if nested:
            return self.claimed
        here = {item.span.span_id for item in self.claimed.values()}
        return {place: item for place, item in self.claimed.items() if item.span.parent_span_id not in here}


class Selector:
    """Selects items of traces that rules may sample, with a probability of up to `ceiling`."""

    def __init__(
        self, conventions: Conventions, ceiling: float, max_attributes: int, *, trust_remote: bool = False
    ) -> None:
        self._trust_remote = trust_remote
        self._warned = False
        self._conventions = conventions
        self._ceiling = ceiling
        self._max_attributes = max_attributes
        self._too_many = f"more than {max_attributes} attributes"

    def spans(self, message: Any) -> Selection:
        """Select from an ExportTraceServiceRequest."""
        selection = Selection()
        sampled: dict[bytes, bool] = {}
        for r, block in enumerate(message.resource_spans):
            resource: dict[str, Any] | None = None
            for s, scoped in enumerate(block.scope_spans):
                selection.seen += len(scoped.spans)
                scope = scoped.scope
                name = scope.name
                # Scores of scores would never end.
                if name == semconv.SCOPE_NAME:
                    selection.ignored["evaluation_span"] += len(scoped.spans)
                    continue
                for i, span in enumerate(scoped.spans):
                    trace_id = span.trace_id
                    # First and cheapest: most spans of a low rate end here.
                    if not self._may_be_sampled(trace_id, span.trace_state, sampled):
                        if len(trace_id) != 16 or trace_id == _NO_TRACE:
                            selection.rejected["no valid trace id"] += 1
                        else:
                            selection.ignored["sampled_out"] += 1
                        continue
                    if span.parent_span_id == _NO_SPAN:  # as some SDKs write that there is none
                        span.parent_span_id = b""
                    if problem := self._problem(span):
                        selection.rejected[problem] += 1
                    elif self._is_ours(span, selection):
                        selection.ignored["marked"] += 1
                    elif self._conventions.claims(name, _Keys(span)):
                        if resource is None:
                            resource = attributes_of(block.resource)
                        state = self._state(trace_id, span.trace_state)
                        item = RecordedSpan(span_record(span, resource, scope, state), 0)
                        selection.add(item, (r, s, i), item.span.trace_id, root=not span.parent_span_id)
                        selection.claimed[r, s, i] = item
                    else:
                        parent = span.parent_span_id
                        link = UnclaimedSpan(trace_id.hex(), span.span_id.hex(), parent.hex() or None)
                        selection.add(link, (r, s, i), link.trace_id, root=not parent)
        return selection

    def logs(self, message: Any) -> Selection:
        """Select from an ExportLogsServiceRequest: records of spans, with a name or content."""
        selection = Selection()
        sampled: dict[bytes, bool] = {}
        for r, block in enumerate(message.resource_logs):
            for s, scoped in enumerate(block.scope_logs):
                selection.seen += len(scoped.log_records)
                if scoped.scope.name == semconv.SCOPE_NAME:
                    continue
                for i, log in enumerate(scoped.log_records):
                    trace_id, span_id = log.trace_id, log.span_id
                    if len(span_id) != 8 or not self._may_be_sampled(trace_id, "", sampled):
                        continue
                    if len(log.attributes) > self._max_attributes:
                        selection.rejected[self._too_many] += 1
                        continue
                    event = log_event(log)
                    if self._conventions.claims_log(scoped.scope.name, event.name):
                        ids = int.from_bytes(trace_id), int.from_bytes(span_id)
                        selection.add(CapturedLog(*ids, event), (r, s, i), trace_id.hex())
        used = len(selection.items) + selection.rejected.total()
        selection.ignored["unused"] = selection.seen - used
        return selection

    def _may_be_sampled(self, trace_id: bytes, state: str, known: dict[bytes, bool]) -> bool:
        """Return True if any rule can sample this trace. The spans of a request share few traces."""
        state = self._state(trace_id, state)
        if "ot=" in state:
            return _valid(trace_id) and is_sampled(self._ceiling, int.from_bytes(trace_id), state)
        found = known.get(trace_id)
        if found is None:
            found = _valid(trace_id) and is_sampled(self._ceiling, int.from_bytes(trace_id))
            known[trace_id] = found
        return found

    def _state(self, trace_id: bytes, state: str) -> str:
        """Return the tracestate for sampling; an untrusted sender has no say in its randomness."""
        if "ot=" not in state:
            return state
        return (credible_state if self._trust_remote else keyed_state)(int.from_bytes(trace_id), state)

    def _problem(self, span: Any) -> str | None:
        if len(span.span_id) != 8 or span.span_id == _NO_SPAN:
            return "no valid span id"
        if len(span.parent_span_id) not in (0, 8):
            return "no valid parent span id"
        return self._too_many if len(span.attributes) > self._max_attributes else None

    def _is_ours(self, span: Any, selection: Selection) -> bool:
        """Return True for a span with a mark that counts; other marks are counted and logged once."""
        state = span.trace_state
        found = state_marking(state) if semconv.MARK_IN_TRACE_STATE in state else ""
        marks = {a.key: a.value.string_value for a in span.attributes if a.key in _MARKS}
        if is_proof(marks.get(semconv.MARK_PROOF), span.trace_id.hex(), span.span_id.hex()):
            # A proof names this very span, so it cannot be copied to another.
            found = "signed"
        if not found and not marks:
            return False
        if found == "signed" or self._trust_remote:
            return True
        selection.ignored["mark_not_signed"] += 1
        if not self._warned:
            self._warned = True
            _logger.warning(
                "a span says that an evaluation caused it, without this deployment's signature: it is scored;"
                " if it is from your own services, set OTEL_EVALS_TRUST_KEY to the same value in all of them"
            )
        return False


class _Keys:
    """The name of a span and the keys of its attributes, for conventions that claim spans by them."""

    __slots__ = ("_span",)

    def __init__(self, span: Any) -> None:
        self._span = span

    @property
    def name(self) -> str:
        return str(self._span.name)

    @property
    def attributes(self) -> Any:
        return [attribute.key for attribute in self._span.attributes]


def _valid(trace_id: bytes) -> bool:
    return len(trace_id) == 16 and trace_id != _NO_TRACE
