"""Groups model calls outside of any agent into turns, each with a question, its calls and the answer."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import chain

from otel_evals._internal.model import Message, Operation, OperationKind, Part
from otel_evals._internal.read.question import (
    asks,
    asks_for_tools,
    is_observation,
    parts_of,
    says_tools,
    turn_start,
)
from otel_evals._internal.read.tree import is_before, is_during

_TWINS = 2
"""How many spans may record one call: a library's, and next to it the SDK's own."""
_RECENT = 16
"""Number of turns back that a call without ids is compared with."""


def group_loose(loose: Sequence[Operation], answered: Collection[str], alone: bool) -> list[list[Operation]]:
    """Group operations into turns, lists of operations by start time whose last one is the root.

    A model call continues a turn if its input contains the result of an earlier call; tools and retrievals
    belong to the turn whose calls surround or follow them.

    Args:
        loose: operations outside of any agent.
        answered: response ids of model calls inside agents.
        alone: True if the trace has no other run. Without model calls, tools and retrievals are then a turn,
            or else embeddings.
    """
    calls = [o for o in loose if o.kind is OperationKind.INFERENCE and o.response_id not in answered]
    others = [o for o in loose if o.kind in (OperationKind.TOOL, OperationKind.RETRIEVAL)]
    turns = _turns(calls) if len(calls) > 1 else [calls] if calls else []  # one needs no content
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
    """Return this turn's tool calls and results in a model call's input."""
    return parts_of(call.input_messages[turn_start(call) :], "tool_call", "tool_result")


def asked_by(call: Operation) -> list[Part]:
    """Return the tool calls in a model call's output."""
    return parts_of(call.output_messages, "tool_call")


def continues(turn: Sequence[Operation], call: Operation) -> bool:
    """Return True if a model call continues a turn, or records the same call again."""
    given = given_to(call)
    ids = {p.tool_call_id for p in given} - {None}
    for earlier in turn:
        if call.response_id is not None and call.response_id == earlier.response_id:
            return True
        asked = asked_by(earlier)
        if ids & {p.tool_call_id for p in asked} or any(_same_call(a, g) for a in asked for g in given):
            return True
    last = turn[-1]
    are_siblings = last.span.parent_span_id == call.span.parent_span_id is not None
    if are_siblings and (_repeats(last, call) or any(_extends(e, call) for e in turn[-_TWINS:])):
        return True
    return _returns_results(last, call)


def _returns_results(last: Operation, call: Operation) -> bool:
    """Compare across traces without ids: the same messages again, and as many results as requested calls.

    Without messages, a prompt in one text begins with the earlier prompt.
    """
    if last.span.trace_id == call.span.trace_id or not last.input_messages:
        return False
    if not last.output_messages and says_tools(last):
        prompt, longer = ("\n".join(m.text for m in o.input_messages) for o in (last, call))
        return longer.startswith(prompt + "\n")
    given, before = call.input_messages, len(last.input_messages)
    if not _extends(last, call) or any(asks(given, index) for index in range(before, len(given))):
        return False  # or it continues the conversation with another question
    results = parts_of(given[before:], "tool_result")
    return all(p.tool_call_id is None for p in results) and 0 < len(results) == len(asked_by(last))


def _same_call(asked: Part, given: Part) -> bool:
    """Return True if two parts are the same call, one of them without an id."""
    return (
        None in (asked.tool_call_id, given.tool_call_id)
        and given.kind == "tool_call"
        and (asked.name, asked.data) == (given.name, given.data)
    )


def _repeats(last: Operation, call: Operation) -> bool:
    """Return True if simultaneous spans of two libraries record one call.

    One has no messages, or both have the same.
    """
    one, other = last.span, call.span
    if one.scope_name == other.scope_name or not (is_during(one, other) or is_during(other, one)):
        return False
    if not all(o.input_messages or o.output_messages for o in (last, call)):
        return True
    return _said(last.input_messages) == _said(call.input_messages) and (
        _said(last.output_messages) == _said(call.output_messages)
    )


def _said(messages: Sequence[Message]) -> str:
    """Return the last text, which instrumentations record alike, unlike the roles of other messages."""
    return messages[-1].text if messages else ""


def _extends(last: Operation, call: Operation) -> bool:
    """Without ids: this call's input extends the last call's, which asked for tools or was given results."""
    if not is_before(last.span.end_time or 0, call.span.start_time):
        return False
    before, now = last.input_messages, call.input_messages
    if now[: len(before)] != before:
        return False
    new = now[len(before) :]
    if asks_for_tools(last):
        return bool(new) or not any(p.text or p.data or p.media for message in now for p in message.parts)
    added = range(len(before), len(now))
    if not before or any(asks(now, index) for index in added):
        return False
    return bool(parts_of(new, "tool_result")) or any(is_observation(now, index) for index in added)


def _belongs(turn: Sequence[Operation], other: Operation) -> bool:
    if other.span.parent_span_id != turn[-1].span.parent_span_id:
        return False
    return other.span.start_time <= (turn[-1].span.end_time or turn[-1].span.start_time)
