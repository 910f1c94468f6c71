"""In the engine's process: sends outcomes to the application's process, in batches, with the counters.

The counters are read on the engine's thread when a batch is sent, so that what the parent has counted and
what it has attached always agree.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from otel_evals import semconv
from otel_evals._internal.accounting.counters import Stats
from otel_evals._internal.attach.attacher import Attacher, Opened
from otel_evals._internal.deliver.counts import DestinationStats
from otel_evals._internal.deliver.record import tenant_of
from otel_evals._internal.model import Evaluation, Operation, OperationKind, Run, SpanRecord

__all__ = ["Attached", "Counts", "Expected", "Relay", "Released", "Report"]

_GATHER_SECONDS = 0.02
_MAX_EXPECTED = 10_000


@dataclass(frozen=True, slots=True)
class Attached:
    """An outcome to attach."""

    run: Run
    """The run, without its content."""
    evaluation: Evaluation
    began: bool
    """Whether the scorer was started."""
    needs_span: bool
    """Whether an evaluation span is recorded in any case."""


@dataclass(frozen=True, slots=True)
class Expected:
    """A rule that scores a run of an agent, in a version and for a tenant, for the first time."""

    rule: str
    agent: str | None
    version: str | None = None
    tenant: str | None = None

    @property
    def run(self) -> Run:
        """A run that stands for all of these."""
        return Run(
            trace_id="",
            root_span_id="",
            root_kind=OperationKind.AGENT,
            agent_name=self.agent,
            agent_version=self.version,
            resource=_tenant(self.tenant),
        )


@dataclass(frozen=True, slots=True)
class Released:
    """A span to release: nothing more will be attached to it."""

    trace_id: str
    span_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The counters of the engine's process."""

    stats: Stats
    destinations: Mapping[str, DestinationStats]
    received: int
    """Spans and log records that have arrived."""
    open: int
    """Those of them that are not part of a closed run."""
    pending: int
    """Evaluations without an outcome."""
    failing: Mapping[str, str] = field(default_factory=dict)
    """Rules that fail again and again, with their problems."""


Item = Attached | Expected | Released


@dataclass(frozen=True, slots=True)
class Report:
    """What happened since the last report."""

    items: tuple[Item, ...]
    counts: Counts


class Relay(Attacher):
    """An attacher that sends outcomes to the application's process, which attaches them.

    Args:
        counts: reads the counters.
        send: sends a report.
        releases: whether the application holds spans.
    """

    def __init__(
        self, counts: Callable[[], Counts], send: Callable[[Report], None], *, releases: bool
    ) -> None:
        super().__init__(None, None, None, None)
        self._counts = counts
        self._send = send
        self._releases = releases
        self._items: list[Item] = []
        self._expected: set[Expected] = set()
        self._armed = False
        self._sending = threading.Lock()
        self._last: Counts | None = None

    def expect(self, rule: str, run: Run) -> None:
        """Queue what is new."""
        item = Expected(rule, run.agent_name, run.agent_version, _text(tenant_of(run)))
        if item not in self._expected and len(self._expected) < _MAX_EXPECTED:
            self._expected.add(item)
            self._put(item)

    def attach(self, run: Run, evaluation: Evaluation, opened: Opened | None) -> None:
        """Queue an outcome."""
        needs_span = opened is not None and opened.span.needed
        self._put(Attached(_slim(run, evaluation), evaluation, opened is not None, needs_span))

    def release(self, trace_id: str, span_id: str) -> None:
        """Queue the release of a span."""
        if self._releases:
            self._put(Released(trace_id, span_id))

    def release_all(self, spans: Iterable[SpanRecord]) -> None:
        """Queue the release of spans."""
        for span in spans:
            self.release(span.trace_id, span.span_id)

    def flush(self) -> None:
        """Send what is queued, unless nothing has changed; on the engine's thread, or after it has ended."""
        with self._sending:
            items, self._items, self._armed = tuple(self._items), [], False
            counts = self._counts()
            if items or counts != self._last:
                self._last = counts
                self._send(Report(items, counts))

    def _put(self, item: Item) -> None:
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
        resource=_tenant(tenant_of(run)),
    )


def _tenant(tenant: Any) -> dict[str, Any]:
    return {} if tenant is None else {semconv.TENANT_ID: _text(tenant)}


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _bare(operation: Operation) -> Operation:
    span = SpanRecord(trace_id=operation.span.trace_id, span_id=operation.span_id)
    return Operation(
        span=span, kind=operation.kind, dialect=operation.dialect, response_id=operation.response_id
    )
