"""Assembles one run from its operations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any

from otel_evals._internal.model import Document, Operation, OperationKind, Run, ToolCall, Usage
from otel_evals._internal.model.derived import recovered
from otel_evals._internal.read.provenance import find_provenance
from otel_evals._internal.read.question import Answer, Question, find_answer, find_question
from otel_evals._internal.read.tool_calls import join_tool_calls
from otel_evals._internal.sampling.consistent import credible_state

_NO_USAGE = Usage()
_APART = (
    OperationKind.AGENT,
    OperationKind.TOOL,
    OperationKind.WORKFLOW,
    OperationKind.RETRIEVAL,
    OperationKind.EMBEDDING,
)


def assemble(
    root: Operation,
    operations: Sequence[Operation],
    children: Mapping[str, tuple[str, ...]],
    above: Mapping[str, str | None],
) -> Run:
    """Assemble a run from its operations, which are in the order of their start and include the root."""
    span, operations = root.span, tuple(operations)
    given = {
        "trace_id": span.trace_id,
        "root_span_id": span.span_id,
        "root_kind": root.kind,
        "operations": operations,
        "children": children,
        "trace_ids": (span.trace_id,),
        "agent_name": _agent(root, operations),
        "models": _models(root, operations),
        "start_time": operations[0].span.start_time,
        "end_time": span.end_time,
        "resource": span.resource,
        "scope_name": span.scope_name,
        "dialect": root.dialect,
        "trace_flags": span.trace_flags,
        "trace_state": span.trace_state and credible_state(int(span.trace_id, 16), span.trace_state),
    }
    return recovered(Run, Recovery(root, operations, above), given)


class Recovery:
    """Recovers the fields of a run from its operations."""

    __slots__ = ("_above", "_operations", "_parts", "_root")

    failed = False
    """Each operation knows for itself whether it could be read."""

    def __init__(
        self, root: Operation, operations: Sequence[Operation], above: Mapping[str, str | None]
    ) -> None:
        self._root = root
        self._operations = operations
        self._above = above
        self._parts: dict[str, Any] = {}

    def derive(self, field: str) -> Mapping[str, Any]:
        """A field, and those that are found with it."""
        return _FIELDS[field](self)

    # --- parts, each found once ---

    def _part(self, name: str, find: Callable[..., Any], *given: Any) -> Any:
        if name not in self._parts:
            self._parts[name] = find(*given)
        return self._parts[name]

    def _question(self) -> Question | None:
        found: Question | None = self._part("question", find_question, self._root, self._operations)
        return found

    def _answer(self) -> Answer | None:
        found: Answer | None = self._part("answer", find_answer, self._root, self._operations)
        return found

    def _system(self) -> tuple[str | None, Operation | None]:
        found: tuple[str | None, Operation | None] = self._part(
            "system", _system, self._root, self._question(), self._operations
        )
        return found

    def _calls(self) -> tuple[ToolCall, ...]:
        found: tuple[ToolCall, ...] = self._part("calls", join_tool_calls, self._operations, self._above)
        return found

    def _documents(self) -> tuple[Document, ...]:
        found: tuple[Document, ...] = self._part("documents", _documents, self._operations)
        return found

    def _inferences(self) -> list[Operation]:
        return [o for o in self._operations if o.kind is OperationKind.INFERENCE]

    def _last(self) -> Operation | None:
        return max(self._inferences(), key=lambda o: o.span.end_time or o.span.start_time, default=None)

    # --- fields ---

    def agent_version(self) -> Mapping[str, Any]:
        return {"agent_version": _first("agent_version", self._root, self._operations)}

    def conversation_id(self) -> Mapping[str, Any]:
        return {"conversation_id": _first("conversation_id", self._root, self._operations)}

    def user_id(self) -> Mapping[str, Any]:
        return {"user_id": _first("user_id", self._root, self._operations)}

    def asked(self) -> Mapping[str, Any]:
        question = self._question()
        return {
            "input_messages": question.messages if question else (),
            "history": question.history if question else (),
        }

    def system_instructions(self) -> Mapping[str, Any]:
        return {"system_instructions": self._system()[0]}

    def answered(self) -> Mapping[str, Any]:
        answer = self._answer()
        return {
            "output_messages": answer.messages if answer else (),
            "output": answer.text if answer else None,
        }

    def tool_calls(self) -> Mapping[str, Any]:
        return {"tool_calls": self._calls()}

    def documents(self) -> Mapping[str, Any]:
        return {"documents": self._documents()}

    def provider(self) -> Mapping[str, Any]:
        asked = self._inferences()
        return {"provider": _first("provider", self._root, asked) if asked else self._root.provider}

    def usage(self) -> Mapping[str, Any]:
        return {"usage": _usage(self._operations, self._above)}

    def finish_reasons(self) -> Mapping[str, Any]:
        return {"finish_reasons": (self._last() or self._root).finish_reasons}

    def error(self) -> Mapping[str, Any]:
        failed = _error(self._root, self._answer, self._last(), self._operations)
        return {
            "error": failed.error if failed else None,
            "error_type": failed.error_type if failed else None,
        }

    def provenance(self) -> Mapping[str, Any]:
        return find_provenance(
            self._operations,
            self._question(),
            self._answer(),
            self._calls(),
            self._documents(),
            self._system()[1],
        )


_FIELDS: Mapping[str, Callable[[Recovery], Mapping[str, Any]]] = {
    "agent_version": Recovery.agent_version,
    "conversation_id": Recovery.conversation_id,
    "user_id": Recovery.user_id,
    "input_messages": Recovery.asked,
    "history": Recovery.asked,
    "system_instructions": Recovery.system_instructions,
    "output_messages": Recovery.answered,
    "output": Recovery.answered,
    "tool_calls": Recovery.tool_calls,
    "documents": Recovery.documents,
    "provider": Recovery.provider,
    "usage": Recovery.usage,
    "finish_reasons": Recovery.finish_reasons,
    "error": Recovery.error,
    "error_type": Recovery.error,
    "availability": Recovery.provenance,
    "sources": Recovery.provenance,
}


def _first(name: str, root: Operation, operations: Iterable[Operation]) -> Any:
    """A field of the root, or else of the first operation that has it."""
    value = getattr(root, name)
    return value if value is not None else next(filter(None, map(attrgetter(name), operations)), None)


def _agent(root: Operation, operations: Iterable[Operation]) -> str | None:
    if root.kind is OperationKind.AGENT and (root.agent_name or root.name):
        return root.agent_name or root.name
    agents = (o.agent_name or o.name for o in operations if o.kind is OperationKind.AGENT)
    return next(filter(None, agents), None) or _first("agent_name", root, operations) or root.name


def _models(root: Operation, operations: Iterable[Operation]) -> tuple[str, ...]:
    models: dict[str, None] = {}
    asked = False
    for o in operations:
        if o.kind is OperationKind.INFERENCE:
            asked = True
            if model := o.response_model or o.request_model:
                models[model] = None
    if not asked and (model := root.response_model or root.request_model):
        models[model] = None
    return tuple(models)


def _system(
    root: Operation, question: Question | None, operations: Iterable[Operation]
) -> tuple[str | None, Operation | None]:
    tellers = [root, *((question.operation,) if question else ()), *operations]
    teller = next((o for o in tellers if o.system_instructions), None)
    return (teller.system_instructions, teller) if teller else (None, None)


def _error(
    root: Operation,
    answer: Callable[[], Answer | None],
    last: Operation | None,
    operations: Sequence[Operation],
) -> Operation | None:
    """The operation whose error is the run's: the root, or else what kept the run from an answer.

    That is the last model call, or where no model was asked, the last step that failed.
    """
    if root.error is not None:
        return root
    failed = [o for o in operations if o.error is not None and o.kind not in _APART[1:]]
    if not failed or answer() is not None:  # most runs have no error, and nobody asks what they answered
        return None
    if last is not None:
        return last if last.error is not None else None
    return max(failed, key=lambda o: o.span.end_time or o.span.start_time, default=None)


def _usage(operations: Sequence[Operation], above: Mapping[str, str | None]) -> Usage:
    """The tokens of the innermost operations that record any; operations above them record sums of these.

    A model call does not include what is used by a tool or an agent below it.
    """
    telling = [o for o in operations if o.usage is not None and o.usage.total_tokens]
    if len(telling) < 2:
        return telling[0].usage or _NO_USAGE if telling else _NO_USAGE
    kinds = {o.span_id: o.kind for o in operations}
    covered: set[str] = set()
    for operation in telling:
        below, span_id = operation.kind, above.get(operation.span_id)
        while span_id in kinds and span_id not in covered:
            if not (kinds[span_id] is OperationKind.INFERENCE and below in _APART):
                covered.add(span_id)
            below, span_id = kinds[span_id], above.get(span_id)
    total, counted = _NO_USAGE, set()
    for operation in telling:
        if operation.span_id not in covered and operation.response_id not in counted:
            total = total + (operation.usage or _NO_USAGE)
            counted.add(operation.response_id or operation.span_id)
    return total


def _documents(operations: Iterable[Operation]) -> tuple[Document, ...]:
    """The documents of retrievals, without duplicates; if they have none, those of other operations."""
    found: dict[tuple[str | None, str | None], Document] = {}
    told = [o for o in operations if o.documents]
    retrieved = [o for o in told if o.kind is OperationKind.RETRIEVAL]
    for operation in retrieved or told:
        for document in operation.documents:
            found.setdefault((document.content, None if document.content else document.id), document)
    return tuple(found.values())
