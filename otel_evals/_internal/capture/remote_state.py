"""What requests bring along from other services, and how much of it is believed.

Whoever sends a request writes its `baggage` and `tracestate`. So a mark counts if it is signed, and the
sampling threshold of a request (`ot=th:` in its tracestate) does not count at all, unless everything is
trusted, because a proxy at the edge removes these headers.
"""

from __future__ import annotations

import logging
from collections import Counter

from opentelemetry.context import Context
from opentelemetry.trace import SpanContext, TraceState

from otel_evals._internal.recursion import TRUST_KEY, marking

_logger = logging.getLogger(__name__)
_MOST_TRACES = 10_000


class RemoteState:
    """Decides about the state of requests, and counts.

    Args:
        trust_all: believe everything.
    """

    def __init__(self, *, trust_all: bool = False) -> None:
        self._trust_all = trust_all
        self.traces: dict[int, None] = {}
        """Traces whose tracestate is not believed, the latest ones."""
        self.counts: Counter[str] = Counter()
        """`marked`: requests that are not scored, as evaluations of this deployment sent them.
        `mark_not_signed`: requests that are scored although they say so.
        `threshold_not_trusted`: requests whose sampling threshold is left out of account."""

    def trusts(self, state: TraceState) -> bool:
        """Whether a tracestate is believed, whoever wrote it: nothing in it is about sampling, or all is."""
        return self._trust_all or "ot" not in state

    def note(self, context: SpanContext) -> None:
        """Note the tracestate of a span whose parent is remote."""
        if not context.trace_state or self.trusts(context.trace_state):
            return
        if context.trace_id not in self.traces:
            self.counts["threshold_not_trusted"] += 1
            self.traces[context.trace_id] = None
            if len(self.traces) > _MOST_TRACES:
                self.traces.pop(next(iter(self.traces)), None)

    def is_ours(self, context: Context | None, parent: SpanContext | None) -> bool:
        """Whether a span with no span of ours above it belongs to an evaluation."""
        found = marking(context, parent)
        if found == "unsigned" and not self._trust_all:
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
