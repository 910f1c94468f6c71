"""In the engine's process: outcomes wait here a moment and go to the application's process in one piece.

With them go the books, taken at the same moment on the engine's thread, so that the parent knows at every
moment what was counted and what it has attached.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from otel_evals.attachment import Attacher
from otel_evals.attachment.attacher import Opened
from otel_evals.engine import Stats
from otel_evals.export import DestinationStats
from otel_evals.model import Evaluation, Operation, Run, SpanRecord

__all__ = ["Attached", "Books", "Relay", "Released", "Report"]

_GATHER_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Attached:
    """An outcome to attach."""

    run: Run
    """Only what attaching needs of it."""
    evaluation: Evaluation
    began: bool
    """Whether the scorer ever ran."""


@dataclass(frozen=True, slots=True)
class Released:
    """A span that nothing more will be attached to."""

    trace_id: str
    span_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """What the engine's process has counted."""

    stats: Stats
    destinations: Mapping[str, DestinationStats]
    received: int
    """Spans and log records that arrived so far."""
    open: int
    """Those of them that are not part of a finished run yet."""
    pending: int


@dataclass(frozen=True, slots=True)
class Report:
    """What happened since the last one."""

    items: tuple[Attached | Released, ...]
    books: Books


class Relay(Attacher):
    """Stands in for the attacher.

    Args:
        books: the books at this moment.
        send: sends a report.
        releases: whether the application holds spans.
    """

    def __init__(self, books: Callable[[], Books], send: Callable[[Report], None], *, releases: bool) -> None:
        super().__init__(None, None, None, None)
        self._books = books
        self._send = send
        self._releases = releases
        self._items: list[Attached | Released] = []
        self._armed = False
        self._sending = threading.Lock()
        self._last: Books | None = None

    def attach(self, run: Run, evaluation: Evaluation, opened: Opened | None) -> None:
        """Pass an outcome on."""
        self._put(Attached(_slim(run, evaluation), evaluation, opened is not None))

    def release(self, trace_id: str, span_id: str) -> None:
        """Pass on that a span may go."""
        if self._releases:
            self._put(Released(trace_id, span_id))

    def flush(self) -> None:
        """Send what is there, unless nothing has changed; on the engine's thread, or when it has ended."""
        with self._sending:
            items, self._items, self._armed = tuple(self._items), [], False
            books = self._books()
            if items or books != self._last:
                self._last = books
                self._send(Report(items, books))

    def _put(self, item: Attached | Released) -> None:
        self._items.append(item)
        if not self._armed:
            self._armed = True
            asyncio.get_running_loop().call_later(_GATHER_SECONDS, self.flush)


def _slim(run: Run, evaluation: Evaluation) -> Run:
    """The run without its content."""
    judged = next((o for o in run.operations if o.span_id == evaluation.span_id), None)
    return Run(
        trace_id=run.trace_id,
        root_span_id=run.root_span_id,
        root_kind=run.root_kind,
        operations=(_bare(judged),) if judged is not None and judged.response_id else (),
        agent_name=run.agent_name,
        agent_version=run.agent_version,
        conversation_id=run.conversation_id,
        models=run.models,
        provider=run.provider,
        trace_flags=run.trace_flags,
        trace_state=run.trace_state,
        turns=tuple(_slim(turn, evaluation) for turn in run.turns),
    )


def _bare(operation: Operation) -> Operation:
    span = SpanRecord(trace_id=operation.span.trace_id, span_id=operation.span_id)
    return Operation(
        span=span, kind=operation.kind, dialect=operation.dialect, response_id=operation.response_id
    )
