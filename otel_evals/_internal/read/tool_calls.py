"""Joins the tool calls of tool spans and of messages, without duplicates or losses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from otel_evals._internal.model import Operation, OperationKind, Part, ToolCall
from otel_evals._internal.model.operations import confirms_answer, is_pseudo_tool
from otel_evals._internal.read.message_calls import (
    MessageCall,
    MessageCalls,
    calls_in_messages,
    differ,
    follow_conversations,
    same_name,
)
from otel_evals._internal.read.tree import is_before


def join_tool_calls(operations: Sequence[Operation], above: Mapping[str, str | None]) -> tuple[ToolCall, ...]:
    """Return the run's tool calls by time; `above` maps each span to its nearest operation above.

    Calls that a dialect does not count as tools, such as a framework's structured output, are left out.
    """
    not_tools = {
        o.tool_call.name for o in operations if o.kind is OperationKind.OTHER and o.tool_call is not None
    }
    in_messages = calls_in_messages(operations)
    mentioned = [t for t in in_messages.calls if t.name not in not_tools and not is_pseudo_tool(t.name)]
    found: list[tuple[MessageCall | None, int, ToolCall]] = []
    for time, call in _from_spans(operations, above):
        match = _take(mentioned, call)
        if match is not None:
            match.time = time
        found.append((match, time, _merge(call, match)))
    found.extend((t, t.time, _alone(t)) for t in mentioned)
    found = [each for each in found if not confirms_answer(each[2].result)]
    return tuple(_sorted(found, in_messages))


# --- spans ---


def _from_spans(
    operations: Sequence[Operation], above: Mapping[str, str | None]
) -> list[tuple[int, ToolCall]]:
    """Return one call per execution: spans inside a tool's span that record the same call are merged."""
    by_id = {o.span.span_id: o for o in operations}
    calls: dict[str, tuple[int, ToolCall]] = {}
    for operation in operations:
        call = operation.tool_call
        if operation.kind is not OperationKind.TOOL or call is None or is_pseudo_tool(call.name):
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
    """Return the span with the same call: one with its id, or an enclosing tool span of the same name."""
    if call.id is not None:
        twins = (span_id for span_id, (_, known) in calls.items() if known.id == call.id)
        twin = next((i for i in twins if not _reuses_id(operation, by_id[i], call, calls[i][1])), None)
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
        if span_id in calls and same_name(calls[span_id][1].name, call.name):
            known = calls[span_id][1]
            return span_id if known.id is None or call.id is None else None
        span_id = above.get(span_id)
    return None


def _reuses_id(operation: Operation, before: Operation, call: ToolCall, known: ToolCall) -> bool:
    """Return True for a later call with the id of another: some number each response anew."""
    ended = before.span.end_time or before.span.start_time
    return is_before(ended, operation.span.start_time) and differ(call.arguments, known.arguments)


def _serves(server: Operation, client: Operation, call: ToolCall, known: ToolCall) -> bool:
    """Return True if a server's span belongs to a client's call, even if spans in between are missing."""
    one, other = client.span, server.span
    if (one.trace_id, one.span_id) in other.links:
        return True
    inside = one.start_time <= other.start_time and (other.end_time or 0) <= (one.end_time or 0)
    names_server = known.name.startswith("mcp__") and known.name.endswith("__" + call.name)
    return inside and (names_server or (one.kind == "CLIENT" and same_name(known.name, call.name)))


def _answers(
    operation: Operation,
    asker: str,
    call: ToolCall,
    known: ToolCall,
    above: Mapping[str, str | None],
    by_id: Mapping[str, Operation],
) -> bool:
    """Return True if a server in the same process executes a call: in a sibling span, during its span."""
    around = above.get(operation.span_id)
    if around is None or known.id is not None or above.get(around) != above.get(asker):
        return False
    if around in by_id and by_id[around].kind is not OperationKind.OTHER:
        return False
    one, other = by_id[asker].span, operation.span
    inside = one.start_time <= other.start_time and (other.end_time or 0) <= (one.end_time or 0)
    return inside and (known.name, known.arguments) == (call.name, call.arguments)


