"""Finds the runs in a trace, and combines the runs of a conversation.

Pure: the same spans give the same runs, live or from a file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import chain
from operator import attrgetter
from typing import Any

from otel_evals import semconv
from otel_evals._internal.gather.trace import SpanGroup
from otel_evals._internal.model import Availability, Message, Operation, OperationKind, Run, SpanRecord, Usage
from otel_evals._internal.model.convention import Conventions
from otel_evals._internal.model.records import with_given
from otel_evals._internal.read.assemble import assemble, unique_documents
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
        whole = group.part_of
        if whole is not None:
            ids = {
                each: getattr(run, each) or getattr(whole, each) for each in ("conversation_id", "user_id")
            }
            run = with_given(run, **ids)
        runs.append(run)
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


# --- Conversations: one run of all turns, which any scorer can judge ---


_LONGEST_ID = 256
_COLLECTED = {"tool_arguments": "tool_calls", "tool_results": "tool_calls", "documents": "documents"}
_WORST_FIRST = (
    Availability.CAPTURED_OFF,
    Availability.NOT_RECORDED,
    Availability.TRUNCATED,
    Availability.PRESENT,
)


def as_conversation(runs: Iterable[Run]) -> Run:
    """Combine the runs of a conversation, in any order, into one run.

    Input, output, error, ids and resource come from the last run; the history is everything before it;
    operations, tool calls, documents, models and usage come from all runs; it lasts from the first run's
    start to the last run's end. The runs themselves are its `turns`.

    Raises:
        IndexError: there are no runs.
    """
    turns = tuple(sorted(runs, key=lambda run: (run.start_time, run.root_span_id)))
    last = turns[-1]
    ends = [run.end_time for run in turns if run.end_time is not None]
    return replace(
        last,
        turns=turns,
        trace_ids=tuple(dict.fromkeys(_all(turns, "trace_ids"))),
        operations=tuple(sorted(_all(turns, "operations"), key=lambda o: o.span.start_time)),
        children={parent: below for run in turns for parent, below in run.children.items()},
        user_id=_latest(turns, "user_id"),
        system_instructions=_latest(turns, "system_instructions"),
        history=_history(turns),
        tool_calls=tuple(_all(turns, "tool_calls")),
        documents=unique_documents(_all(turns, "documents")),
        models=tuple(dict.fromkeys(_all(turns, "models"))),
        usage=sum((run.usage for run in turns), Usage()),
        start_time=turns[0].start_time,
        end_time=max(ends, default=None),
        availability={**last.availability, **_availability(turns)},
        sources={name: source for run in turns for name, source in run.sources.items()},
    )


def _all(turns: Sequence[Run], name: str) -> Iterable[Any]:
    return chain.from_iterable(getattr(run, name) for run in turns)


def _latest(turns: Sequence[Run], name: str) -> Any:
    return next((value for run in reversed(turns) if (value := getattr(run, name)) is not None), None)


def _history(turns: Sequence[Run]) -> tuple[Message, ...]:
    """Return the messages before the last turn: from the turns, or from the last run if that has more."""
    messages = list(turns[0].history) if len(turns) > 1 else []
    for run in turns[:-1]:
        messages += (*run.input_messages, *run.output_messages)
    # Some turns may be missing or lack their content, which the last request may repeat.
    recorded = turns[-1].history
    asked, known = ([m for m in each if m.role == "user" and m.text] for each in (recorded, messages))
    return recorded if len(asked) > len(known) or not messages else tuple(messages)


def _availability(turns: Sequence[Run]) -> dict[str, Availability]:
    """Return the worst availability of fields collected from all turns."""
    states: dict[str, Availability] = {}
    for name, holder in _COLLECTED.items():
        # A turn without calls or documents lacks no content.
        known = [run.availability[name] for run in turns if getattr(run, holder) and name in run.availability]
        if known:
            states[name] = min(known, key=_WORST_FIRST.index)
    return states


# --- identities, the same in every process ---


def conversation_key(run: Run) -> tuple[str, str, str]:
    """Return service name, conversation id and user id, each empty if not recorded.

    Applications number conversations for each user, or call all of them "default", so conversations of two
    users are never one. A digest replaces an id longer than 256 characters, because keys are kept for long.
    """
    service = str(run.resource.get(semconv.SERVICE_NAME) or "")
    return _short(service), _short(run.conversation_id or ""), _short(run.user_id or "")


def _short(name: str) -> str:
    if len(name) <= _LONGEST_ID:
        return name
    return "sha256:" + sha256(name.encode("utf-8", "surrogatepass")).hexdigest()


def evaluation_id(run: Run, scorer_id: str, scorer_version: str) -> str:
    """Return an evaluation's id, derived from the judged span or conversation, scorer and scorer version."""
    target = f"{run.trace_id}:{run.root_span_id}"
    if run.turns:
        service, conversation, user = conversation_key(run)
        # In JSON, no id can imitate another user's.
        target = json.dumps([service, conversation, user]) if user else f"{service}\0{conversation}"
    identity = f"{target}:{scorer_id}:{scorer_version}"
    return sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:32]
