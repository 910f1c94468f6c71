"""Assembles one run from its operations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import msgspec
from msgspec.structs import replace

from otel_evals._internal.model import (
    Document,
    Operation,
    OperationKind,
    Part,
    Run,
    SpanRecord,
    ToolCall,
    Usage,
)
from otel_evals._internal.model.operations import end_of
from otel_evals._internal.model.records import ReadOnlyDict, recovered
from otel_evals._internal.read.availability import Ending, find_availability, reasons_of
from otel_evals._internal.read.names import Named, agent_of, first_of, models_of, versions_and_tenant
from otel_evals._internal.read.question import (
    Answer,
    Question,
    find_answer,
    find_question,
    is_json_of,
    is_unfinished,
    waiting_calls,
)
from otel_evals._internal.read.tool_calls import join_tool_calls
from otel_evals._internal.read.turns import APART, tokens_used
from otel_evals._internal.sampling.consistent import credible_state

_Part = TypeVar("_Part")
_OF_FIRST = ("conversation_id", "user_id")
_TOGETHER = {
    "input_messages": "asked",
    "history": "asked",
    "output_messages": "said",
    "output": "said",
    "error": "errors",
    "error_type": "errors",
    "availability": "recorded",
    "sources": "recorded",
}
"""Fields that are derived together, each with the method."""
_NAMED = ("agent_version", "prompt_version", "tenant")


def assemble(
    root: Operation,
    operations: Sequence[Operation],
    children: Mapping[str, tuple[str, ...]],
    above: Mapping[str, str | None],
    guards: frozenset[str],
) -> Run:
    """Return a run; `above` maps each span to its nearest operation above, `guards` are span ids."""
    span, operations = root.span, tuple(operations)
    given = {
        "trace_id": span.trace_id,
        "root_span_id": span.span_id,
        "root_kind": root.kind,
        "operations": operations,
        "children": ReadOnlyDict(children),
        "trace_ids": (span.trace_id,),
        "agent_name": agent_of(root, operations),
        "models": models_of(root, operations),
        "start_time": _start(root, operations),
        "end_time": span.end_time,
        "resource": span.resource,
        "scope_name": span.scope_name,
        "convention": root.convention,
        "trace_flags": span.trace_flags,
        # Most spans have no tracestate, and save the call.
        "trace_state": span.trace_state and _trace_state(span),
    }
    return recovered(Run, Recovery(root, operations, above, guards), given)


def _start(root: Operation, operations: Sequence[Operation]) -> int:
    """Return the root's start; a turn of model calls without an agent starts with the first of them.

    Other operations may be from hosts whose clocks differ.
    """
    if root.kind is not OperationKind.INFERENCE:
        return root.span.start_time
    host = root.span.resource
    return min(o.span.start_time for o in operations if o is root or o.span.resource == host)


def _trace_state(span: SpanRecord) -> str:
    """Return the tracestate, without its `ot` entry if the trace id is malformed."""
    try:
        trace_id = int(span.trace_id, 16)
    except ValueError:
        return credible_state(0, span.trace_state, trusted=False)
    return credible_state(trace_id, span.trace_state)


class Recovery(msgspec.Struct, eq=False, gc=False):
    """Derives a run's fields from its operations; the garbage collector skips it, as it knows no run."""

    _root: Operation
    _operations: Sequence[Operation]
    _above: Mapping[str, str | None]
    _guards: frozenset[str]
    _parts: dict[Callable[..., Any], Any] = {}  # a struct copies it
    failed: ClassVar[bool] = False  # each operation has this for itself

    def derive(self, field: str) -> Mapping[str, Any]:
        if field in _OF_FIRST:
            return {each: first_of(each, self._root, self._operations) for each in _OF_FIRST}
        if field in _NAMED:
            named = self._names()
            return {each: named[each][0] if each in named else None for each in _NAMED}
        if field in _TOGETHER:
            together: Mapping[str, Any] = getattr(self, _TOGETHER[field])()
            return together
        return {field: getattr(self, field)()}

    # --- parts, each found once ---

    def _part(self, find: Callable[..., _Part], *given: Any) -> _Part:
        # A part may be None: being in the dict shows that it was looked for.
        if find not in self._parts:
            self._parts[find] = find(*given)
        found: _Part = self._parts[find]
        return found

    def _speaking(self) -> Sequence[Operation]:
        # Guards judge the conversation: their messages must not become its question or answer.
        if not self._guards:
            return self._operations
        return self._part(_outside, self._guards, self._operations, self._above)

    def _question(self) -> Question | None:
        return self._part(find_question, self._root, self._speaking())

    def _answer(self) -> Answer | None:
        return self._part(find_answer, self._root, self._speaking())

    def _system(self) -> tuple[str | None, Operation | None]:
        question = self._question()
        asked = question.operation if question else self._root
        return self._part(_system, self._root, asked, *self._operations)

    def tool_calls(self) -> tuple[ToolCall, ...]:
        return self._part(Recovery._find_calls, self)

    def _find_calls(self) -> tuple[ToolCall, ...]:
        """Return the calls, without one that only gave the answer its form, as libraries force models to."""
        calls = join_tool_calls(self._operations, self._above)
        if not any(call.result is None and call.error is None for call in calls):
            return calls  # no need to know the answer
        answer = self._answer()
        said = answer.text if answer is not None else ""
        # Only calls that were not executed may be the answer's form.
        calls = tuple(c for c in calls if c.result is not None or not is_json_of(said, c.arguments))
        return calls if said else _with_pending(calls, self._last_asked())

    def _last_asked(self) -> Sequence[Part]:
        """Return the calls that the last model call asked for, if the run ended after them."""
        last = self._last()
        if last is None or self._root.kind is OperationKind.INFERENCE or self._failed() is not None:
            return ()
        return [part for message in last.output_messages[-1:] for part in waiting_calls(message)]

    def waiting(self) -> bool:
        """Return True for a run that ended to wait: paused, or with calls that have no result yet."""
        answer = self._answer()
        if any(call.status == "pending" for call in self.tool_calls()):
            last = self._last()
            # A later model call shows that the run went on after the pending call.
            answered = answer is not None and last is not None and _is_after_calls(last, self._operations)
            return not answered
        if (answer is not None and answer.said) or self._failed() is not None:
            return False
        paused = self._root.paused or any(o.paused for o in self._operations)
        return paused or self.finish_reasons()[-1:] == ("paused",) or is_unfinished(self._root)

    def _names(self) -> Mapping[str, Named]:
        return self._part(versions_and_tenant, self._root, self._operations)

    def documents(self) -> tuple[Document, ...]:
        return self._part(_retrieved, self._operations)

    def _failed(self) -> Operation | None:
        """Return the operation with the run's error: the root, or else the one that prevented an answer.

        That is the last model call, or without any, the last step that failed.
        """
        if self._root.error is not None:
            return self._root
        # A failed tool or search does not end a run: the model is given the error.
        failed = [o for o in self._operations if o.error is not None and o.kind not in APART[1:]]
        if not failed or self._answer() is not None:  # the answer is read last: most runs have no error
            return None
        last = self._last()
        if last is not None:
            return last if last.error is not None else None
        return max(failed, key=end_of, default=None)

    def _last(self) -> Operation | None:
        calls = (o for o in self._speaking() if o.kind is OperationKind.INFERENCE)
        return max(calls, key=end_of, default=None)

    # --- fields, by name ---

    def asked(self) -> Mapping[str, Any]:
        question = self._question()
        messages, history = (question.messages, question.history) if question else ((), ())
        return {"input_messages": messages, "history": history}

    def said(self) -> Mapping[str, Any]:
        answer = self._answer()
        messages, text = (answer.messages, answer.text) if answer else ((), None)
        return {"output_messages": messages, "output": text}

    def errors(self) -> Mapping[str, Any]:
        failed = self._failed()
        error, kind = (failed.error, failed.error_type) if failed else (None, None)
        return {"error": error, "error_type": kind}

    def system_instructions(self) -> str | None:
        return self._system()[0]

    def provider(self) -> str | None:
        asked = [o for o in self._operations if o.kind is OperationKind.INFERENCE]
        provider: str | None = first_of("provider", self._root, asked)
        return provider

    def usage(self) -> Usage:
        return tokens_used(self._operations, self._above)

    def finish_reasons(self) -> tuple[str, ...]:
        return self._part(reasons_of, self._last() or self._root, self._answer())

    def _ending(self) -> Ending:
        if self.waiting():
            return "waiting"
        reasons = self.finish_reasons()
        if "refused" in reasons or "blocked" in reasons:
            return "refused"
        if any(o.error is not None or o.error_type is not None for o in self._operations):
            return "failed"
        return "cut" if "length" in reasons else "answered"

    def recorded(self) -> Mapping[str, Any]:
        """Return the availability and the sources of all fields."""
        calls, documents = self.tool_calls(), self.documents()
        parts = self._question(), self._answer(), calls, documents, self._system()[1]
        found = find_availability(self._operations, *parts, self._ending())
        named = {name: source for name, (_, source) in self._names().items()}
        return {
            "availability": ReadOnlyDict(found["availability"]),
            "sources": ReadOnlyDict(found["sources"] | named),
        }