def _fill(known: ToolCall, more: ToolCall) -> ToolCall:
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
    """Return the more informative arguments: named ones rather than a bare value."""
    if known is None or (isinstance(more, Mapping) and not isinstance(known, Mapping)):
        return known if more is None else more
    return known


# --- the two together ---


def _take(mentioned: list[MessageCall], call: ToolCall) -> MessageCall | None:
    """Remove and return the same call in the calls from messages."""
    own = [t for t in mentioned if call.id is not None and t.id == call.id]
    match = next((t for t in own if not differ(call.arguments, t.arguments)), own[0] if own else None)
    if match is None:
        same = [
            t
            for t in mentioned
            if same_name(t.name, call.name) and (None in (call.id, t.id) or _is_made_up(t))
        ]
        match = next((t for t in same if _agree(call.arguments, t.arguments)), same[0] if same else None)
    if match is not None:
        mentioned.remove(match)
    return match


def _is_made_up(mentioned: MessageCall) -> bool:
    """Return True for an id such as `look_0`, recorded for a model whose calls have none."""
    name, _, number = (mentioned.id or "").rpartition("_")
    return name == mentioned.name and number.isdigit()


def _agree(one: Any, other: Any) -> bool:
    if one is None or other is None:
        return True
    if isinstance(other, Mapping) and not isinstance(one, Mapping):
        return any(str(value) == str(one) for value in other.values())
    return bool(one == other)


def _merge(call: ToolCall, mentioned: MessageCall | None) -> ToolCall:
    if mentioned is None:
        return call
    result = call.result if call.result is not None else mentioned.result
    status = call.status
    if mentioned.failed or status == "unknown":
        status = "error" if mentioned.failed else "ok" if result is not None else "unknown"
    error = call.error
    if status == "error" and error in (None, "error") and isinstance(mentioned.result, str):
        error = mentioned.result
    return replace(
        call,
        id=call.id or mentioned.id,
        arguments=_better(call.arguments, mentioned.arguments),
        result=result,
        error=error,
        status=status,
        source="both" if call.source == "span" else call.source,
    )


def _sorted(
    found: list[tuple[MessageCall | None, int, ToolCall]], in_messages: MessageCalls
) -> list[ToolCall]:
    """Sort calls by time, corrected by the order in which models asked for them."""
    follow_conversations(in_messages)
    last = len(in_messages.calls)
    asked = [(t.time if t else time, t.rank if t else last, call) for t, time, call in found]
    by_time = [call for _, _, call in sorted(asked, key=lambda item: item[:2])]
    if not in_messages.unplaced:
        return by_time
    waiting = [item for item in asked if item[2].result is None]
    every_one_asked = all(rank < last for _, rank, _ in waiting)
    waiting.sort(key=lambda item: item[1:2] if every_one_asked else item[:2])
    return _with_results(by_time, [call for *_, call in waiting], in_messages.unplaced)


def _with_results(
    calls: list[ToolCall], waiting: Sequence[ToolCall], results: Sequence[Part]
) -> list[ToolCall]:
    """Assign results to the calls without results, in order, if there are as many of each.

    Either side may lack ids. If both have ids, they belong to different calls.
    """
    without = [call for call in waiting if call.id is None]
    if len(without) == len(results) or any(part.tool_call_id is not None for part in results):
        waiting = without
    if len(waiting) != len(results):
        return calls
    given = {
        id(call): _merge(call, MessageCall(call.name, None, None, 0, part.data, part.failed))
        for call, part in zip(waiting, results, strict=True)
    }
    return [given.get(id(call), call) for call in calls]


def _alone(mentioned: MessageCall) -> ToolCall:
    """Return a call without a span. Its status is `error` if its result says so, and unknown otherwise."""
    return ToolCall(
        name=mentioned.name,
        id=mentioned.id,
        arguments=mentioned.arguments,
        result=mentioned.result,
        error=mentioned.result if mentioned.failed and isinstance(mentioned.result, str) else None,
        status="error" if mentioned.failed else "unknown",
        source="messages",
    )
