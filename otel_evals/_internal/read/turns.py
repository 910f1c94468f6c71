"""Turns: model calls outside of any agent, each with a question, its calls and the answer; and their tokens.

Also splits traces in which an application's span groups several invocations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from operator import attrgetter
from typing import Final

from otel_evals._internal.model import Message, Operation, OperationKind, Part, Run, Usage
from otel_evals._internal.model.operations import NO_USAGE, end_of
from otel_evals._internal.read.question import (
    asks,
    asks_for_tools,
    find_answer,
    find_question,
    is_observation,
    parts_of,
    says_tools,
    turn_start,
)
from otel_evals._internal.read.tree import INVOCATIONS, Parents, Tree, is_before, is_during

_TWINS = 2
"""How many spans may record one call: a library's, and next to it the SDK's own."""
_RECENT = 16
"""Number of turns back that a call without ids is compared with."""
_DISTINCTIVE = 8
"""Length of an answer that a later question does not contain by chance."""
_USAGE, _TOTAL = attrgetter("usage"), attrgetter("usage.total_tokens")
_PLACE = attrgetter("span.name", "span.scope_name")
_NEAR = 8
"""Compare a model call with this many earlier ones, to count it once."""
APART: Final = tuple(k for k in OperationKind if k not in (OperationKind.INFERENCE, OperationKind.OTHER))
"""Kinds of operations whose tokens a model call above does not include."""


def group_loose(loose: Sequence[Operation], runs: Sequence[Run]) -> list[list[Operation]]:
    """Group operations into turns, lists of operations by start time whose last one is the root.

    A model call continues a turn if its input contains the result of an earlier call; tools and retrievals
    belong to the turn whose calls surround or follow them. Without model calls, and without `runs` in the
    trace, they are a turn, or else embeddings are.
    """
    # An SDK's span next to an agent may record the agent's model call again.
    answered = {o.response_id for run in runs for o in run.operations} - {None}
    calls = [o for o in loose if o.kind is OperationKind.INFERENCE and o.response_id not in answered]
    others = [o for o in loose if o.kind in (OperationKind.TOOL, OperationKind.RETRIEVAL)]
    if not calls:
        others = others or [o for o in loose if o.kind is OperationKind.EMBEDDING]
        return [others] if others and not runs else []
    turns = _turns(calls) if len(calls) > 1 else [calls]  # one needs no content
    for turn in turns:
        # By end: the call that ends last has the answer, and becomes the root.
        turn.sort(key=lambda o: (end_of(o), o.span_id))
    for other in others:
        served = next((turn for turn in turns if _asks_for(turn[-1], other)), None)
        if served is not None:
            # In front: the last operation of a turn is its root, which must be a model call.
            served.insert(0, other)
    return turns


def _asks_for(call: Operation, other: Operation) -> bool:
    """Return True if a tool or a retrieval is next to a model call, and began before its end."""
    is_sibling = call.span.parent_span_id == other.span.parent_span_id
    return is_sibling and other.span.start_time <= end_of(call)


def _turns(calls: Sequence[Operation]) -> list[list[Operation]]:
    turns: list[list[Operation]] = []
    by_id: dict[str, list[Operation]] = {}
    for call in calls:
        # Ids find a turn at any distance; the comparison without ids is bounded.
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
        asked = asked_by(earlier)
        if ids & {p.tool_call_id for p in asked}:
            return True
        # One of the two may have no id.
        if any(
            (a.kind, a.name, a.data) == (g.kind, g.name, g.data) and None in (a.tool_call_id, g.tool_call_id)
            for a in asked
            for g in given
        ):
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
        # Without content, equal inputs are both empty: order and place are all that is known.
        return bool(new) or not any(p.text or p.data or p.media for message in now for p in message.parts)
    added = range(len(before), len(now))
    # Any input extends an empty one, and a question begins another turn.
    if not before or any(asks(now, index) for index in added):
        return False
    return bool(parts_of(new, "tool_result")) or any(is_observation(now, index) for index in added)


# --- invocations that a span only groups ---


def invocations_in(root: Operation, tree: Tree) -> list[Operation]:
    """Return the invocations that a root only groups, or else the root itself.

    Invocations are separate if each has a different question, and an answer or an error. Agents that hand
    over to each other have the same question, or ask with the previous agent's answer. An agent may also be
    a tool of an earlier one, in a span next to it.
    """
    if not root.groups_invocations or root.input_messages or root.output_messages:
        return [root]
    found: list[Operation] = []
    stack = list(reversed(tree.below.get(root.span_id, ())))
    while stack:
        operation = tree.operations[stack.pop()]
        if operation.kind in INVOCATIONS:
            found.append(operation)
        elif operation.kind is OperationKind.OTHER:
            stack.extend(reversed(tree.below.get(operation.span_id, ())))
        else:
            return [root]  # the root does work itself
    return found if len(found) > 1 and _are_apart(found, tree) else [root]


def _are_apart(found: Iterable[Operation], tree: Tree) -> bool:
    asked: list[tuple[str, ...]] = []
    answers: list[str] = []
    tools: list[Operation] = []
    for operation in found:
        inside = [operation, *tree.inside(operation)]
        question = find_question(operation, inside)
        answer = find_answer(operation, inside)
        if question is None or (answer is None and all(o.error is None for o in inside)):
            return False
        # Questions without words differ by their images and sounds.
        asked.append(tuple(message.text or str(message.media) for message in question.messages))
        if any(earlier in text for earlier in answers for text in asked[-1]):
            return False
        if answer is not None and len(answer.text) >= _DISTINCTIVE:
            results = [t.tool_call for t in tools if is_during(operation.span, t.span)]
            # A tool's result has the agent's answer.
            if any(call is not None and answer.text in str(call.result) for call in results):
                return False
            answers.append(answer.text)
        tools += [o for o in inside if o.kind is OperationKind.TOOL]
    return len(set(asked)) == len(asked)


# --- tokens ---


def tokens_used(operations: Sequence[Operation], above: Parents) -> Usage:
    """Add the tokens of the innermost operations with any; operations above them have sums of these.

    A model call does not include the tokens of a tool or an agent below it, nor those of calls that follow it
    inside its span.
    """
    counting = [o for o in operations if o.usage and o.usage.total_tokens]
    by_id = {o.span_id: o for o in operations}
    covered: set[str] = set()
    for operation in counting:
        below, span_id = operation, above.get(operation.span_id)
        # Above a covered span, an earlier walk has been everywhere.
        while span_id in by_id and span_id not in covered:
            outer = by_id[span_id]
            is_apart = outer.kind is OperationKind.INFERENCE and below.kind in APART
            # A library's span with fewer tokens than its call inside is no sum: a call before that one.
            precedes = (
                _PLACE(outer) == _PLACE(operation)
                and (outer.usage or NO_USAGE).input_tokens < _USAGE(operation).input_tokens
            )
            if not (is_apart or precedes):
                covered.add(span_id)
            below, span_id = outer, above.get(span_id)
    counted = set()
    added: list[Operation] = []
    for operation in counting:
        if operation.span_id in covered or operation.response_id in counted:
            continue
        twin = next((known for known in added[-_NEAR:] if _is_same_call(known, operation)), None)
        if twin is None:
            added.append(operation)
        elif _TOTAL(operation) > _TOTAL(twin):
            added[added.index(twin)] = operation  # with cached tokens
        counted.add(operation.response_id or operation.span_id)
    if len(added) == 1 and covered:
        return _whole(added[0], (o for o in counting if o.span_id in covered), operations)
    return sum(map(_USAGE, added), NO_USAGE)


def _whole(call: Operation, sums: Iterable[Operation], operations: Sequence[Operation]) -> Usage:
    """Return the usage of a run's only model call; or the sum above it, if tools ran during the call.

    Such a span has several requests, and some libraries record the tokens of the last one.
    """
    most = max((call, *sums), key=_TOTAL)
    is_loop = any(o.kind is OperationKind.TOOL and is_during(o.span, call.span) for o in operations)
    usage: Usage = _USAGE(most if is_loop else call)
    return usage


def _is_same_call(known: Operation, operation: Operation) -> bool:
    """Return True if an SDK and a library recorded the same model call, in two spans."""
    one, other = known.span, operation.span
    # Equal response ids are counted once before: two ids here are two calls.
    if one.scope_name == other.scope_name or (known.response_id and operation.response_id):
        return False
    if (one.parent_span_id, known.kind) != (other.parent_span_id, operation.kind):
        return False
    if not (is_during(one, other) or is_during(other, one)):
        return False
    a, b = _USAGE(known), _USAGE(operation)
    # One of the two may count cached tokens as input, and the other not.
    cached = (0, a.cache_read_tokens + a.cache_write_tokens, b.cache_read_tokens + b.cache_write_tokens)
    return a.output_tokens == b.output_tokens and abs(a.input_tokens - b.input_tokens) in cached
