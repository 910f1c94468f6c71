"""Finds the runs in a trace. Pure: the same spans give the same runs, live or from a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import Any

from otel_evals import semconv
from otel_evals._internal.dialect import Dialects, read_operations
from otel_evals._internal.model import Operation, OperationKind, Run, SpanRecord
from otel_evals._internal.model.derived import with_given
from otel_evals._internal.read.assemble import assemble
from otel_evals._internal.read.grouped import invocations_in
from otel_evals._internal.read.misplaced_choices import restore_choices, with_details
from otel_evals._internal.read.model_calls import group_loose
from otel_evals._internal.read.names import with_inherited_ids
from otel_evals._internal.read.orphans import adopt
from otel_evals._internal.read.question import answer_of, find_question, is_data_of
from otel_evals._internal.read.tree import INVOCATIONS, Tree, guards_in, make_tree, parents_in
from otel_evals._internal.trust import is_proof

# Called for every run and span, without a Python call each.
_LOGS, _OPERATIONS = attrgetter("logs"), attrgetter("operations")
_PARENT, _SPAN_ID = attrgetter("parent_span_id"), attrgetter("span_id")
_OPERATION_ID = attrgetter("span.span_id")
_START = attrgetter("start_time", "root_span_id")
_DEEPEST_AGENT = 100
"""Levels of nested agents that are judged separately."""
_WORK = (OperationKind.AGENT, OperationKind.INFERENCE, OperationKind.TOOL, OperationKind.RETRIEVAL)


def find_runs(
    spans: Sequence[SpanRecord], dialects: Dialects, links: Mapping[str, str | None] | None = None
) -> list[Run]:
    """Return the runs in the spans of a trace, by start time. Never raises.

    A root is an outermost agent or workflow. Model calls outside of any are grouped into turns; a turn's root
    is its last call, which has the answer.

    Args:
        spans: all spans of the trace, in any order; duplicates count once.
        dialects: the dialects to read them with.
        links: by span id, the nearest ancestor if spans in between are missing.
    """
    records = _unique(spans)
    parents: dict[str, str | None] = dict(zip(records, map(_PARENT, records.values()), strict=True))
    if links:
        parents.update(links)
    ours = {
        i
        for i, r in records.items()
        if r.scope_name == semconv.SCOPE_NAME or (semconv.MARK_PROOF in r.attributes and _is_proven(r))
    }
    tree = make_tree(_read(records, dialects, ours, parents), parents)
    roots, loose = _roots(tree)
    if roots and (loose or len(roots) > 1):
        placed = links or ()

        def is_lost(operation: Operation) -> bool:
            parent = operation.span.parent_span_id
            return parent is not None and parent not in records and operation.span_id not in placed

        roots, loose = adopt(roots, loose, tree, is_lost)
    if loose:
        loose = [operation for operation in loose if not _serves_another_trace(operation)]
    if loose and not roots and all(o.kind is OperationKind.TOOL for o in loose):
        # A tool without a model inside is no run if the run that asked for it is elsewhere.
        models = (OperationKind.INFERENCE,)
        loose = [o for o in loose if not _is_asked_elsewhere(o, tree) or _contains(o, models, tree)]
    if not roots and loose and all(o.kind is OperationKind.TOOL and o.span.kind != "SERVER" for o in loose):
        # No model asked for these tools: a framework records its prompts as functions.
        roots, loose = _roots(tree, (*INVOCATIONS, OperationKind.INFERENCE))
    runs: list[Run] = []
    for root in roots:
        for part in invocations_in(root, tree) if root.groups_invocations else (root,):
            run = _run(part, (part,), tree)
            runs.append(run if part is root else _known_to(root, run))
    if loose:
        answered = {o.response_id for run in runs for o in run.operations if o.response_id}
        turns = group_loose(loose, answered, alone=not runs)
        runs.extend(_run(members[-1], members, tree) for members in turns)
    if len(runs) > 1:
        runs.sort(key=_START)
    if sum(map(len, map(_OPERATIONS, runs))) == len(tree.operations) == len(records):
        return runs  # no span is outside of them
    return with_inherited_ids(runs, tree.operations, records, parents)


def subruns(run: Run) -> list[Run]:
    """Return each agent operation in a run, including the root, as a separate run.

    Agents more than 100 levels deep are left out: an operation would be in as many runs as agents contain it.
    """
    operations = {o.span.span_id: o for o in run.operations}
    below = dict(run.children)
    tree = Tree(operations, parents_in(below), below, guards_in(run.operations))
    levels: dict[str, int] = {}
    stack = [(span_id, 0) for span_id in operations if tree.above.get(span_id) is None]
    while stack:
        span_id, level = stack.pop()
        levels[span_id] = level = level + (operations[span_id].kind is OperationKind.AGENT)
        stack.extend((each, level) for each in below.get(span_id, ()))
    return [
        run if agent.span_id == run.root_span_id else _run(agent, (agent,), tree)
        for agent in run.of_kind(OperationKind.AGENT)
        if levels.get(agent.span_id, 0) <= _DEEPEST_AGENT
    ]


def _run(root: Operation, members: Sequence[Operation], tree: Tree) -> Run:
    operations, below = tree.operations, tree.below
    stack = list(map(_OPERATION_ID, members))
    inside: set[str] = set()
    while stack:
        span_id = stack.pop()
        inside.add(span_id)
        if span_id in below:
            stack.extend(below[span_id])
    if len(inside) == len(operations):
        return assemble(root, list(operations.values()), below, tree.above, tree.guards)
    mine = sorted((operations[i] for i in inside), key=_order)
    ids = [operation.span.span_id for operation in mine]
    children = {span_id: below[span_id] for span_id in ids if span_id in below}
    return assemble(root, mine, children, tree.above, tree.guards)


def _known_to(group: Operation, run: Run) -> Run:
    """Return a run with the conversation and user of its group, unless it has its own."""
    return with_given(
        run,
        conversation_id=run.conversation_id or group.conversation_id,
        user_id=run.user_id or group.user_id,
    )


def _order(operation: Operation) -> tuple[int, int, str]:
    """Sort by start, then by end, the latest first."""
    span = operation.span
    return span.start_time, -(span.end_time or 0), span.span_id


def _unique(spans: Sequence[SpanRecord]) -> dict[str, SpanRecord]:
    records = dict(zip(map(_SPAN_ID, spans), spans, strict=True))
    if len(records) == len(spans):
        return records
    records.clear()
    for span in spans:
        known = records.get(span.span_id)
        if known is None or _completeness(span) > _completeness(known):
            records[span.span_id] = span
    return records


def _completeness(span: SpanRecord) -> tuple[Any, ...]:
    events = len(span.events) + len(span.logs)
    return span.end_time is not None, len(span.attributes), events, span.end_time or 0


def _read(
    records: Mapping[str, SpanRecord], dialects: Dialects, ours: set[str], parents: Mapping[str, str | None]
) -> dict[str, Operation]:
    """Return operations by span id, sorted by start, without evaluation spans and spans inside them."""
    if any(map(_LOGS, records.values())):
        records = restore_choices(records, dialects)
    mine = list(records.values())
    if ours:
        mine = [r for i, r in records.items() if not _is_inside(i, ours, parents)]
    found = read_operations(mine, dialects) or read_operations(with_details(mine), dialects)
    found.sort(key=itemgetter(0, 1, 2))
    return dict(map(itemgetter(2, 3), found))


def _is_proven(record: SpanRecord) -> bool:
    """Return True for a span of an evaluation. Anyone may write the mark; the proof needs the key."""
    return is_proof(record.attributes[semconv.MARK_PROOF], record.trace_id, record.span_id)


def _is_inside(span_id: str | None, ours: set[str], parents: Mapping[str, str | None]) -> bool:
    seen: set[str] = set()
    while span_id is not None and span_id not in seen:
        if span_id in ours:
            return True
        seen.add(span_id)
        span_id = parents.get(span_id)
    return False


def _roots(
    tree: Tree, opens: Sequence[OperationKind] = INVOCATIONS
) -> tuple[list[Operation], list[Operation]]:
    """Return the outermost agents and workflows, and the outermost other operations outside of them.

    A tool that contains one of the kinds in `opens` is skipped: it only wraps it.
    """
    roots: list[Operation] = []
    loose: list[Operation] = []
    stack = [span_id for span_id in tree.operations if tree.above[span_id] is None]
    while stack:
        operation = tree.operations[stack.pop()]
        if operation.span.span_id in tree.guards:
            continue
        if operation.kind in INVOCATIONS:
            if operation.kind is OperationKind.AGENT or _does_something(operation, tree):
                roots.append(operation)
        elif operation.kind is OperationKind.OTHER or _contains(operation, opens, tree):
            stack.extend(tree.below.get(operation.span_id, ()))
        else:
            loose.append(operation)
    if len(roots) > 1:
        roots.sort(key=_order)
    return roots, sorted(loose, key=_order)


def _serves_another_trace(operation: Operation) -> bool:
    """Return True for a server's span linked to the trace that has the call."""
    span = operation.span
    if operation.kind is not OperationKind.TOOL or span.kind != "SERVER":
        return False
    return any(trace_id != span.trace_id for trace_id, _ in span.links)


