"""The tool calls in the messages of a run: each once, with its result, in the order of the requests."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from heapq import merge
from itertools import pairwise
from typing import Any

from msgspec.structs import replace

from otel_evals._internal.model import Message, Operation, OperationKind, Part, ToolCall
from otel_evals._internal.model.operations import end_of
from otel_evals._internal.read.question import HAVE_MESSAGES, given_this_turn, parts_of, this_turn

_TOOL_KINDS = ("tool_call", "tool_result")


@dataclass(slots=True, eq=False)
class MessageCall:
    name: str
    id: str | None
    arguments: Any
    time: int
    result: Any = None
    failed: bool = False
    answered: bool = False
    rank: int = 0
    """Position among the calls in the order in which models asked for them."""


class MessageCalls:
    """The tool calls in messages, identified by id, or by name and arguments without one."""

    def __init__(self) -> None:
        self.calls: list[MessageCall] = []
        self.unplaced: list[Part] = []
        """Results without a call, of the last list with most of them: the outermost agent speaks last."""
        self.walks: list[list[list[MessageCall]]] = []
        """For each list of messages, the calls of each message. Calls of one message may run in parallel."""
        self._by_id: dict[str | None, MessageCall] = {}
        self._reused: dict[str, list[MessageCall]] = {}
        """Calls with the id of an earlier call: some libraries restart their numbers in each response."""
        self._alike: dict[object, list[MessageCall]] = {}
        """Calls of the same name, whose arguments may be equal."""
        self._given: list[list[Part]] = []
        """The calls and results of each list, with their ids."""

    def follow(self, *conversation: tuple[Sequence[Message], int]) -> None:
        """Add the calls of a list of messages in parts, each with the time by which it was complete."""
        groups = [
            (parts, time)
            for messages, time in conversation
            for message in messages
            if (parts := [part for part in message.parts if part.kind in _TOOL_KINDS])
        ]
        # Two ids with results in one list are two calls, even with equal arguments.
        answers = {p.tool_call_id for parts, _ in groups for p in parts if p.kind == "tool_result"}
        # If all ids are known, the list is no repetition with other ids.
        if not self._by_id.keys() >= answers - {None}:
            self._recognise(conversation[0][0])
        # By identity: equal calls without ids in one list are as many calls.
        seen: dict[int, MessageCall] = {}
        latest: dict[str | None, MessageCall] = {}
        unplaced: list[Part] = []
        walk: list[list[MessageCall]] = []
        for parts, time in groups:
            asked = []
            for part in parts:
                if part.kind == "tool_result":
                    if not self._answer(part, time, seen, latest):
                        unplaced.append(part)
                elif part.name:
                    known = self._again(part, time, latest) or self._call(part, time, seen, answers)
                    seen[id(known)] = latest[part.tool_call_id] = known
                    asked.append(known)
            walk.append(asked)
        # A single message says nothing about the order of messages.
        if len(walk) > 1:
            self.walks.append(walk)
        # Requests repeat the results of earlier ones: a sum would count them twice.
        if len(unplaced) >= len(self.unplaced):
            self.unplaced = unplaced

    def _recognise(self, messages: Sequence[Message]) -> None:
        """Recognise a conversation that is repeated with other ids, as by an agent and by its model."""
        mine = [part for part in parts_of(messages, *_TOOL_KINDS) if part.tool_call_id is not None]
        known = next((k for k in self._given if _says_the_same(k, mine)), None)
        if known is None:
            self._given.append(mine)
            return
        for one, other in zip(known, mine, strict=True):
            call = self._by_id.get(one.tool_call_id)
            if call is not None:
                # Both ids lead to one call, whichever list a later part comes from.
                self._by_id.setdefault(other.tool_call_id, call)

    def _again(self, part: Part, time: int, latest: Mapping[str | None, MessageCall]) -> MessageCall | None:
        """Return the call of a part with the id of another, answered call of the same list."""
        before = latest.get(part.tool_call_id) if part.tool_call_id is not None else None
        if before is None or not before.answered or not differ(before.arguments, part.data):
            return None
        again = self._reused.setdefault(part.tool_call_id or "", [])
        known = next((t for t in again if t.arguments == part.data), None)
        if known is None:
            known = self._new_call(part, part.data, time)
            again.append(known)
        return known

    def _call(
        self, part: Part, time: int, seen: Mapping[int, MessageCall], answers: set[str | None]
    ) -> MessageCall:
        """Return the call of a part: the one with its id, or else the first equal one not in this list."""
        call_id = part.tool_call_id
        known = self._by_id.get(call_id)
        if known is None:
            # A coarse key keeps the search short; `_may_be` compares the arguments themselves.
            alike = self._alike.setdefault((part.name, _coarsely(part.data)), [])
            known = next((t for t in alike if id(t) not in seen and _may_be(t, part, answers)), None)
            if known is None and call_id is None and part.data is not None:
                # The arguments of a streamed call may be in the next request only.
                bare = self._alike.get((part.name, _coarsely(None)), ())
                known = next((t for t in bare if id(t) not in seen and t.arguments is None), None)
            if known is None:
                known = self._new_call(part, part.data, time)
                alike.append(known)
        # Later requests repeat the call: the earliest list that has it is nearest to its start.
        known.time = min(known.time, time)
        if known.arguments is None:
            known.arguments = part.data
        if call_id is not None:
            known.id = known.id or call_id
            self._by_id[call_id] = known
        return known

    def _new_call(self, part: Part, arguments: Any, time: int) -> MessageCall:
        known = MessageCall(part.name or "", part.tool_call_id, arguments, time, rank=len(self.calls))
        self.calls.append(known)
        return known

    def _answer(
        self,
        part: Part,
        time: int,
        seen: Mapping[int, MessageCall],
        latest: Mapping[str | None, MessageCall],
    ) -> bool:
        """Assign a result to its call; returns False if there is no such call."""
        call_id = part.tool_call_id
        known = latest.get(call_id, self._by_id.get(call_id)) if call_id is not None else None
        if known is None:
            waiting = (t for t in seen.values() if not t.answered)
            known = next((t for t in waiting if part.name is None or same_name(t.name, part.name)), None)
        if known is None and part.tool_call_id is not None and part.name:
            name = part.name
            open_calls = (
                t for t in self.calls if t.id is None and not t.answered and same_name(t.name, name)
            )
            known = next(open_calls, None) or self._new_call(part, None, time)
            # A call without an id gets it from its result; later parts find the call by it.
            self._by_id[part.tool_call_id] = known
        if known is not None and not known.answered:
            known.result, known.failed, known.answered = part.data, part.failed, part.data is not None
        return known is not None


def _coarsely(arguments: Any) -> object:
    """Return a key that is the same for equal arguments; nested values count as equal."""
    if not isinstance(arguments, Mapping):
        return _hash(arguments)
    return frozenset((key, _hash(value)) for key, value in arguments.items())


def _hash(value: Any) -> int:
    return hash(value) if isinstance(value, str | int | float | None) else 0


def differ(one: Any, other: Any) -> bool:
    """Return True for named arguments that are not equal."""
    return isinstance(one, Mapping) and isinstance(other, Mapping) and one != other


def _says_the_same(known: Sequence[Part], mine: Sequence[Part]) -> bool:
    """Return True for two lists with the same calls and results in the same order, all with other ids."""
    if len(known) != len(mine):
        return False
    return all(
        (a.kind, a.name, a.data) == (b.kind, b.name, b.data) and a.tool_call_id != b.tool_call_id
        for a, b in zip(known, mine, strict=True)
    )


def _may_be(known: MessageCall, part: Part, answers: set[str | None]) -> bool:
    """Return True if a part may be a known call. Some instrumentations record one call with two ids."""
    ids_allow = known.id is None or part.tool_call_id is None or part.tool_call_id not in answers
    return ids_allow and bool(known.arguments == part.data)


def calls_in_messages(operations: Sequence[Operation]) -> MessageCalls:
    found = MessageCalls()
    for operation in operations:
        if operation.kind in HAVE_MESSAGES and (operation.input_messages or operation.output_messages):
            given = given_this_turn(operation, operations)
            said = this_turn(operation.output_messages)
            if operation.kind is OperationKind.INFERENCE:
                said = _once(said)
            start, end = operation.span.start_time, end_of(operation)
            # A model call's input was complete when it started; an agent may add to its own while it runs.
            before = start if operation.kind is OperationKind.INFERENCE else end
            found.follow((given, before), (said, end))
    return found


def _once(said: Sequence[Message]) -> Sequence[Message]:
    """Return a model's response with each call without an id once: chunks of a stream may repeat it."""
    calls = [part for part in parts_of(said, "tool_call") if part.tool_call_id is None]
    if not any(one == other for one, other in pairwise(calls)):
        return said
    kept: list[Part] = []
    messages = []
    for message in said:
        parts = [p for p in message.parts if p.kind != "tool_call" or p not in kept]
        kept += [p for p in parts if p.kind == "tool_call" and p.tool_call_id is None]
        messages.append(replace(message, parts=tuple(parts)))
    return messages


