"""Joins turns whose model calls are in several traces, without a span above them, by their messages.

Also joins agents that an application calls again with the results of tools that it ran itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import inf
from typing import cast

from otel_evals._internal.model import Operation, OperationKind, Run
from otel_evals._internal.model.operations import model_calls
from otel_evals._internal.model.records import with_given
from otel_evals._internal.model.runs import size_of_run
from otel_evals._internal.read.assemble import assemble
from otel_evals._internal.read.question import ends_with_calls
from otel_evals._internal.read.tree import guards_in, is_before, parents_in
from otel_evals._internal.read.turns import asked_by, continues, given_to

_RECENT = 16
"""Number of runs back that a call without ids is compared with."""


def is_unfinished(run: Run) -> bool:
    """Return True if another run may continue this one with the results of tools, or after a pause."""
    for operation in run.operations:
        if operation.paused:
            return True
        is_call = operation.kind is OperationKind.INFERENCE
        # An agent says that it requested tools by a finish reason, or not at all.
        if operation.span.span_id != run.root_span_id or not (is_call or operation.finish_reasons):
            continue
        if ends_with_calls(operation):
            return not (is_call and run.output)
    return False


def join_split_runs(runs: Iterable[Run], window: int = 1_000) -> Iterator[Run]:
    """Join runs that continue each other across traces.

    Holds up to `window` model calls without an agent, and agents that requested tools, until the runs before
    and after them have arrived. A joined run has the ids of its last call.
    """
    held: list[Run] = []
    agents = False  # once one has requested tools, all wait and stay in order
    for run in runs:
        joined = _join_with(run, held)
        is_agent = joined.root_kind is OperationKind.AGENT
        unfinished = is_unfinished(joined)
        agents = agents or (is_agent and unfinished)
        is_call = joined.root_kind is OperationKind.INFERENCE
        waits = unfinished or is_call or (agents and is_agent) or _lacks_its_beginning(joined)
        if not waits:
            yield joined
            continue
        held.append(joined)
        if len(held) > window:
            yield held.pop(0)
    yield from held


class SplitRuns:
    """Joins live runs as they close: holds runs that requested tools until others continue them.

    Beyond `patience` seconds, `window` runs or about `max_bytes`, the oldest are released unjoined.
    """

    def __init__(self, patience: float = 60.0, window: int = 1_000, max_bytes: int = 2**28) -> None:
        self._patience = patience
        self._window = window
        self._max_bytes = max_bytes
        self._held: list[Run] = []
        self._since: dict[str, float] = {}
        self.held: frozenset[str] = frozenset()
        """Root span ids of held runs."""
        self.next_due = inf
        """When to call `due`, on the caller's clock; infinity if no run is held."""

    def add(self, run: Run, now: float) -> list[Run]:
        """Add a run that has closed; returns the runs to score now."""
        joined = _join_with(run, self._held) if self._held else run
        if is_unfinished(joined) or _lacks_its_beginning(joined):
            self._held.append(joined)
            # A joined run waits for its own continuation, from the start again.
            self._since[joined.root_span_id] = now
            return self._release(self._excess())
        return [joined]

    def joined(self, run: Run) -> Run:
        """Return a run as `add` would join it, without changing the held runs."""
        # `_join_with` removes joined runs from the list that it is given.
        return _join_with(run, list(self._held))

    @property
    def open_traces(self) -> set[str]:
        return {trace_id for run in self._held for trace_id in (run.trace_id, *run.trace_ids)}

    def due(self, now: float) -> list[Run]:
        """Release the runs that no other run continued in time."""
        waited = [now - self._since.get(run.root_span_id, now) for run in self._held]
        return self._release(sum(seconds >= self._patience for seconds in waited))

    def _excess(self) -> int:
        """Return how many of the oldest runs exceed the bounds."""
        count, size = 0, sum(map(size_of_run, self._held))
        while len(self._held) - count > self._window or size > self._max_bytes:
            size -= size_of_run(self._held[count])
            count += 1
        return count

    def flush(self) -> list[Run]:
        """Release all runs."""
        return self._release(len(self._held))

    def _release(self, count: int) -> list[Run]:
        gone, self._held = self._held[: max(count, 0)], self._held[max(count, 0) :]
        kept = {run.root_span_id for run in self._held}
        self._since = {span_id: at for span_id, at in self._since.items() if span_id in kept}
        self.held = frozenset(kept)
        self.next_due = min(self._since.values(), default=inf) + self._patience
        return gone


