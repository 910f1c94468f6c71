"""From the spans of a trace to the groups of operations that are runs: pass after pass over one value.

Each pass returns the trace as it was if it has nothing to do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from otel_evals import semconv
from otel_evals._internal.model import Operation, OperationKind, SpanRecord
from otel_evals._internal.model.convention import Conventions
from otel_evals._internal.read.question import answer_of, find_question, is_data_of
from otel_evals._internal.read.tree import (
    INVOCATIONS,
    Tree,
    is_during,
    make_tree,
    read_operations,
    restore_choices,
    with_details,
)
from otel_evals._internal.read.turns import group_loose, invocations_in
from otel_evals._internal.trust.keys import is_proof

# Called for every run and span, without a Python call each.
_PARENT, _SPAN_ID = attrgetter("parent_span_id"), attrgetter("span_id")
_WORK = (OperationKind.AGENT, OperationKind.INFERENCE, OperationKind.TOOL, OperationKind.RETRIEVAL)
_SCOPE, _PROOF = semconv.SCOPE_NAME, semconv.MARK_PROOF
_NOTHING: Mapping[str, Any] = {}


class Group(Struct, frozen=True):
    """Operations that are a run with all below them."""

    root: Operation
    members: tuple[Operation, ...]
    """The root alone, or the operations of a turn, which ends with it."""
    part_of: Operation | None = None
    """The application's span that groups several runs."""


class Trace(Struct, frozen=True):
    """The spans of a trace on their way to runs."""

    records: Mapping[str, SpanRecord]
    """By span id."""
    parents: Mapping[str, str | None]
    links: Mapping[str, str | None] = _NOTHING
    """By span id, the nearest ancestor if spans in between are missing."""
    ours: frozenset[str] = frozenset()
    """Spans of evaluations."""
    tree: Tree = Tree({}, {}, {}, frozenset())
    roots: Sequence[Operation] = ()
    """The outermost agents and workflows."""
    loose: Sequence[Operation] = ()
    """The outermost other operations outside of them."""
    groups: Sequence[Group] = ()


def grouped(trace: Trace, conventions: Conventions) -> Trace:
    """Take the spans of a trace through all passes."""
    trace = roots(link(drop_ours(trace), conventions))
    # A lone root can neither adopt operations nor drop any.
    if trace.loose or len(trace.roots) > 1:
        trace = drop_foreign_tools(adopt_loose(trace))
    return group_turns(split_groups(trace))


def collect(spans: Sequence[SpanRecord], links: Mapping[str, str | None] | None) -> Trace:
    """Return the spans, in any order, without duplicates."""
    records = dict(zip(map(_SPAN_ID, spans), spans, strict=True))
    # Duplicates are rare: spans are compared one by one only then.
    if len(records) < len(spans):
        records = _most_complete(spans)
    parents: dict[str, str | None] = dict(zip(records, map(_PARENT, records.values()), strict=True))
    links = links or _NOTHING
    parents.update(links)
    return Trace(records, parents, links)


def drop_ours(trace: Trace) -> Trace:
    """Mark the spans of evaluations, which are not read, with all inside them."""
    ours: set[str] = set()
    for record in trace.records.values():
        # Anyone may write the mark; the proof needs the key.
        proof = record.attributes.get(_PROOF)
        is_proven = proof is not None and is_proof(proof, record.trace_id, record.span_id)
        if record.scope_name == _SCOPE or is_proven:
            ours.add(record.span_id)
    return replace(trace, ours=frozenset(ours)) if ours else trace


def link(trace: Trace, conventions: Conventions) -> Trace:
    """Read the spans, and link the operations to a tree."""
    records = restore_choices(trace.records, conventions)
    mine = list(records.values())
    if trace.ours:
        mine = [r for i, r in records.items() if not _is_inside(i, trace.ours, trace.parents)]
    # Next to claimed spans, these events repeat calls that are counted already.
    found = read_operations(mine, conventions) or read_operations(with_details(mine), conventions)
    found.sort(key=itemgetter(0, 1, 2))
    tree = make_tree(dict(map(itemgetter(2, 3), found)), trace.parents)
    return Trace(trace.records, trace.parents, trace.links, trace.ours, tree)


def roots(trace: Trace, opens: Sequence[OperationKind] = INVOCATIONS) -> Trace:
    """Find the outermost agents and workflows, and the outermost other operations outside of them.

    A tool that contains one of the kinds in `opens` is skipped: it only wraps it.
    """
    tree = trace.tree
    found: list[Operation] = []
    loose: list[Operation] = []
    stack: list[str] = []
    for span_id, above in tree.above.items():
        if above is None:
            stack.append(span_id)
    while stack:
        operation = tree.operations[stack.pop()]
        if operation.span.span_id in tree.guards:
            continue
        if operation.kind in INVOCATIONS:
            if operation.kind is OperationKind.AGENT or _does_something(operation, tree):
                found.append(operation)
        elif operation.kind is OperationKind.OTHER or _contains(operation, opens, tree):
            stack.extend(tree.below.get(operation.span_id, ()))
        else:
            loose.append(operation)
    return replace(trace, roots=sorted(found, key=in_order), loose=sorted(loose, key=in_order))


