"""Assembles one run from its operations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from operator import attrgetter
from typing import Any

from otel_evals.assembly.question import Answer, Question, find_answer, find_question
from otel_evals.assembly.toolcalls import join_tool_calls
from otel_evals.model import Availability, Document, Operation, OperationKind, Run, Source, ToolCall, Usage
from otel_evals.sampling import credible_state

__all__ = ["assemble"]

_NO_USAGE = Usage()
_NOTHING: frozenset[Availability] = frozenset()
_OF_ONE = ("input", "output", "system")
"""Fields that come from one operation; the others are collected from several."""
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
    question, answer = find_question(root, operations), find_answer(root, operations)
    calls = join_tool_calls(operations, above)
    documents = _documents(operations)
    system = _system(root, question, operations)
    inferences = [o for o in operations if o.kind is OperationKind.INFERENCE]
    last = max(inferences, key=lambda o: o.span.end_time or o.span.start_time, default=None)
    error = _error(root, answer, last, operations)
    span = root.span
    return Run(
        trace_id=span.trace_id,
        root_span_id=span.span_id,
        root_kind=root.kind,
        operations=tuple(operations),
        children=children,
        trace_ids=(span.trace_id,),
        agent_name=_agent(root, operations),
        agent_version=_first("agent_version", root, operations),
        conversation_id=_first("conversation_id", root, operations),
        user_id=_first("user_id", root, operations),
        input_messages=question.messages if question else (),
        history=question.history if question else (),
        system_instructions=system[0],
        output_messages=answer.messages if answer else (),
        output=answer.text if answer else None,
        tool_calls=calls,
        documents=documents,
        models=tuple(
            dict.fromkeys(m for o in inferences or (root,) if (m := o.response_model or o.request_model))
        ),
        provider=_first("provider", root, inferences) if inferences else root.provider,
        usage=_usage(operations, above),
        finish_reasons=last.finish_reasons if last else root.finish_reasons,
        error=error.error if error else None,
        error_type=error.error_type if error else None,
        start_time=operations[0].span.start_time,
        end_time=span.end_time,
        resource=span.resource,
        scope_name=span.scope_name,
        dialect=root.dialect,
        trace_flags=span.trace_flags,
        trace_state=credible_state(int(span.trace_id, 16), span.trace_state),
        **_provenance(operations, question, answer, calls, documents, system[1]),
    )


def _first(name: str, root: Operation, operations: Iterable[Operation]) -> Any:
    """A field of the root, or else of the first operation that has it."""
    value = getattr(root, name)
    return value if value is not None else next(filter(None, map(attrgetter(name), operations)), None)


def _agent(root: Operation, operations: Iterable[Operation]) -> str | None:
    if root.kind is OperationKind.AGENT and (root.agent_name or root.name):
        return root.agent_name or root.name
    agents = (o.agent_name or o.name for o in operations if o.kind is OperationKind.AGENT)
    return next(filter(None, agents), None) or _first("agent_name", root, operations) or root.name


def _system(
    root: Operation, question: Question | None, operations: Iterable[Operation]
) -> tuple[str | None, Operation | None]:
    tellers = [root, *((question.operation,) if question else ()), *operations]
    teller = next((o for o in tellers if o.system_instructions), None)
    return (teller.system_instructions, teller) if teller else (None, None)


def _error(
    root: Operation, answer: Answer | None, last: Operation | None, operations: Sequence[Operation]
) -> Operation | None:
    """The operation whose error is the run's: the root, or else what kept the run from an answer.

    That is the last model call, or where no model was asked, the last step that failed.
    """
    if root.error is not None:
        return root
    if answer is not None:
        return None
    if last is not None:
        return last if last.error is not None else None
    failed = [o for o in operations if o.error is not None and o.kind not in _APART[1:]]
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


# --- sources and availability ---


def _provenance(
    operations: Sequence[Operation],
    question: Question | None,
    answer: Answer | None,
    calls: Sequence[ToolCall],
    documents: Sequence[Document],
    system: Operation | None,
) -> dict[str, Any]:
    availability: dict[str, Availability] = {}
    sources: dict[str, Source] = {}
    states: dict[str, set[Availability]] = {}
    tellers: dict[str, Operation] = {}
    for operation in operations:
        for name, state in operation.availability.items():
            if name in states:
                states[name].add(state)
            else:
                states[name], tellers[name] = {state}, operation
    for name, there, teller in (
        ("input", question is not None, question.operation if question else None),
        ("output", answer is not None, answer.operation if answer else None),
        ("system", system is not None, system),
        ("tool_arguments", _all_told(calls, "arguments"), None),
        ("tool_results", _all_told(calls, "result"), None),
        ("documents", any(d.content for d in documents), None),
    ):
        teller = teller or tellers.get(name)
        source = teller.sources.get(name) if teller else None
        if source is not None:
            sources[name] = source
        told = teller.availability.get(name) if teller else None
        availability[name] = _state(name, there, told, states, operations, calls)
    return {"availability": availability, "sources": sources}


def _all_told(calls: Sequence[ToolCall], name: str) -> bool:
    return bool(calls) and all(
        getattr(c, name) is not None or (name == "result" and c.error is not None) for c in calls
    )


def _state(
    name: str,
    there: bool,
    told: Availability | None,
    states: Mapping[str, set[Availability]],
    operations: Sequence[Operation],
    calls: Sequence[ToolCall],
) -> Availability:
    """A field's availability: of a missing field, whether content capture was off."""
    mine: AbstractSet[Availability] = states.get(name, _NOTHING)
    if there:
        cut = told is Availability.TRUNCATED if name in _OF_ONE else Availability.TRUNCATED in mine
        return Availability.TRUNCATED if cut else Availability.PRESENT
    if Availability.CAPTURED_OFF in mine:
        return Availability.CAPTURED_OFF
    if name in ("input", "output") and not mine:
        failed = [o.error is not None or o.error_type is not None for o in operations]
        if any(failed) and not _silent(states):
            return Availability.NOT_RECORDED  # what is missing was never said
        pairs = zip(operations, failed, strict=True)
        silent = any(o.kind is OperationKind.INFERENCE and not broke for o, broke in pairs)
        return Availability.CAPTURED_OFF if silent else Availability.NOT_RECORDED
    if name in ("tool_arguments", "tool_results") and calls and _silent(states):
        return Availability.CAPTURED_OFF
    return Availability.NOT_RECORDED


def _silent(states: Mapping[str, set[Availability]]) -> bool:
    """Whether no operation has recorded any content."""
    return not any(Availability.PRESENT in told for told in states.values())