def _outside(
    guards: frozenset[str], operations: Sequence[Operation], above: Mapping[str, str | None]
) -> Sequence[Operation]:
    """Return the operations outside of guards."""
    inside = {o.span_id for o in operations if o.span_id in guards}
    for operation in operations:  # sorted by start: parents come first
        if above.get(operation.span_id) in inside:
            inside.add(operation.span_id)
    return [operation for operation in operations if operation.span_id not in inside]


def _with_pending(calls: Sequence[ToolCall], asked: Sequence[Part]) -> tuple[ToolCall, ...]:
    """Mark the calls that a model asked for and that have no result as pending."""
    ids = {part.tool_call_id for part in asked}
    names = {part.name for part in asked if part.tool_call_id is None}
    return tuple(
        replace(call, status="pending")
        if call.result is None and call.error is None and (call.id in ids or call.name in names)
        else call
        for call in calls
    )


def _is_after_calls(last: Operation, operations: Iterable[Operation]) -> bool:
    """Return True if the last model call began after every call that is pending."""
    pending = (o for o in operations if o.tool_call is not None and o.tool_call.status == "pending")
    return all(o.span.start_time < last.span.start_time for o in pending)


def _system(*operations: Operation) -> tuple[str | None, Operation | None]:
    found = next((o for o in operations if o.system_instructions), None)
    return (found.system_instructions, found) if found else (None, None)


def _retrieved(operations: Iterable[Operation]) -> tuple[Document, ...]:
    """Return the documents of retrievals, or else of other operations, without duplicates."""
    having = [o for o in operations if o.documents]
    retrievals = [o for o in having if o.kind is OperationKind.RETRIEVAL]
    return unique_documents(document for o in retrievals or having for document in o.documents)


def unique_documents(documents: Iterable[Document]) -> tuple[Document, ...]:
    """Return each document once, by its content, or by its id without content."""
    found: dict[tuple[str | None, str | None], Document] = {}
    for document in documents:
        found.setdefault((document.content, None if document.content else document.id), document)
    return tuple(found.values())
