"""Joins the tool calls of tool spans and of messages, without duplicates or losses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from msgspec.structs import replace

from otel_evals._internal.model import Operation, OperationKind, Part, ToolCall
from otel_evals._internal.model.operations import end_of, is_pseudo_tool
from otel_evals._internal.read.message_calls import (
    Mentioned,
    MessageCall,
    MessageCalls,
    calls_in_messages,
    differ,
    follow_conversations,
    same_name,
)
from otel_evals._internal.read.question import confirms_answer
from otel_evals._internal.read.tree import Parents, is_before, is_during, upward
from otel_evals._internal.util.plain import read_json

_LEVELS = 32
"""Levels above a tool's span at which another span may record the same call."""


def join_tool_calls(operations: Sequence[Operation], above: Parents) -> tuple[ToolCall, ...]:
    """Return the run's tool calls by time; `above` maps each span to its nearest operation above.

    Calls that a convention does not count as tools, such as a framework's structured output, are left out.
    """
    not_tools = {
        o.tool_call.name for o in operations if o.kind is OperationKind.OTHER and o.tool_call is not None
    }
    in_messages = calls_in_messages(operations)
    mentioned = Mentioned(
        t for t in in_messages.calls if t.name not in not_tools and not is_pseudo_tool(t.name)
    )
    found: list[tuple[MessageCall | None, int, ToolCall]] = []
    for time, call in _SpanCalls(operations, above).with_attempts():
        match = mentioned.take(call)
        if match is not None:
            # A span has the exact start; messages only say by when the call was asked for.
            match.time = time
        found.append((match, time, _merge(call, match)))
    found.extend((t, t.time, _alone(t)) for t in mentioned)
    # Only joined calls have their results, by which these are recognised.
    found = [each for each in found if not confirms_answer(each[2].result)]
    return tuple(_sorted(found, in_messages))


# --- spans ---


class _SpanCalls:
    """One call per execution: spans inside a tool's span that record the same call are merged."""

    def __init__(self, operations: Sequence[Operation], above: Parents) -> None:
        self._above = above
        self._by_id = {o.span.span_id: o for o in operations}
        self.calls: dict[str, tuple[int, ToolCall]] = {}
        """By span id, with the time of the start."""
        self._with_id: dict[str | None, list[str]] = {}
        """Span ids by the call's id."""
        self._clients: list[str] = []
        """Spans of calls that a server may execute and record, too, as far as they have not ended."""
        self._alike: dict[tuple[str | None, str], list[str]] = {}
        """The same for calls without an id, by the span above and the tool's name."""
        for operation in operations:  # by start
            call = operation.tool_call
            if operation.kind is not OperationKind.TOOL or call is None or is_pseudo_tool(call.name):
                continue
            outer = self._same_call(operation, call)
            if outer is None:
                self._add(operation, call)
            else:
                time, known = self.calls[outer]
                self.calls[outer] = time, _fill(known, call)
                if call.id is not None:
                    # Later spans with this id find the merged call.
                    self._with_id.setdefault(call.id, []).append(outer)

    def with_attempts(self) -> list[tuple[int, ToolCall]]:
        """Return the calls with the times of their starts; executions with one id are its attempts.

        Without an id, a call continues one of the same tool that is pending.
        """
        found: list[tuple[int, list[ToolCall]]] = []
        latest: dict[str, list[ToolCall]] = {}
        for time, call in self.calls.values():
            # The words keep a tool's name from being taken for another call's id.
            key = call.id or f"{call.name} is pending"
            attempts = latest.get(key)
            if attempts is not None and not differ(attempts[-1].arguments, call.arguments):
                attempts.append(call)
                continue
            started = [call]
            found.append((time, started))
            if call.id is not None or call.status == "pending":
                latest[key] = started
        return [(time, each[0] if len(each) == 1 else _attempted(each)) for time, each in found]

    def _add(self, operation: Operation, call: ToolCall) -> None:
        span_id = operation.span_id
        self.calls[span_id] = operation.span.start_time, call
        if operation.span.kind == "CLIENT" or call.name.startswith("mcp__"):
            self._clients.append(span_id)
        if call.id is not None:
            self._with_id.setdefault(call.id, []).append(span_id)
        else:
            self._alike.setdefault((self._above.get(span_id), call.name), []).append(span_id)

    def _same_call(self, operation: Operation, call: ToolCall) -> str | None:
        """Return the span with the same call: one with its id, or an enclosing tool span of the same name."""
        by_id = self._by_id
        for twin in self._with_id.get(call.id, ()):
            if not _is_later(operation, by_id[twin], call, self.calls[twin][1]):
                return twin
        served = self._client_of(operation, call) or self._asker_of(operation, call)
        if served is not None and call.id is None:
            return served
        for span_id in islice(upward(self._above.get(operation.span_id), self._above), _LEVELS):
            outer = by_id.get(span_id)
            # Above an agent or a model call, the same name is another call.
            if outer is None or outer.kind in (OperationKind.AGENT, OperationKind.INFERENCE):
                return None
            if span_id in self.calls and same_name(self.calls[span_id][1].name, call.name):
                known = self.calls[span_id][1]
                # Calls with different ids stay apart; attempts with the same id are joined later.
                return span_id if known.id is None or call.id is None else None
        return None

    def _client_of(self, server: Operation, call: ToolCall) -> str | None:
        """Return the client's span of a call that a server executed, even if spans in between are missing."""
        if server.span.kind != "SERVER":
            return None
        # A link names the client for certain; names and times only suggest it.
        for trace_id, span_id in server.span.links:
            if span_id in self.calls and self._by_id[span_id].span.trace_id == trace_id:
                return span_id
        # Operations come by start: a span that has ended contains no later one either.
        self._clients = self._open(self._clients, server)
        for span_id in self._clients:
            known, client = self.calls[span_id][1], self._by_id[span_id]
            names_server = known.name.startswith("mcp__") and known.name.endswith("__" + call.name)
            is_client = client.span.kind == "CLIENT" and same_name(known.name, call.name)
            if (names_server or is_client) and is_during(server.span, client.span):
                return span_id
        return None

    def _asker_of(self, operation: Operation, call: ToolCall) -> str | None:
        """Return the span of a call that a server in the same process executes in a sibling span."""
        around = self._above.get(operation.span_id)
        if around is None or (around in self._by_id and self._by_id[around].kind is not OperationKind.OTHER):
            return None
        place = self._above.get(around), call.name
        alike = self._alike[place] = self._open(self._alike.get(place, ()), operation)
        for span_id in alike:
            known = self.calls[span_id][1]
            same = known.id is None and known.arguments == call.arguments is not None
            if same and is_during(operation.span, self._by_id[span_id].span):
                return span_id
        return None

    def _open(self, span_ids: Iterable[str], operation: Operation) -> list[str]:
        """Return the spans that had not ended before an operation started."""
        start = operation.span.start_time
        return [i for i in span_ids if (self._by_id[i].span.end_time or start) >= start]