def _lacks_its_beginning(run: Run) -> bool:
    """Return True for an agent that streamed, and whose first model call has a trace of its own.

    Its span ended before its model calls, and the question is in the other trace.
    """
    end = run.end_time
    for operation in run.operations:
        if operation.kind is OperationKind.INFERENCE:
            return end is not None and end < operation.span.start_time and run.input is None
    return False


def _join_with(run: Run, held: list[Run]) -> Run:
    """Join a run with all held ones that it continues or that continue it, and remove these from the list."""
    theirs = len(held)
    # The newest first: a continuation usually follows soon.
    for index in range(theirs - 1, -1, -1):
        other = held[index]
        # Comparing messages is costly: older runs need a call in common.
        if index < theirs - _RECENT and _ids(run).isdisjoint(_ids(other)):
            continue
        for first, then in ((other, run), (run, other)):
            if is_unfinished(first) and _continues(first, then):
                del held[index]
                # The joined run may continue further held runs, or they continue it.
                return _join_with(_joined(first, then), held)
    return run


def _ids(run: Run) -> frozenset[str]:
    """Return the ids of tool calls in a run's model calls; cached on the run."""
    known = run.__dict__.get("_call_ids")
    if known is None:
        calls = _calls(run)
        parts = (part for call in calls for part in (*given_to(call), *asked_by(call)))
        known = run.__dict__["_call_ids"] = frozenset(p.tool_call_id for p in parts if p.tool_call_id)
    return cast("frozenset[str]", known)


def _calls(run: Run) -> list[Operation]:
    """Return the model calls of a run, and before them its agent, which may have more messages."""
    calls = model_calls(run.operations)
    is_call = run.root_kind is OperationKind.INFERENCE
    return calls if is_call or run.root is None else [run.root, *calls]


def _continues(first: Run, then: Run) -> bool:
    calls, earlier = _calls(then), _calls(first)
    # Equal messages of two services are two conversations.
    known = first.resource.get("service.name"), first.scope_name
    if (then.resource.get("service.name"), then.scope_name) != known or not calls or not earlier:
        return False
    if len({first.conversation_id, then.conversation_id} - {None}) > 1:
        return False
    if any(operation.paused for operation in first.operations):
        pending = {call.id for call in first.tool_calls if call.status == "pending"} - {None}
        return first.start_time < then.start_time and any(c.id in pending for c in then.tool_calls)
    ended = first.end_time or first.start_time
    return any(is_before(ended, call.span.start_time) and continues(earlier, call) for call in calls)


def _joined(first: Run, then: Run) -> Run:
    operations: list[Operation] = sorted(
        (*first.operations, *then.operations), key=lambda o: o.span.start_time
    )
    children = {**first.children, **then.children}
    root = next(o for o in operations if o.span_id == then.root_span_id)
    run = assemble(root, operations, children, parents_in(children), guards_in(operations))
    # The runs may have inherited these from spans around them.
    known = {
        name: getattr(then, name) or getattr(first, name)
        for name in ("conversation_id", "user_id")
        if getattr(run, name) is None
    }
    if first.agent_name:  # the agent asked, not the one that answered
        known["agent_name"] = first.agent_name
    return with_given(run, trace_ids=tuple(dict.fromkeys((*first.trace_ids, *then.trace_ids))), **known)
