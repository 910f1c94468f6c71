"""Finds the runs in a trace: pass after pass, from its spans to the groups of operations that are runs.

Pure: the same spans give the same runs, live or from a file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from operator import attrgetter
from typing import Any

from otel_evals import semconv
from otel_evals._internal.gather.trace import SpanGroup
from otel_evals._internal.model import Operation, OperationKind, Run, SpanRecord
from otel_evals._internal.model.convention import Conventions
from otel_evals._internal.model.records import with_given
from otel_evals._internal.read.assemble import assemble
from otel_evals._internal.read.conversation import conversation_key
from otel_evals._internal.read.logged import restore_messages
from otel_evals._internal.read.loose import adopt_lost, contains, does_something, without_foreign_tools
from otel_evals._internal.read.names import with_inherited_ids
from otel_evals._internal.read.split_runs import join_split_runs
from otel_evals._internal.read.tree import (
    INVOCATIONS,
    Parents,
    Tree,
    guards_in,
    in_order,
    parents_in,
    read_tree,
    upward,
)
from otel_evals._internal.read.turns import group_loose, invocations_in
from otel_evals._internal.trust.keys import is_proof

# Called for every run and span, without a Python call each.
_PARENT, _SPAN_ID, _LOGS = attrgetter("parent_span_id"), attrgetter("span_id"), attrgetter("logs")
_OPERATIONS, _OPERATION_ID = attrgetter("operations"), attrgetter("span.span_id")
_START = attrgetter("start_time", "root_span_id")
_SCOPE, _PROOF = semconv.SCOPE_NAME, semconv.MARK_PROOF
_NO_LINKS: Parents = {}
_DEEPEST_AGENT = 100
"""Levels of nested agents that are judged separately."""


def find_runs(
    spans: Sequence[SpanRecord], conventions: Conventions, links: Parents | None = None
) -> list[Run]:
    """Return the runs in the spans of a trace, by start time. Never raises.

    A root is an outermost agent or workflow. Model calls outside of any are grouped into turns; a turn's root
    is its last call, which has the answer.

    Args:
        spans: all spans of the trace, in any order; duplicates count once.
        conventions: the conventions to read them with.
        links: by span id, the nearest ancestor if spans in between are missing.
    """
    links = links or _NO_LINKS
    records = dict(zip(map(_SPAN_ID, spans), spans, strict=True))
    # Duplicates are rare: spans are compared one by one only then.
    if len(records) < len(spans):
        records = _most_complete(spans)
    parents: dict[str, str | None] = dict(zip(records, map(_PARENT, records.values()), strict=True))
    parents.update(links)
    tree = read_tree(_to_read(records, parents, conventions), parents, conventions)
    roots, loose = _outermost(tree)
    # A lone root can neither adopt operations nor drop any.
    if loose or len(roots) > 1:
        roots.sort(key=in_order)
        loose.sort(key=in_order)
        missing = {i for i, above in parents.items() if above is not None and above not in records}
        tree, roots, loose = adopt_lost(tree, roots, loose, missing - links.keys())
        loose = without_foreign_tools(tree, roots, loose)
    runs: list[Run] = []
    for root in roots:
        if root.groups_invocations:
            runs += _parts_of(root, tree)
        else:
            runs.append(_run([root], tree))
    if loose:
        runs += [_run(turn, tree) for turn in group_loose(loose, runs)]
    runs.sort(key=_START)
    if sum(map(len, map(_OPERATIONS, runs))) == len(tree.operations) == len(records):
        return runs  # no span is outside of them
    return with_inherited_ids(runs, tree.operations, records, parents)


def _to_read(
    records: Mapping[str, SpanRecord], parents: Parents, conventions: Conventions
) -> Sequence[SpanRecord]:
    """Return all spans except those of evaluations, with all inside them."""
    found = list(records.values())
    ours: set[str] = set()
    for record in found:
        # Anyone may write the mark; the proof needs the key.
        proof = record.attributes.get(_PROOF)
        is_proven = proof is not None and is_proof(proof, record.trace_id, record.span_id)
        if record.scope_name == _SCOPE or is_proven:
            ours.add(record.span_id)
    if any(map(_LOGS, found)):
        found = restore_messages(records, conventions)
    return [r for r in found if ours.isdisjoint(upward(r.span_id, parents))] if ours else found


def _outermost(tree: Tree) -> tuple[list[Operation], list[Operation]]:
    """Return the outermost agents and workflows, and the outermost other operations outside of them.

    A tool that contains an agent is skipped: it only wraps it.
    """
    roots: list[Operation] = []
    loose: list[Operation] = []
    stack = [span_id for span_id, above in tree.above.items() if above is None]
    while stack:
        operation = tree.operations[stack.pop()]
        if operation.span.span_id in tree.guards:
            continue
        if operation.kind in INVOCATIONS:
            if operation.kind is OperationKind.AGENT or does_something(operation, tree):
                roots.append(operation)
        elif operation.kind is OperationKind.OTHER or contains(operation, INVOCATIONS, tree):
            stack.extend(tree.below.get(operation.span_id, ()))
        else:
            loose.append(operation)
    return roots, loose


def _parts_of(root: Operation, tree: Tree) -> Iterator[Run]:
    """Yield the run of a root, or else of each invocation that it only groups; it may have their ids."""
    for part in invocations_in(root, tree):
        run = _run([part], tree)
        ids = {each: getattr(run, each) or getattr(root, each) for each in ("conversation_id", "user_id")}
        yield with_given(run, **ids)


def _run(members: Sequence[Operation], tree: Tree) -> Run:
    """Return the run of operations with all below them; its root is the last one."""
    operations, below = tree.operations, tree.below
    stack = list(map(_OPERATION_ID, members))
    inside: set[str] = set()
    while stack:
        span_id = stack.pop()
        inside.add(span_id)
        if span_id in below:
            stack.extend(below[span_id])
    # Most traces are one run: it needs no sort, and shares the tree.
    if len(inside) == len(operations):
        return assemble(members[-1], list(operations.values()), below, tree.above, tree.guards)
    mine = sorted((operations[i] for i in inside), key=in_order)
    ids = [operation.span.span_id for operation in mine]
    children = {span_id: below[span_id] for span_id in ids if span_id in below}
    return assemble(members[-1], mine, children, tree.above, tree.guards)


def _most_complete(spans: Sequence[SpanRecord]) -> dict[str, SpanRecord]:
    records: dict[str, SpanRecord] = {}
    for span in sorted(spans, key=_completeness, reverse=True):
        records.setdefault(span.span_id, span)
    return records


def _completeness(span: SpanRecord) -> tuple[Any, ...]:
    events = len(span.events) + len(span.logs)
    return span.end_time is not None, len(span.attributes), events, span.end_time or 0


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
        # Assembling the root's run again would lose ids that it inherited or got by joining.
        run if agent.span_id == run.root_span_id else _run([agent], tree)
        for agent in run.of_kind(OperationKind.AGENT)
        if levels.get(agent.span_id, 0) <= _DEEPEST_AGENT
    ]


_NOTHING = SpanGroup((), {})


def read_runs(
    traces: Iterable[Sequence[SpanRecord]],
    conventions: Conventions,
    links: Parents | None = None,
) -> Iterator[Run]:
    """Yield the runs of traces, each as soon as it is whole; for `links` see `find_runs`."""
    return join_split_runs(run for trace in traces for run in find_runs(trace, conventions, links))


def group_of(runs: Sequence[Run], group: SpanGroup = _NOTHING) -> SpanGroup:
    """Add the spans of joined runs from earlier groups to a group of spans."""
    spans = {span.span_id for span in group.spans}
    earlier = [o.span for run in runs for o in run.operations if o.span.span_id not in spans]
    if not earlier:
        return group
    links: dict[str, str | None] = dict(group.links)
    for run in runs:
        # Other spans between operations are not part of a run: links replace them.
        links.update((child, p) for child, p in parents_in(run.children).items() if child not in spans)
    return SpanGroup((*earlier, *group.spans), links)


def evaluation_id(run: Run, scorer_id: str, scorer_version: str) -> str:
    """Return an evaluation's id, derived from the judged span or conversation, scorer and scorer version."""
    target = f"{run.trace_id}:{run.root_span_id}"
    if run.turns:
        service, conversation, user = conversation_key(run)
        # In JSON, no id can imitate another user's.
        target = json.dumps([service, conversation, user]) if user else f"{service}\0{conversation}"
    identity = f"{target}:{scorer_id}:{scorer_version}"
    return sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:32]
