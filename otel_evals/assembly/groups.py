"""Model calls outside of any agent, gathered into turns: a user's question, the calls it took, the answer."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from otel_evals.assembly.turns import turn_start
from otel_evals.model import Operation, OperationKind

__all__ = ["group_loose"]


def group_loose(loose: Sequence[Operation], answered: Collection[str]) -> list[list[Operation]]:
    """Turns, each a list of operations by start time whose last member is the root.

    A model call continues a turn when it was given what an earlier call of it had answered; tools and retrievers
    belong to the turn whose calls surround or follow them. `answered` are response ids that agents account for.
    """
    calls = [o for o in loose if o.kind is OperationKind.INFERENCE and o.response_id not in answered]
    others = [o for o in loose if o.kind in (OperationKind.TOOL, OperationKind.RETRIEVAL)]
    turns: list[list[Operation]] = []
    for call in calls:
        turn = next((t for t in reversed(turns) if _continues(t, call)), None)
        if turn is None:
            turns.append([call])
        else:
            turn.append(call)
    if not turns:
        return [others] if others and not answered else []
    for turn in turns:
        turn.sort(key=lambda o: (o.span.end_time or o.span.start_time, o.span_id))
    for other in others:
        turn = next((t for t in turns if _belongs(t, other)), None)
        if turn is not None:
            turn.insert(0, other)
    return turns


def _continues(turn: Sequence[Operation], call: Operation) -> bool:
    """Whether a call goes on with what the turn's calls began, or tells one of them a second time."""
    given = {
        p.tool_call_id for m in call.input_messages[turn_start(call) :] for p in m.parts if p.tool_call_id
    }
    for earlier in turn:
        if call.response_id is not None and call.response_id == earlier.response_id:
            return True
        asked = {p.tool_call_id for m in earlier.output_messages for p in m.parts if p.kind == "tool_call"}
        if given & (asked - {None}):
            return True
    last = turn[-1]
    return last.span.parent_span_id == call.span.parent_span_id and _goes_on(last, call)


def _goes_on(last: Operation, call: Operation) -> bool:
    """Without ids: the last call asked for tools, and this one begins with the same messages."""
    if not _asks(last) or (last.span.end_time or 0) > call.span.start_time:
        return False
    return call.input_messages[: len(last.input_messages)] == last.input_messages


def _asks(call: Operation) -> bool:
    parts = (p for m in call.output_messages for p in m.parts)
    return any(p.kind == "tool_call" for p in parts) or any(
        reason.lower().replace("-", "_") in ("tool_call", "tool_calls", "tool_use", "function_call")
        for reason in call.finish_reasons
    )


def _belongs(turn: Sequence[Operation], other: Operation) -> bool:
    if other.span.parent_span_id != turn[-1].span.parent_span_id:
        return False
    return other.span.start_time <= (turn[-1].span.end_time or turn[-1].span.start_time)
