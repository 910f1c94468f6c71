"""Finds the runs in a trace. Pure: the same spans give the same runs, live or from a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter

from otel_evals._internal.gather.trace import SpanGroup
from otel_evals._internal.model import Operation, OperationKind, Run, SpanRecord
from otel_evals._internal.model.convention import Conventions
from otel_evals._internal.model.records import with_given
from otel_evals._internal.read.assemble import assemble
from otel_evals._internal.read.names import with_inherited_ids
from otel_evals._internal.read.passes import collect, grouped, in_order
from otel_evals._internal.read.split_runs import join_split_runs
from otel_evals._internal.read.tree import Tree, guards_in, parents_in

_OPERATIONS, _OPERATION_ID = attrgetter("operations"), attrgetter("span.span_id")
_START = attrgetter("start_time", "root_span_id")
_DEEPEST_AGENT = 100
"""Levels of nested agents that are judged separately."""


def find_runs(
    spans: Sequence[SpanRecord], conventions: Conventions, links: Mapping[str, str | None] | None = None
) -> list[Run]:
    """Return the runs in the spans of a trace, by start time. Never raises.

    A root is an outermost agent or workflow. Model calls outside of any are grouped into turns; a turn's root
    is its last call, which has the answer.

    Args:
        spans: all spans of the trace, in any order; duplicates count once.
        conventions: the conventions to read them with.
        links: by span id, the nearest ancestor if spans in between are missing.
    """
    trace = grouped(collect(spans, links), conventions)
    runs: list[Run] = []
    for group in trace.groups:
        run = _run(group.root, group.members, trace.tree)
        runs.append(run if group.part_of is None else _part(run, group.part_of))
    runs.sort(key=_START)
    if sum(map(len, map(_OPERATIONS, runs))) == len(trace.tree.operations) == len(trace.records):
        return runs  # no span is outside of them
    return with_inherited_ids(runs, trace.tree.operations, trace.records, trace.parents)


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
        run if agent.span_id == run.root_span_id else _run(agent, (agent,), tree)
        for agent in run.of_kind(OperationKind.AGENT)
        if levels.get(agent.span_id, 0) <= _DEEPEST_AGENT
    ]


def _part(run: Run, whole: Operation) -> Run:
    return with_given(
        run,
        conversation_id=run.conversation_id or whole.conversation_id,
        user_id=run.user_id or whole.user_id,
    )


def _run(root: Operation, members: Sequence[Operation], tree: Tree) -> Run:
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
        return assemble(root, list(operations.values()), below, tree.above, tree.guards)
    mine = sorted((operations[i] for i in inside), key=in_order)
    ids = [operation.span.span_id for operation in mine]
    children = {span_id: below[span_id] for span_id in ids if span_id in below}
    return assemble(root, mine, children, tree.above, tree.guards)


_NOTHING = SpanGroup((), {})


def read_runs(
    traces: Iterable[Sequence[SpanRecord]],
    conventions: Conventions,
    links: Mapping[str, str | None] | None = None,
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
