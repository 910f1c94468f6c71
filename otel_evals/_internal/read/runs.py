"""Finds the runs in the spans of one trace. Pure: the same spans give the same runs, live or from a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

from otel_evals import semconv
from otel_evals._internal.dialect import Dialects
from otel_evals._internal.model import Operation, OperationKind, Run, SpanRecord
from otel_evals._internal.model.derived import with_given
from otel_evals._internal.read.assemble import assemble
from otel_evals._internal.read.grouped import invocations_in
from otel_evals._internal.read.inherited_ids import with_inherited_ids
from otel_evals._internal.read.misplaced_choices import restore_choices
from otel_evals._internal.read.model_calls import group_loose
from otel_evals._internal.read.question import answer_of, find_question
from otel_evals._internal.read.tree import descendants
from otel_evals._internal.read.truncation import defer_content

# Called for every run and span, without a Python call each.
_LOGS, _OPERATIONS = attrgetter("logs"), attrgetter("operations")
_PARENT, _SPAN_ID = attrgetter("parent_span_id"), attrgetter("span_id")
_START = attrgetter("start_time", "root_span_id")
_INVOCATIONS = (OperationKind.AGENT, OperationKind.WORKFLOW)
_WORK = (OperationKind.AGENT, OperationKind.INFERENCE, OperationKind.TOOL, OperationKind.RETRIEVAL)


def find_runs(
    spans: Sequence[SpanRecord], dialects: Dialects, links: Mapping[str, str | None] | None = None
) -> list[Run]:
    """The runs of one trace, by start time. Never raises, whatever the spans hold.

    A root is an outermost agent or workflow. Model calls outside of any are grouped into turns; the last call
    of a turn, which gives the answer, is its root.

    Args:
        spans: all spans of the trace, in any order; duplicates count once.
        dialects: read the spans.
        links: by span id, the nearest ancestor, where spans between the two are missing.
    """
    records = _unique(spans)
    parents: dict[str, str | None] = dict(zip(records, map(_PARENT, records.values()), strict=True))
    if links:
        parents.update(links)
    ours = {
        i for i, r in records.items() if r.scope_name == semconv.SCOPE_NAME or r.attributes.get(semconv.MARK)
    }
    operations = _read(records, dialects, ours, parents)
    above = _nearest(operations, parents)
    below = _children(operations, above)
    roots, loose = _roots(operations, above, below)
    if loose:
        loose = [operation for operation in loose if not _serves_another_trace(operation)]
    if not roots and loose and all(o.kind is OperationKind.TOOL and o.span.kind != "SERVER" for o in loose):
        # No model asked for these tools: a framework records its prompts as functions.
        roots, loose = _roots(operations, above, below, (*_INVOCATIONS, OperationKind.INFERENCE))
    runs: list[Run] = []
    for root in roots:
        for part in invocations_in(root, operations, below) if root.groups_invocations else (root,):
            run = _run(part, (part,), operations, above, below)
            runs.append(run if part is root else _known_to(root, run))
    if loose:
        answered = {o.response_id for run in runs for o in run.operations if o.response_id}
        turns = group_loose(loose, answered, alone=not runs)
        runs.extend(_run(members[-1], members, operations, above, below) for members in turns)
    if len(runs) > 1:
        runs.sort(key=_START)
    if sum(map(len, map(_OPERATIONS, runs))) == len(operations) == len(records):
        return runs  # no span is outside of them
    return with_inherited_ids(runs, operations, records, parents)


def subruns(run: Run) -> list[Run]:
    """Every agent operation in a run, the root included if it is one, as a run of its own."""
    operations = {o.span.span_id: o for o in run.operations}
    above: dict[str, str | None] = dict.fromkeys(operations)
    for parent, children in run.children.items():
        above.update(dict.fromkeys(children, parent))
    agents = run.of_kind(OperationKind.AGENT)
    return [
        run if agent.span_id == run.root_span_id else _run(agent, (agent,), operations, above, run.children)
        for agent in agents
    ]


def _run(
    root: Operation,
    members: Sequence[Operation],
    operations: Mapping[str, Operation],
    above: Mapping[str, str | None],
    below: Mapping[str, tuple[str, ...]],
) -> Run:
    stack = [member.span.span_id for member in members]
    inside: set[str] = set()
    while stack:
        span_id = stack.pop()
        inside.add(span_id)
        if span_id in below:
            stack.extend(below[span_id])
    if len(inside) == len(operations):
        return assemble(root, list(operations.values()), below, above)
    mine = sorted((operations[i] for i in inside), key=_order)
    ids = [operation.span.span_id for operation in mine]
    children = {span_id: below[span_id] for span_id in ids if span_id in below}
    return assemble(root, mine, children, above)


def _known_to(group: Operation, run: Run) -> Run:
    """Return the run with the conversation and user of the group that it is part of."""
    return with_given(
        run,
        conversation_id=run.conversation_id or group.conversation_id,
        user_id=run.user_id or group.user_id,
    )


def _order(operation: Operation) -> tuple[int, int, str]:
    """By start; of spans that start at the same time, the one that ends last comes first."""
    span = operation.span
    return span.start_time, -(span.end_time or 0), span.span_id


def _unique(spans: Sequence[SpanRecord]) -> dict[str, SpanRecord]:
    """Spans by id; of duplicates, the most complete one."""
    records = dict(zip(map(_SPAN_ID, spans), spans, strict=True))
    if len(records) == len(spans):
        return records
    records.clear()
    for span in spans:
        known = records.get(span.span_id)
        if known is None or _wealth(span) > _wealth(known):
            records[span.span_id] = span
    return records


def _wealth(span: SpanRecord) -> tuple[Any, ...]:
    return (
        span.end_time is not None,
        len(span.attributes),
        len(span.events) + len(span.logs),
        span.end_time or 0,
    )


def _read(
    records: Mapping[str, SpanRecord], dialects: Dialects, ours: set[str], parents: Mapping[str, str | None]
) -> dict[str, Operation]:
    """The operations by span id, in order of start, without evaluation spans and what is inside them."""
    found: list[Operation] = []
    if any(map(_LOGS, records.values())):
        records = restore_choices(records, dialects)
    for span_id, record in records.items():
        if ours and _is_inside(span_id, ours, parents):
            continue
        try:
            operation = dialects.read(record)
        except BaseException:  # a third-party dialect must not break the trace
            operation = None
        if operation is not None:
            found.append(operation)
    found.sort(key=_order)
    defer_content(found)
    operations: dict[str, Operation] = {}
    for operation in found:
        operations[operation.span.span_id] = operation
    return operations


def _is_inside(span_id: str | None, ours: set[str], parents: Mapping[str, str | None]) -> bool:
    seen: set[str] = set()
    while span_id is not None and span_id not in seen:
        if span_id in ours:
            return True
        seen.add(span_id)
        span_id = parents.get(span_id)
    return False


def _nearest(operations: Mapping[str, Operation], parents: Mapping[str, str | None]) -> dict[str, str | None]:
    """Each operation's nearest operation above. Cycles are cut at their first span."""
    above: dict[str, str | None] = {}
    in_order = True
    for span_id in operations:
        parent = parents.get(span_id)
        if parent is not None and parent not in operations:
            parent = _beyond(span_id, parent, operations, parents)
        if (
            parent is not None
            and operations[parent].kind is OperationKind.INFERENCE
            and _came_after(operations[span_id], operations[parent])
        ):
            parent = above.get(parent)
        above[span_id] = None if parent == span_id else parent
        in_order = in_order and (parent is None or parent in above)
    if in_order:  # every span comes after the one above it, so there is no cycle
        return above
    for span_id in operations:
        seen = {span_id}
        parent = above[span_id]
        while parent is not None and parent not in seen:
            seen.add(parent)
            parent = above[parent]
        if parent == span_id:
            above[span_id] = None
    return above