def follow_conversations(found: MessageCalls) -> None:
    """Order calls after the calls of earlier messages, whose results the model already had.

    Calls of one message keep the order of the request, whichever began first.
    """
    for walk in found.walks:
        earliest = 0
        for group in walk:
            times = sorted(known.time for known in group)
            for known, time in zip(group, times, strict=True):
                known.time = max(time, earliest)
            earliest = max([earliest, *(known.time for known in group)])


# The same few names are compared for every call; the bound is for invented ones.
@lru_cache(maxsize=1_000)
def _bare(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower())


def same_name(one: str, other: str) -> bool:
    """Compare tool names regardless of server or plugin prefixes, case and separators."""
    first, second = "_" + _bare(one), "_" + _bare(other)
    return first.endswith(second) or second.endswith(first)


class Mentioned:
    """The calls from messages that are not joined with one of a span yet, in their order."""

    def __init__(self, calls: Iterable[MessageCall]) -> None:
        self._left = dict(enumerate(calls))
        self._by_id: dict[str, list[int]] = {}
        self._by_name: dict[str, dict[int, None]] = {}
        for number, call in self._left.items():
            self._by_name.setdefault(call.name, {})[number] = None
            if call.id is not None:
                self._by_id.setdefault(call.id, []).append(number)

    def __iter__(self) -> Iterator[MessageCall]:
        return iter(self._left.values())

    def take(self, call: ToolCall) -> MessageCall | None:
        """Remove and return the same call."""
        number = self._find(call)
        if number is None:
            return None
        match = self._left.pop(number)
        del self._by_name[match.name][number]
        return match

    def _find(self, call: ToolCall) -> int | None:
        # Ids may be used again: arguments decide among calls with one id.
        own = [n for n in self._by_id.get(call.id or "", ()) if n in self._left]
        if own:
            return min(own, key=lambda n: differ(call.arguments, self._left[n].arguments))
        alike = [numbers for name, numbers in self._by_name.items() if same_name(name, call.name)]
        # The numbers of each name ascend: merged, they are in the order of the requests.
        numbers = [n for n in merge(*alike) if call.id is None or _may_have_any_id(self._left[n])]
        agreeing = (n for n in numbers if _agree(call.arguments, self._left[n].arguments))
        return next(agreeing, next(iter(numbers), None))


def _may_have_any_id(mentioned: MessageCall) -> bool:
    """Return True without an id, or for one such as `look_0`, recorded for a model whose calls have none.

    Two recorded ids that differ are two calls.
    """
    name, _, number = (mentioned.id or "").rpartition("_")
    return mentioned.id is None or (name == mentioned.name and number.isdigit())


def _agree(one: Any, other: Any) -> bool:
    if one is None or other is None:
        return True
    # A span may have a bare value where the message has named arguments.
    if isinstance(other, Mapping) and not isinstance(one, Mapping):
        return any(str(value) == str(one) for value in other.values())
    return bool(one == other)
