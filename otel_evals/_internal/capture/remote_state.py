"""Decides how far to believe the `baggage` and `tracestate` of requests.

Any sender can write these headers. So a mark counts only if it is signed, and the sampling threshold of a
request (`ot=th:` in its tracestate) does not count, unless everything is trusted because a proxy at the edge
removes these headers.
"""

from __future__ import annotations

import logging
from collections import Counter

from opentelemetry.context import Context
from opentelemetry.trace import SpanContext, TraceState

from otel_evals._internal.trust.keys import TRUST_KEY
from otel_evals._internal.trust.marks import marking
from otel_evals._internal.util.bounded_cache import BoundedCache

_logger = logging.getLogger(__name__)
_MOST_TRACES = 10_000


class RemoteState:
    """Decides about the headers of requests, and counts; `trust_all` believes everything."""

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
