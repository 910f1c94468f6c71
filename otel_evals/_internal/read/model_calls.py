"""Groups model calls outside of any agent into turns: a user's question, the calls it took, the answer."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import chain

from otel_evals._internal.model import Operation, OperationKind, Part
from otel_evals._internal.read.question import turn_start, waiting_calls

_RECENT = 16
"""How many turns back a call without ids is compared with."""
_FOR_TOOLS = frozenset(("tool_call", "tool_calls", "tool_use", "function_call"))


def group_loose(loose: Sequence[Operation], answered: Collection[str], alone: bool) -> list[list[Operation]]:
    """Group operations into turns; each is a list of operations by start time whose last one is the root.

    A model call continues a turn if its input contains what an earlier call of the turn returned; tools and
    retrievals belong to the turn whose calls surround or follow them.

    Args:
        loose: operations outside of any agent.
        answered: response ids of model calls inside agents.
        alone: whether the trace has no other run. Tools and retrievals without model calls are then a turn,
            or embeddings if there is nothing else.
    """
    calls = [o for o in loose if o.kind is OperationKind.INFERENCE and o.response_id not in answered]
    others = [o for o in loose if o.kind in (OperationKind.TOOL, OperationKind.RETRIEVAL)]
    turns = _turns(calls)
    if not turns:
        others = others or [o for o in loose if o.kind is OperationKind.EMBEDDING]
        return [others] if others and alone else []
    for turn in turns:
        turn.sort(key=lambda o: (o.span.end_time or o.span.start_time, o.span_id))
    for other in others:
        served = next((t for t in turns if _belongs(t, other)), None)
        if served is not None:
            served.insert(0, other)
    return turns


def _turns(calls: Sequence[Operation]) -> list[list[Operation]]:
    turns: list[list[Operation]] = []
    by_id: dict[str, list[Operation]] = {}
    for call in calls:
        ids = [call.response_id, *(part.tool_call_id for part in given_to(call))]
        known = (by_id[i] for i in ids if i is not None and i in by_id)
        recent = (t for t in reversed(turns[-_RECENT:]) if continues(t, call))
        turn = next(chain(known, recent), [])
        if not turn:
            turns.append(turn)
        turn.append(call)
        asked = (part.tool_call_id for part in asked_by(call))
        by_id.update((i, turn) for i in (call.response_id, *asked) if i is not None)
    return turns


def given_to(call: Operation) -> list[Part]:
    """The tool calls and results of this turn that a model call was given."""
    messages = call.input_messages[turn_start(call) :]
    return [p for m in messages for p in m.parts if p.kind in ("tool_call", "tool_result")]


def asked_by(call: Operation) -> list[Part]:
    """The tool calls that a model call returned."""
    return [p for m in call.output_messages for p in m.parts if p.kind == "tool_call"]


def continues(turn: Sequence[Operation], call: Operation) -> bool:
    """Whether a model call continues a turn, or records one of its calls a second time."""
    given = given_to(call)
    ids = {p.tool_call_id for p in given} - {None}
    for earlier in turn:
        if call.response_id is not None and call.response_id == earlier.response_id:
            return True
        asked = asked_by(earlier)
        if ids & {p.tool_call_id for p in asked} or any(_same_call(a, g) for a in asked for g in given):
            return True
    last = turn[-1]
    beside = last.span.parent_span_id == call.span.parent_span_id is not None
    return (beside and (_goes_on(last, call) or _tells_again(last, call))) or _hands_back(last, call)


def _hands_back(last: Operation, call: Operation) -> bool:
    """Across traces, without ids: the same messages again, and as many results as the last call asked for."""
    if last.span.trace_id == call.span.trace_id or not last.input_messages or not _goes_on(last, call):
        return False
    new = [p for m in call.input_messages[len(last.input_messages) :] for p in m.parts]
    results = [p for p in new if p.kind == "tool_result"]
    return all(p.tool_call_id is None for p in results) and 0 < len(results) == len(asked_by(last))


def _same_call(asked: Part, given: Part) -> bool:
    """Whether two parts are the same call, of which one has no id."""
    return (
        None in (asked.tool_call_id, given.tool_call_id)
        and given.kind == "tool_call"
        and (asked.name, asked.data) == (given.name, given.data)
    )


def _tells_again(last: Operation, call: Operation) -> bool:
    """Whether two instrumentations recorded one call: simultaneous spans, one of them without messages."""
    one, other = last.span, call.span
    if one.scope_name == other.scope_name or one.end_time is None or other.end_time is None:
        return False
    inside = one.start_time <= other.start_time and other.end_time <= one.end_time
    around = other.start_time <= one.start_time and one.end_time <= other.end_time
    silent = not (last.input_messages or last.output_messages) or not (
        call.input_messages or call.output_messages
    )
    return (inside or around) and silent


def _goes_on(last: Operation, call: Operation) -> bool:
    """Without ids: the last call asked for tools, and this one's input extends that call's input."""
    if not asks_for_tools(last) or (last.span.end_time or 0) > call.span.start_time:
        return False
    before, now = last.input_messages, call.input_messages
    return now[: len(before)] == before and (len(now) > len(before) or not now)


def asks_for_tools(call: Operation) -> bool:
    """Whether a model call ended by asking for tools."""
    return says_tools(call) or any(map(waiting_calls, call.output_messages))


def says_tools(call: Operation) -> bool:
    """Whether the reasons for which a call or an agent ended are tools that it asked for."""
    return any(reason.lower().replace("-", "_") in _FOR_TOOLS for reason in call.finish_reasons)


def _belongs(turn: Sequence[Operation], other: Operation) -> bool:
    if other.span.parent_span_id != turn[-1].span.parent_span_id:
        return False
    return other.span.start_time <= (turn[-1].span.end_time or turn[-1].span.start_time)