def _came_after(operation: Operation, parent: Operation) -> bool:
    """Whether an operation is below a model call that had ended already, but was still the current span."""
    return (
        operation.kind in (*_INVOCATIONS, OperationKind.INFERENCE)
        and parent.span.end_time is not None
        and parent.span.end_time <= operation.span.start_time
        and parent.span.scope_name == operation.span.scope_name
    )


def _beyond(
    span_id: str, parent: str, operations: Mapping[str, Operation], parents: Mapping[str, str | None]
) -> str | None:
    """The nearest operation above a parent that is not an operation."""
    seen = {span_id}
    above: str | None = parent
    while above is not None and above not in operations and above not in seen:
        seen.add(above)
        above = parents.get(above)
    return None if above in seen else above


def _children(
    operations: Mapping[str, Operation], above: Mapping[str, str | None]
) -> dict[str, tuple[str, ...]]:
    below: dict[str, Any] = {}
    for span_id in operations:
        parent = above[span_id]
        if parent is not None:
            below.setdefault(parent, []).append(span_id)
    for parent, children in below.items():
        below[parent] = tuple(children)
    return below


def _roots(
    operations: Mapping[str, Operation],
    above: Mapping[str, str | None],
    below: Mapping[str, Sequence[str]],
    opens: Sequence[OperationKind] = _INVOCATIONS,
) -> tuple[list[Operation], list[Operation]]:
    """The outermost agents and workflows, and the outermost other operations outside of them.

    A tool that contains one of the kinds in `opens` is passed over: it only wraps it.
    """
    roots: list[Operation] = []
    loose: list[Operation] = []
    stack = [span_id for span_id in operations if above[span_id] is None]
    while stack:
        operation = operations[stack.pop()]
        if operation.kind in _INVOCATIONS:
            if operation.kind is OperationKind.AGENT or _does_something(operation, operations, below):
                roots.append(operation)
        elif operation.kind is OperationKind.OTHER or _holds(operation, opens, operations, below):
            stack.extend(below.get(operation.span_id, ()))
        else:
            loose.append(operation)
    if len(roots) > 1:
        roots.sort(key=_order)
    return roots, sorted(loose, key=_order)