def _is_asked_elsewhere(operation: Operation, tree: Tree) -> bool:
    """Return True for a tool's server, or for a lone call with an id that lost its parent, as in streams."""
    if operation.span.kind in ("SERVER", "CONSUMER"):
        return True
    if operation.span.parent_span_id is not None or operation.span_id in tree.below:
        return False
    call = operation.tool_call
    return call is not None and call.id is not None


def _does_something(root: Operation, tree: Tree) -> bool:
    """Return True if a workflow has work in it; other workflows are mere functions."""
    inside = (root, *tree.inside(root))
    if any(o.kind in _WORK for o in inside):  # first: it reads no content
        return True
    return any(map(_has_conversation, inside)) or _is_turn(root)


def _is_turn(root: Operation) -> bool:
    """Return True for a root with a question, and an answer or an error, even with nothing inside."""
    if not root.stands_alone:
        return False
    answer = answer_of(root)
    if (answer is None and root.error is None) or is_data_of(root, answer):
        return False
    question = find_question(root, (root,))
    return question is not None and not is_data_of(root, question.messages[-1].text)


def _has_conversation(operation: Operation) -> bool:
    """Return True for an output with user and assistant messages, which only agents have."""
    return {"user", "assistant"} <= {message.role for message in operation.output_messages}


def _contains(top: Operation, kinds: Sequence[OperationKind], tree: Tree) -> bool:
    """Return True if a tool contains operations of these kinds, such as an agent on a server."""
    return top.kind is OperationKind.TOOL and any(o.kind in kinds for o in tree.inside(top))