def adopt_loose(trace: Trace) -> Trace:
    """Give operations below lost spans, and model calls next to a silent agent, to the trace's only agent.

    The agent adopts operations during it whose parent span was lost. An agent without model calls also
    adopts the model calls next to it.
    """
    tops = [root for root in trace.roots if not _is_lost(root, trace)]
    # Among several agents, nothing says whose a lost operation is.
    if len(tops) != 1:
        return trace
    (top,) = tops
    tree = trace.tree
    silent = top.kind is OperationKind.AGENT and all(
        o.kind is not OperationKind.INFERENCE for o in tree.inside(top)
    )
    lost = [o for o in trace.roots if o is not top and _is_lost(o, trace)]
    lost += [o for o in trace.loose if silent or _is_lost(o, trace)]
    adopted = [o for o in lost if is_during(o.span, top.span)]
    if not adopted:
        return trace
    ids = [operation.span_id for operation in adopted]
    below = {**tree.below, top.span_id: (*tree.below.get(top.span_id, ()), *ids)}
    return replace(
        trace,
        tree=replace(tree, above={**tree.above, **dict.fromkeys(ids, top.span_id)}, below=below),
        roots=[o for o in trace.roots if o not in adopted],
        loose=[o for o in trace.loose if o not in adopted],
    )


def drop_foreign_tools(trace: Trace) -> Trace:
    """Drop calls that another trace or process asked for, and their servers' spans.

    Tools that no model asked for may contain the run: a framework records its prompts as functions.
    """
    # A server's span linked to another trace: that one has the call.
    loose = [
        o
        for o in trace.loose
        if (o.kind, o.span.kind) != (OperationKind.TOOL, "SERVER")
        or all(trace_id == o.span.trace_id for trace_id, _ in o.span.links)
    ]
    if trace.roots or not loose or any(o.kind is not OperationKind.TOOL for o in loose):
        return replace(trace, loose=loose)
    models = (OperationKind.INFERENCE,)
    loose = [o for o in loose if not _is_asked_elsewhere(o, trace.tree) or _contains(o, models, trace.tree)]
    if loose and all(o.span.kind != "SERVER" for o in loose):
        return roots(trace, (*INVOCATIONS, OperationKind.INFERENCE))
    return replace(trace, loose=loose)


def split_groups(trace: Trace) -> Trace:
    """Make each root a run, or each of the invocations that an application's span only groups."""
    groups: list[Group] = []
    for root in trace.roots:
        for part in invocations_in(root, trace.tree):
            whole = None if part is root else root
            groups.append(Group(part, (part,), whole))
    return replace(trace, groups=groups)


def group_turns(trace: Trace) -> Trace:
    """Make each turn of loose model calls a run."""
    if not trace.loose:
        return trace
    inside = (o for g in trace.groups for top in g.members for o in (top, *trace.tree.inside(top)))
    # An SDK's span next to an agent may record the agent's model call again.
    answered = {o.response_id for o in inside if o.response_id}
    turns = group_loose(trace.loose, answered, alone=not trace.groups)
    return replace(trace, groups=[*trace.groups, *(Group(turn[-1], tuple(turn)) for turn in turns)])


def _most_complete(spans: Sequence[SpanRecord]) -> dict[str, SpanRecord]:
    records: dict[str, SpanRecord] = {}
    for span in spans:
        known = records.get(span.span_id)
        if known is None or _completeness(span) > _completeness(known):
            records[span.span_id] = span
    return records


def _completeness(span: SpanRecord) -> tuple[Any, ...]:
    events = len(span.events) + len(span.logs)
    return span.end_time is not None, len(span.attributes), events, span.end_time or 0


def _is_inside(span_id: str | None, ours: frozenset[str], parents: Mapping[str, str | None]) -> bool:
    seen: set[str] = set()
    # Senders write the parents, which may form a loop.
    while span_id is not None and span_id not in seen:
        if span_id in ours:
            return True
        seen.add(span_id)
        span_id = parents.get(span_id)
    return False


def _is_lost(operation: Operation, trace: Trace) -> bool:
    """Return True for an operation whose parent span is missing, unless its place is known."""
    parent = operation.span.parent_span_id
    return parent is not None and parent not in trace.records and operation.span_id not in trace.links


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
    # Only agents have user and assistant messages in their output.
    roles = ({message.role for message in operation.output_messages} for operation in inside)
    return any(found >= {"user", "assistant"} for found in roles) or _is_turn(root)


def _is_turn(root: Operation) -> bool:
    """Return True for a root with a question, and an answer or an error, even with nothing inside."""
    if not root.stands_alone:
        return False
    answer = answer_of(root)
    if (answer is None and root.error is None) or is_data_of(root, answer):
        return False
    question = find_question(root, (root,))
    return question is not None and not is_data_of(root, question.messages[-1].text)


def _contains(top: Operation, kinds: Sequence[OperationKind], tree: Tree) -> bool:
    """Return True if a tool contains operations of these kinds, such as an agent on a server."""
    return top.kind is OperationKind.TOOL and any(o.kind in kinds for o in tree.inside(top))


def in_order(operation: Operation) -> tuple[int, int, str]:
    """Sort by start, then by end, the latest first."""
    span = operation.span
    return span.start_time, -(span.end_time or 0), span.span_id
