"""Tool calls, joined from tool spans and from messages: none doubled, none lost."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from otel_evals.assembly.turns import this_turn, turn_start
from otel_evals.model import Message, Operation, OperationKind, Part, ToolCall

__all__ = ["join_tool_calls"]

_TELLERS = (OperationKind.INFERENCE, OperationKind.AGENT, OperationKind.WORKFLOW)
_TOOL_KINDS = ("tool_call", "tool_result")


@dataclass(slots=True, eq=False)
class _Told:
    """A call that messages tell of."""

    name: str
    id: str | None
    arguments: Any
    time: int
    result: Any = None
    failed: bool = False
    answered: bool = False


def join_tool_calls(operations: Sequence[Operation], above: Mapping[str, str | None]) -> tuple[ToolCall, ...]:
    """The run's tool calls by time; `above` maps each span to its nearest operation above.

    Calls of what a dialect says is no tool, such as a framework's way to answer, are not among them.
    """
    none = {o.tool_call.name for o in operations if o.kind is OperationKind.OTHER and o.tool_call is not None}
    tellings = _from_messages(operations)
    told = [t for t in tellings.calls if t.name not in none]
    spans = _from_spans(operations, above)
    joined = [(time, _merge(call, _take(told, call))) for time, call in spans]
    joined.extend((t.time, _alone(t)) for t in told)
    joined.sort(key=lambda pair: pair[0])
    calls = [call for _, call in joined]
    return tuple(_in_order(calls, tellings.unplaced) if tellings.unplaced else calls)


# --- spans ---


def _from_spans(
    operations: Sequence[Operation], above: Mapping[str, str | None]
) -> list[tuple[int, ToolCall]]:
    """One call per execution: spans inside a tool's span that tell the same call are folded into it."""
    by_id = {o.span_id: o for o in operations}
    calls: dict[str, tuple[int, ToolCall]] = {}
    for operation in operations:
        call = operation.tool_call
        if operation.kind is not OperationKind.TOOL or call is None:
            continue
        outer = _same_call(operation, call, calls, above, by_id)
        if outer is None:
            calls[operation.span_id] = (operation.span.start_time, call)
        else:
            time, known = calls[outer]
            calls[outer] = (time, _fill(known, call))
    return list(calls.values())


def _same_call(
    operation: Operation,
    call: ToolCall,
    calls: Mapping[str, tuple[int, ToolCall]],
    above: Mapping[str, str | None],
    by_id: Mapping[str, Operation],
) -> str | None:
    """The span whose call this is too: one with the same id, or a tool's span around it of the same name."""
    if call.id is not None:
        twin = next((span_id for span_id, (_, known) in calls.items() if known.id == call.id), None)
        if twin is not None:
            return twin
    if operation.span.kind == "SERVER" and call.id is None:
        client = next(
            (i for i, (_, known) in calls.items() if _serves(operation, by_id[i], call, known)), None
        )
        if client is not None:
            return client
    if call.id is None and call.arguments is not None:
        asker = next(
            (i for i, (_, known) in calls.items() if _answers(operation, i, call, known, above, by_id)), None
        )
        if asker is not None:
            return asker
    span_id = above.get(operation.span_id)
    while span_id is not None:
        outer = by_id.get(span_id)
        if outer is None or outer.kind in (OperationKind.AGENT, OperationKind.INFERENCE):
            return None
        if span_id in calls and _same_name(calls[span_id][1].name, call.name):
            known = calls[span_id][1]
            return span_id if known.id is None or call.id is None else None
        span_id = above.get(span_id)
    return None


def _serves(server: Operation, client: Operation, call: ToolCall, known: ToolCall) -> bool:
    """Whether a server's span is the other end of a client's, though the spans between them are gone."""
    one, other = client.span, server.span
    inside = one.start_time <= other.start_time and (other.end_time or 0) <= (one.end_time or 0)
    return one.kind == "CLIENT" and inside and _same_name(known.name, call.name)


def _answers(
    operation: Operation,
    asker: str,
    call: ToolCall,
    known: ToolCall,
    above: Mapping[str, str | None],
    by_id: Mapping[str, Operation],
) -> bool:
    """Whether a server in the same process does this call: during the other, in a span that is beside it."""
    around = above.get(operation.span_id)
    if around is None or known.id is not None or above.get(around) != above.get(asker):
        return False
    if around in by_id and by_id[around].kind is not OperationKind.OTHER:
        return False
    one, other = by_id[asker].span, operation.span
    inside = one.start_time <= other.start_time and (other.end_time or 0) <= (one.end_time or 0)
    return inside and (known.name, known.arguments) == (call.name, call.arguments)


def _fill(known: ToolCall, more: ToolCall) -> ToolCall:
    """A call with what another telling of it adds."""
    return replace(
        known,
        id=known.id or more.id,
        arguments=_better(known.arguments, more.arguments),
        result=known.result if known.result is not None else more.result,
        error=known.error if known.error not in (None, "error") else more.error or known.error,
        error_type=known.error_type or more.error_type,
        status=more.status if known.status == "unknown" or more.status == "error" else known.status,
    )


def _better(known: Any, more: Any) -> Any:
    """Named arguments tell more than a bare value does."""
    if known is None or (isinstance(more, Mapping) and not isinstance(known, Mapping)):
        return known if more is None else more
    return known


# --- messages ---


