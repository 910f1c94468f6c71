"""Assembles one run from its operations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, ClassVar, TypeVar

import msgspec

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
from otel_evals._internal.model.operations import end_of, model_calls
from otel_evals._internal.model.records import Fields, ReadOnlyDict, recovered
from otel_evals._internal.read.availability import Ending, find_availability, reasons_of
from otel_evals._internal.read.names import Named, versions_and_tenant
from otel_evals._internal.read.question import (
    Answer,
    Question,
    ends_with_calls,
    find_answer,
    find_question,
    waiting_calls,
)
from otel_evals._internal.read.tool_calls import is_after_pending, is_json_of, join_tool_calls, with_pending
from otel_evals._internal.read.tree import Parents, outside
from otel_evals._internal.read.turns import APART, tokens_used
from otel_evals._internal.sampling.consistent import credible_state

_Part = TypeVar("_Part")
_UNNAMED = "LangGraph"
"""LangGraph's name of a graph without a name."""
_TOGETHER = {
    "conversation_id": "ids",
    "user_id": "ids",
    "agent_version": "named",
    "prompt_version": "named",
    "tenant": "named",
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


def assemble(
    root: Operation,
    operations: Sequence[Operation],
    children: Mapping[str, tuple[str, ...]],
    above: Parents,
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
        "agent_name": _agent_of(root, operations),
        "models": _models_of(root, operations),
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


def _first_of(name: str, root: Operation, operations: Iterable[Operation]) -> Any:
    """Return a field of the root, or else of the first operation that has it."""
    value = getattr(root, name)
    return value if value is not None else next(filter(None, map(attrgetter(name), operations)), None)


def _agent_of(root: Operation, operations: Iterable[Operation]) -> str | None:
    """Return the best name of a run: a team's name comes before its members'."""
    if root.agent_name and root.agent_name != _UNNAMED:  # most runs
        return root.agent_name
    agents = [o.agent_name or (o.name if o.kind is OperationKind.AGENT else None) for o in operations]
    own = root.name if root.kind is OperationKind.AGENT else None
    names = list(filter(None, (root.agent_name, own, *agents, root.name)))
    return next((name for name in names if name != _UNNAMED), names[0] if names else None)


def _models_of(root: Operation, operations: Iterable[Operation]) -> tuple[str, ...]:
    """Return the models of all model calls, or without any the first one that an agent has."""
    asked = [o for o in operations if o.kind is OperationKind.INFERENCE]
    agents = [root, *(o for o in operations if o.kind is OperationKind.AGENT)]
    named = [o.response_model or o.request_model for o in asked or agents]
    models = tuple(dict.fromkeys(filter(None, named)))
    return models if asked else models[:1]


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
    _above: Parents
    _guards: frozenset[str]
    _parts: dict[Callable[..., Any], Any] = {}  # a struct copies it
    failed: ClassVar[bool] = False  # each operation has this for itself

    def derive(self, field: str) -> Fields:
        found = getattr(self, _TOGETHER.get(field, field))()
        together: Fields = found if field in _TOGETHER else {field: found}
        return together

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
        return self._part(outside, self._guards, self._operations, self._above)

    def _question(self) -> Question | None:
        return self._part(find_question, self._root, self._speaking())

    def _answer(self) -> Answer | None:
        return self._part(find_answer, self._root, self._speaking())

    def _system(self) -> Operation | None:
        """Return the operation with the system instructions, the one with the question rather than others."""
        question = self._question()
        asked = question.operation if question else self._root
        # An agent that is called as a tool has its own.
        tools = frozenset([o.span_id for o in self._operations if o.kind is OperationKind.TOOL])
        own = outside(tools, self._speaking(), self._above)
        return next((o for o in (self._root, asked, *own) if o.system_instructions), None)

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
        return calls if said else with_pending(calls, self._last_asked())

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
            return answer is None or last is None or not is_after_pending(last, self._operations)
        if self._failed() is not None:
            return False
        since = 0
        if answer is not None and answer.said:
            # What a model said before a step paused is not the run's last word, nor in a state at the end.
            said = answer.operation
            since = max(said.span.start_time, min(map(end_of, (said, self._last() or said))))
        elif self.finish_reasons()[-1:] == ("paused",) or ends_with_calls(self._root):
            return True
        return any(o.paused and o.span.start_time >= since for o in self._operations)

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
        failed = [o for o in self._operations if o.error is not None and o.kind not in APART[2:]]
        if not failed or self._answer() is not None:  # the answer is read last: most runs have no error
            return None
        last = self._last()
        if last is not None and last.error is not None:
            return last
        since = 0 if last is None else end_of(last)
        return max((o for o in failed if end_of(o) >= since), key=end_of, default=None)

    def _last(self) -> Operation | None:
        return max(model_calls(self._speaking()), key=end_of, default=None)

    # --- fields, by name ---

    def asked(self) -> Fields:
        question = self._question()
        messages, history = (question.messages, question.history) if question else ((), ())
        return {"input_messages": messages, "history": history}

    def said(self) -> Fields:
        answer = self._answer()
        messages, text = (answer.messages, answer.text) if answer else ((), None)
        return {"output_messages": messages, "output": text}

    def errors(self) -> Fields:
        failed = self._failed()
        if failed and failed.error == "error":  # a status without a message: a model call may say more
            last = self._last()
            failed = last if last and last.error else failed
        return {name: getattr(failed, name, None) for name in ("error", "error_type")}

    def ids(self) -> Fields:
        names = ("conversation_id", "user_id")
        return {name: _first_of(name, self._root, self._operations) for name in names}

    def named(self) -> Fields:
        found = self._names()
        names = ("agent_version", "prompt_version", "tenant")
        return {name: found[name][0] if name in found else None for name in names}

    def system_instructions(self) -> str | None:
        found = self._system()
        return found.system_instructions if found else None

    def provider(self) -> Any:
        return _first_of("provider", self._root, model_calls(self._operations))

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

    def recorded(self) -> Fields:
        """Return the availability and the sources of all fields."""
        calls, documents = self.tool_calls(), self.documents()
        parts = self._question(), self._answer(), calls, documents, self._system()
        availability, sources = find_availability(self._operations, *parts, self._ending())
        named = {name: source for name, (_, source) in self._names().items()}
        return {
            "availability": ReadOnlyDict(availability),
            "sources": ReadOnlyDict(sources | named),
        }


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
