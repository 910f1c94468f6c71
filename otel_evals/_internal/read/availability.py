"""Decides if a run's content is there, empty, cut, left out or unknown, and where it comes from.

"Captured off" is for content that the instrumentation leaves out; a message that is there and has
nothing in it is empty; what a limit may have removed is truncated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from otel_evals._internal.model import (
    Availability,
    Document,
    Operation,
    Source,
    SpanRecord,
    ToolCall,
)
from otel_evals._internal.model.finish_reasons import finish_reason
from otel_evals._internal.model.operations import end_of, model_calls
from otel_evals._internal.read.question import Answer, Question, parts_of
from otel_evals._internal.util.plain import as_text

_PRESENT, _EMPTY, _REFUSED = Availability.PRESENT, Availability.EMPTY, Availability.REFUSED
_CUT, _OFF, _UNKNOWN = Availability.TRUNCATED, Availability.CAPTURED_OFF, Availability.NOT_RECORDED
_RECORDED: Final = (_PRESENT, _CUT)
_OF_ONE: Final = ("input", "output", "system")
"""Fields that come from one operation; the others are collected from several."""

Ending = Literal["answered", "refused", "cut", "failed", "waiting"]


class Facts(NamedTuple):
    """What is known about a question or an answer."""

    text: bool
    """It was found, with content."""
    recorded: Availability | None
    """What the span that should have it says; None without any trace of it."""
    other: bool
    """The other side of the same call has content, so capture is on."""
    ended: Ending
    """How the run ended."""
    model: bool = True
    """A model was called, which had an input and an output."""


def decide(side: Literal["input", "output"], facts: Facts) -> Availability:
    """Return the availability of a question or an answer."""
    return _of_answer(facts) if side == "output" else _of_question(facts)


def _of_answer(facts: Facts) -> Availability:
    if facts.text:
        return _CUT if facts.recorded is _CUT or facts.ended == "cut" else _PRESENT
    # Nothing was said yet: the absence proves nothing about content capture.
    if facts.ended == "waiting":
        return _UNKNOWN
    if facts.ended == "refused" and (facts.recorded is _EMPTY or facts.other):
        return _REFUSED
    if facts.recorded in (_EMPTY, _CUT, _OFF):
        return facts.recorded
    return _UNKNOWN if facts.ended == "failed" or facts.other or not facts.model else _OFF


def _of_question(facts: Facts) -> Availability:
    if facts.text:
        return _CUT if facts.recorded is _CUT else _PRESENT
    if facts.recorded in (_EMPTY, _CUT, _OFF):
        return facts.recorded
    if facts.ended == "failed" or facts.recorded is _PRESENT or not facts.model:
        return _UNKNOWN
    return _OFF


def find_availability(
    operations: Sequence[Operation],
    question: Question | None,
    answer: Answer | None,
    calls: Sequence[ToolCall],
    documents: Sequence[Document],
    system: Operation | None,
    ended: Ending,
) -> tuple[dict[str, Availability], dict[str, Source]]:
    """Return a run's `availability` and `sources`, from its operations and the content found in them."""
    states: dict[str, set[Availability]] = {}
    holders: dict[str, Operation] = {}
    for operation in operations:
        for name, state in operation.availability.items():
            states.setdefault(name, set()).add(state)
            holders.setdefault(name, operation)
    found = {
        "input": question.operation if question else None,
        "output": answer.operation if answer else None,
        "system": system,
    }
    availability = {
        "input": _of_side("input", question is not None, found["input"], states, operations, ended),
        "output": _of_side(
            "output", bool(answer and answer.said), found["output"], states, operations, ended
        ),
        "system": _UNKNOWN if system is None else system.availability.get("system", _PRESENT),
        "tool_arguments": _of_calls("tool_arguments", _all_known(calls, "arguments"), states, calls),
        "tool_results": _of_calls("tool_results", _all_known(calls, "result"), states, calls),
        "documents": _of_calls("documents", any(d.content for d in documents), states, ()),
    }
    holders.update((name, holder) for name, holder in found.items() if holder is not None)
    sources = {name: holder.sources[name] for name, holder in holders.items() if name in holder.sources}
    if any(operation.span.spans_dropped for operation in operations):
        for name, state in availability.items():
            # A lost span may have had more of what several operations share.
            if name not in _OF_ONE or state is _UNKNOWN:
                availability[name] = _CUT
    return availability, sources