def _is_later(operation: Operation, before: Operation, call: ToolCall, known: ToolCall) -> bool:
    """Return True for a later execution with the id of another: a retry, or a number used again."""
    if not is_before(end_of(before), operation.span.start_time):
        return False
    return operation.span.scope_name == before.span.scope_name or differ(call.arguments, known.arguments)


def _attempted(attempts: Sequence[ToolCall]) -> ToolCall:
    """Return a call as its last attempt, with what only earlier ones recorded."""
    last = attempts[-1]
    arguments = next((each.arguments for each in reversed(attempts) if each.arguments is not None), None)
    return replace(last, arguments=arguments, attempts=tuple(attempts))


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


def _merge(call: ToolCall, mentioned: MessageCall | None) -> ToolCall:
    if mentioned is None:
        return call
    # The result in the messages may be of an earlier attempt.
    failed_again = bool(call.attempts) and call.status == "error"
    result = mentioned.result if call.result is None and not failed_again else call.result
    status = call.status
    if mentioned.failed or status == "unknown" or (status == "pending" and result is not None):
        status = "error" if mentioned.failed else "ok" if result is not None else "unknown"
    error = call.error
    if status == "error" and error in (None, "error") and isinstance(mentioned.result, str):
        # In messages, a failed call has its error as the result.
        error = mentioned.result or error
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
    waiting = [item for item in asked if item[2].result is None]
    every_one_asked = all(rank < last for _, rank, _ in waiting)
    # Results without ids follow the requests, or the starts if not all were in messages.
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
        # By identity: calls may be equal, and their arguments have no hash.
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


# --- calls that wait for their results ---


def with_pending(calls: Sequence[ToolCall], asked: Sequence[Part]) -> tuple[ToolCall, ...]:
    """Mark the calls that a model asked for and that have no result as pending."""
    ids = {part.tool_call_id for part in asked}
    names = {part.name for part in asked if part.tool_call_id is None}
    return tuple(
        replace(call, status="pending")
        if call.result is None and call.error is None and (call.id in ids or call.name in names)
        else call
        for call in calls
    )


def is_after_pending(last: Operation, operations: Iterable[Operation]) -> bool:
    """Return True if the last model call began after every call that is pending."""
    return all(
        o.span.start_time < last.span.start_time
        for o in operations
        if o.tool_call is not None and o.tool_call.status == "pending"
    )


def is_json_of(text: str, value: object) -> bool:
    """Return True for a text that is an object as JSON."""
    try:
        return bool(read_json(text) == value)
    except ValueError:
        return False