def _serves_another_trace(operation: Operation) -> bool:
    """Whether a server's span is the other end of a call that another trace tells, which it is linked to."""
    span = operation.span
    if operation.kind is not OperationKind.TOOL or span.kind != "SERVER":
        return False
    return any(trace_id != span.trace_id for trace_id, _ in span.links)


def _does_something(
    root: Operation, operations: Mapping[str, Operation], below: Mapping[str, Sequence[str]]
) -> bool:
    """Return True if a workflow has work in it; other workflows are mere functions."""
    inside = (root, *descendants(root, operations, below))
    if any(o.kind in _WORK for o in inside):  # first: it asks for nothing that was said
        return True
    return any(map(_tells_conversation, inside)) or _tells_turn(root)


def _tells_turn(root: Operation) -> bool:
    """Whether a root tells a whole turn, though nothing inside of it was recorded: it may end in an error."""
    ended = root.stands_alone and (answer_of(root) is not None or root.error is not None)
    return ended and find_question(root, (root,)) is not None


def _tells_conversation(operation: Operation) -> bool:
    """Whether an output has user and assistant messages, which only an agent's has, whatever its kind."""
    return {"user", "assistant"} <= {message.role for message in operation.output_messages}


def _holds(
    top: Operation,
    kinds: Sequence[OperationKind],
    operations: Mapping[str, Operation],
    below: Mapping[str, Sequence[str]],
) -> bool:
    """Whether a tool contains operations of these kinds, as one does that is an agent on a server."""
    return top.kind is OperationKind.TOOL and any(
        o.kind in kinds for o in descendants(top, operations, below)
    )