def _of_side(
    side: Literal["input", "output"],
    text: bool,
    holder: Operation | None,
    states: Mapping[str, set[Availability]],
    operations: Sequence[Operation],
    ended: Ending,
) -> Availability:
    models = model_calls(operations)
    # If nothing was found, the last model call is where an answer would be.
    last = holder or max(models, key=end_of, default=None)
    recorded = last.availability.get(side) if last is not None else None
    if recorded is None or (recorded is _PRESENT and not text):
        mine = states.get(side, ())
        # States that explain an absence come first; `present` explains none.
        recorded = next((state for state in (_OFF, _CUT, _EMPTY, _PRESENT) if state in mine), None)
    known = last if last is not None else operations[0]
    other = known.availability.get("output" if side == "input" else "input") in _RECORDED
    if ended == "failed" and _is_silent(states) and any(o.error is None and not o.error_type for o in models):
        ended = "answered"  # content capture is off in the calls that did not fail, too
    return decide(side, Facts(text, recorded, other, ended, bool(models)))


def _of_calls(
    name: str, there: bool, states: Mapping[str, set[Availability]], calls: Sequence[ToolCall]
) -> Availability:
    """Return the availability of what is collected from several operations."""
    mine = states.get(name, set())
    if there:
        return _CUT if _CUT in mine else _PRESENT
    if _OFF in mine:
        return _OFF
    if _CUT in mine:
        return _CUT
    return _OFF if calls and _is_silent(states) else _UNKNOWN


def _all_known(calls: Sequence[ToolCall], name: str) -> bool:
    """Return True if all calls have their arguments, or their results as far as they have ended."""
    ended = [c for c in calls if name != "result" or (c.status != "pending" and c.error is None)]
    return bool(calls) and all(getattr(call, name) is not None for call in ended)


def _is_silent(states: Mapping[str, set[Availability]]) -> bool:
    """Return True if no operation has recorded any content."""
    return not any(_PRESENT in found for found in states.values())


# Within a string of JSON, quotes have backslashes in front.
_FINISH = re.compile(r'["\'](?:finish|stop|block)_?reason\\*["\']: ?\\*["\']([^"\'\\]+)', re.IGNORECASE)


_FINISH_KEYS = ("finish_reason", "finishReason", "stop_reason")
_LONGEST: Final = 8_000_000


def reasons_of(operation: Operation, answer: Answer | None) -> tuple[str, ...]:
    """Return the finish reasons of a model call in one vocabulary, those in its messages too.

    A part of type `refusal` in the answer says so whatever the reason.
    """
    recorded = operation.finish_reasons or tuple(_recorded_reasons(operation))
    reasons = tuple(dict.fromkeys(map(finish_reason, recorded)))
    if answer is not None and parts_of(answer.messages, "refusal") and "refused" not in reasons:
        # Together with a refusal, `stop` would say that the model answered.
        return (*(reason for reason in reasons if reason != "stop"), "refused")
    return reasons


def _recorded_reasons(operation: Operation) -> Iterator[str]:
    """Yield the reason next to or in an operation's output, for conventions without an attribute for it."""
    attributes = operation.span.attributes
    for name, value in attributes.items():
        if name.endswith(_FINISH_KEYS) and value:
            yield str(value)
            return
    source = operation.sources.get("output")
    if source is not None:
        yield from _FINISH.findall(as_text(_recorded_at(source.key, operation.span), _LONGEST))[-1:]


def _recorded_at(key: str, span: SpanRecord) -> Any:
    """Return an attribute's value, of a span, its events and its logs; events of this name are whole."""
    recorded: list[Any] = [span.attributes.get(key)]
    for event in (*span.events, *span.logs):
        fields = {"body": event.body, **event.attributes}
        if isinstance(event.body, Mapping):
            fields.update(event.body)
        recorded.append(fields if key in (event.name, fields.get("event.name")) else fields.get(key))
    return recorded


# --- a length limit, as the spans of a trace show it ---

Found = tuple[Mapping[str, Any], Mapping[str, Any]]
"""A span's attributes, and what was found in them: `availability` and `sources` by field."""


def mark_truncated(contents: Sequence[Found]) -> None:
    """Mark texts as truncated that are as long as the longest truncated JSON of the trace."""
    limit = max((len(value) for each in contents for value in _cut_values(each)), default=0)
    # A longer value shows that no limit for all attributes cut the JSON.
    values = (value for attributes, _ in contents for value in attributes.values())
    if not limit or any(isinstance(value, str) and len(value) > limit for value in values):
        return
    for attributes, found in contents:
        for field, source in found["sources"].items():
            value = attributes.get(source.key)
            if isinstance(value, str) and len(value) == limit:
                found["availability"][field] = _CUT


def _cut_values(content: Found) -> Iterator[str]:
    attributes, found = content
    for field, source in found["sources"].items():
        value = attributes.get(source.key)
        if found["availability"].get(field) is _CUT and isinstance(value, str):
            yield value