class _Tellings:
    """The calls that messages tell of: by id, and for those told without one by name and arguments."""

    def __init__(self) -> None:
        self.calls: list[_Told] = []
        self.unplaced: list[Part] = []
        """Results of calls that nobody tells, without an id: as many as the conversation that has most."""
        self._by_id: dict[str, _Told] = {}
        self._alike: dict[str, list[_Told]] = {}

    def follow(self, messages: Sequence[Message], time: int) -> None:
        """Walk a conversation: calls first, their results after."""
        parts = [p for m in messages for p in m.parts if p.kind in _TOOL_KINDS]
        if not parts:
            return
        answers = {p.tool_call_id for p in parts if p.kind == "tool_result"}
        seen: dict[int, _Told] = {}
        unplaced: list[Part] = []
        for part in parts:
            if part.kind == "tool_result":
                if not self._answer(part, time, seen) and part.tool_call_id is None:
                    unplaced.append(part)
            elif part.name:
                told = self._call(part, time, seen, answers)
                seen[id(told)] = told
        if len(unplaced) > len(self.unplaced):
            self.unplaced = unplaced

    def _call(self, part: Part, time: int, seen: Mapping[int, _Told], answers: set[str | None]) -> _Told:
        """The call that a part tells: one with its id, else the first alike that this walk has not met."""
        call_id = part.tool_call_id
        told = self._by_id.get(call_id) if call_id is not None else None
        if told is None:
            alike = self._alike.setdefault(part.name or "", [])
            told = next((t for t in alike if id(t) not in seen and _may_be(t, part, answers)), None)
            if told is None:
                told = _Told(part.name or "", call_id, part.data, time)
                self.calls.append(told)
                alike.append(told)
        if told.arguments is None:
            told.arguments = part.data
        if call_id is not None:
            told.id = told.id or call_id
            self._by_id[call_id] = told
        return told

    def _answer(self, part: Part, time: int, seen: Mapping[int, _Told]) -> bool:
        """Give a result to its call; False if there is none that it could be of."""
        told = self._by_id.get(part.tool_call_id) if part.tool_call_id is not None else None
        if told is None:
            waiting = (
                t
                for t in seen.values()
                if not t.answered and (part.name is None or _same_name(t.name, part.name))
            )
            told = next(waiting, None)
        if told is None and part.tool_call_id is not None and part.name:
            told = self._by_id[part.tool_call_id] = _Told(part.name, part.tool_call_id, None, time)
            self.calls.append(told)
        if told is not None and not told.answered:
            told.result, told.failed, told.answered = part.data, part.failed, part.data is not None
        return told is not None


def _may_be(told: _Told, part: Part, answers: set[str | None]) -> bool:
    """Whether a part may tell a call again. Some tell one under two ids; its result then names the other."""
    ids_allow = told.id is None or part.tool_call_id is None or part.tool_call_id not in answers
    return ids_allow and bool(told.arguments == part.data)


def _from_messages(operations: Sequence[Operation]) -> _Tellings:
    tellings = _Tellings()
    for operation in operations:
        if operation.kind in _TELLERS:
            given = operation.input_messages[turn_start(operation) :]
            said = this_turn(operation.output_messages)
            tellings.follow((*given, *said), operation.span.end_time or operation.span.start_time)
    return tellings


# --- the two together ---


def _take(told: list[_Told], call: ToolCall) -> _Told | None:
    """The telling of this very call, taken off the list."""
    match = next((t for t in told if call.id is not None and t.id == call.id), None)
    if match is None:
        same = [t for t in told if _same_name(t.name, call.name) and (call.id is None or t.id is None)]
        match = next((t for t in same if _agree(call.arguments, t.arguments)), same[0] if same else None)
    if match is not None:
        told.remove(match)
    return match


def _agree(one: Any, other: Any) -> bool:
    if one is None or other is None:
        return True
    if isinstance(other, Mapping) and not isinstance(one, Mapping):
        return any(str(value) == str(one) for value in other.values())
    return bool(one == other)


def _merge(call: ToolCall, told: _Told | None) -> ToolCall:
    if told is None:
        return call
    result = call.result if call.result is not None else told.result
    status = call.status
    if told.failed or status == "unknown":
        status = "error" if told.failed else "ok" if result is not None else "unknown"
    error = call.error
    if status == "error" and error in (None, "error") and isinstance(told.result, str):
        error = told.result
    return ToolCall(
        name=call.name,
        id=call.id or told.id,
        arguments=_better(call.arguments, told.arguments),
        result=result,
        error=error,
        error_type=call.error_type,
        status=status,
        span_id=call.span_id,
        source="both" if call.source == "span" else call.source,
        duration=call.duration,
    )


def _in_order(calls: list[ToolCall], results: Sequence[Part]) -> list[ToolCall]:
    """Results that name no call belong to the calls that have none, in order, where there are as many."""
    waiting = [c for c in calls if c.result is None and c.id is None]
    if len(waiting) != len(results):
        return calls
    given = {
        id(call): _merge(call, _Told(call.name, None, None, 0, part.data, part.failed))
        for call, part in zip(waiting, results, strict=True)
    }
    return [given.get(id(call), call) for call in calls]


def _alone(told: _Told) -> ToolCall:
    """A call without a span: whether it succeeded is known only if its result says that it failed."""
    return ToolCall(
        name=told.name,
        id=told.id,
        arguments=told.arguments,
        result=told.result,
        error=told.result if told.failed and isinstance(told.result, str) else None,
        status="error" if told.failed else "unknown",
        source="messages",
    )


def _same_name(one: str, other: str) -> bool:
    """Whether two names mean the same tool: prefixes of servers and plugins, case and separators aside."""
    if one == other:
        return True
    first, second = (re.sub(r"[^a-z0-9]+", "_", name.lower()) for name in (one, other))
    return first == second or first.endswith("_" + second) or second.endswith("_" + first)
