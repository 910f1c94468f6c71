"""A scored run as plain JSON values, as destinations write it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import NoneType
from typing import Any

from msgspec.structs import asdict

from otel_evals import semconv
from otel_evals._internal.model import (
    ContextSeen,
    Dropped,
    Evaluation,
    Media,
    Outcome,
    Run,
    ScoredRun,
    StepRecord,
    ToolCall,
    Usage,
)
from otel_evals._internal.model.evaluations import judges_cost
from otel_evals._internal.model.operations import NO_USAGE
from otel_evals._internal.redaction.redactor import before_redaction
from otel_evals._internal.util.plain import field_values

_Json = dict[str, Any]
_MOST_MEDIA = 20
_MOST_BITS = 1024
_DEEPEST = 100
_LONGEST_ATTRIBUTE = 200
_PLAIN = (str, NoneType, bool)
_NO_USAGE = asdict(NO_USAGE)


def run_record(scored: ScoredRun, *, content: bool = True, media_bytes: int = 0) -> dict[str, Any]:
    """Return a scored run as JSON values: a summary of the run, and every evaluation in full.

    Without `content`, all that could quote the conversation is None: input, output, explanations, error
    messages, and the steps' prompts, results and contexts. `media_bytes` is the size up to which images are
    included; others are references. Numbers that are not finite become None.
    """
    run, redact = before_redaction(scored.run)
    recorded = run.content  # first: most other fields are found with it
    return {
        **_run(run, redact, content=content),
        "spans": [each.span_id for each in run.operations if each.span_id != run.root_span_id],
        "content": recorded,
        "media": _media(run, media_bytes, redact) if content else [],
        "evaluations": [_evaluation(evaluation, content=content) for evaluation in scored.evaluations],
    }


def steps_of(outcome: Outcome) -> tuple[StepRecord, ...]:
    return () if isinstance(outcome, Dropped) else outcome.steps


def plain(value: Any, depth: int = 0) -> Any:
    """Return an object as a JSON value.

    Numbers beyond a float and values more than 100 levels deep become None, other objects their text.
    """
    if type(value) in _PLAIN:  # most values
        return value
    if depth > _DEEPEST:
        return None
    depth += 1
    match value:
        case bool() | str():
            return value
        case int():  # one with more than 4,300 digits has no text
            return value if value.bit_length() <= _MOST_BITS else None
        case float():
            return value if math.isfinite(value) else None
        case dict() | Mapping():
            return {str(key): plain(item, depth) for key, item in value.items()}
        case bytes() | bytearray():
            return value.hex()
        case list() | tuple() | Sequence() | set() | frozenset():
            return [plain(item, depth) for item in value]
    # Pydantic models are recognised by their method, since importing pydantic is slow.
    if callable(dump := getattr(value, "model_dump", None)) and not isinstance(value, type):
        return plain(dump(), depth)
    if (held := field_values(value)) is not None:
        return {name: plain(item, depth) for name, item in held.items()}
    return str(value)


def _run(run: Run, redact: Callable[[list[Any]], list[Any]], *, content: bool) -> _Json:
    """Return the record of a run. Ids and figures are fields of ours; all else is redacted as content."""
    texts: _Json = {
        "service": plain(run.resource.get(semconv.SERVICE_NAME)),
        "agent": run.agent_name,
        "agent_version": run.agent_version,
        "user_id": run.user_id,
        "prompt_version": run.prompt_version,
        "tenant": run.tenant,
        "attributes": _attributes(run),
        "provider": run.provider,
        "models": list(run.models),
        "error_type": run.error_type,
        "error": run.error,
        "input": run.input,
        "output": run.output,
        "system": run.system_instructions,
        "history": [[m.role, m.text] for m in run.history],
        "tool_calls": [_tool_call(call) for call in run.tool_calls],
        "documents": [[d.id, d.content] for d in run.documents],
    }
    if not content:
        called = [call[:2] for call in texts["tool_calls"]]
        texts |= {**_NO_CONTENT, "attributes": {}, "tool_calls": called}
    # Without our own keys: those of content are redacted, too.
    texts = dict(zip(texts, redact(list(texts.values())), strict=True))
    return {
        "trace_id": run.trace_id,
        "span_id": run.root_span_id,
        "conversation_id": run.conversation_id,
        "turns": [{"trace_id": turn.trace_id, "span_id": turn.root_span_id} for turn in run.turns],
        "start_time": run.start_time,
        "end_time": run.end_time,
        "duration": run.duration,
        "usage": _usage(run.usage),
        **texts,
        "history": _named(("role", "content"), texts["history"]),
        "tool_calls": _named(_OF_CALLS, texts["tool_calls"]),
        "documents": _named(("id", "content"), texts["documents"]),
    }


def _named(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[_Json]:
    return [dict(zip(names, row, strict=False)) for row in rows]


def _usage(usage: Usage) -> _Json:
    return dict(_NO_USAGE) if usage is NO_USAGE else plain(asdict(usage))


def _media(run: Run, media_bytes: int, redact: Callable[[Media], Media]) -> list[_Json]:
    said = (("input", run.input_messages), ("output", run.output_messages))
    found = [(side, media) for side, messages in said for message in messages for media in message.media]
    return [{"side": side, **_reference(redact(media), media_bytes)} for side, media in found[:_MOST_MEDIA]]


def _reference(media: Media, media_bytes: int) -> _Json:
    """Return the known fields; the bytes only of images up to a size."""
    kept = asdict(media)
    if media.raster_type is None or (media.size or 0) > media_bytes:
        del kept["base64"]
    return {name: value for name, value in kept.items() if value is not None}


def _attributes(run: Run) -> _Json:
    """Return the short attributes of the root span: numbers, and texts that are no messages."""
    own = run.root.span.attributes if run.root else {}
    short = [(k, v) for k, v in own.items() if not isinstance(v, str) or len(v) <= _LONGEST_ATTRIBUTE]
    return {name: plain(value) for name, value in short if isinstance(value, str | bool | int | float)}


_OF_CALLS = ("name", "status", "arguments", "result", "error")
_NO_CONTENT: _Json = {
    **dict.fromkeys(("error", "input", "output", "system")),
    "history": [],
    "documents": [],
}
"""The fields of a run without what could quote the conversation."""


def _tool_call(call: ToolCall) -> list[Any]:
    """Return all that scorers read of a tool call: a run can be scored again from its record."""
    return [call.name, call.status, plain(call.arguments), plain(call.result), call.error]


def _evaluation(evaluation: Evaluation, *, content: bool) -> _Json:
    outcome = evaluation.outcome
    steps = steps_of(outcome)
    record = {
        "evaluation_id": evaluation.evaluation_id,
        "rule": evaluation.rule or evaluation.scorer_id,
        "scorer": evaluation.scorer_id,
        "version": evaluation.scorer_version,
        "direction": evaluation.direction.value,
        "scale": plain(evaluation.scale),
        "trace_id": evaluation.trace_id,
        "span_id": evaluation.span_id,
        "conversation_id": evaluation.conversation_id,
        "status": evaluation.status,
        "value": plain(getattr(outcome, "value", None)),
        "label": getattr(outcome, "label", None),
        "operation": getattr(outcome, "span_id", None),
        "review": evaluation.review,
        "explanation": getattr(outcome, "explanation", None),
        "reason": evaluation.reason,
        "verdict": evaluation.verdict,
        "effect": evaluation.effect,
        "message": getattr(outcome, "message", None),
        "sampling": {"probability": plain(evaluation.sampled.probability), "rule": evaluation.sampled.rule},
        "duration": plain(evaluation.duration),
        "attempts": evaluation.attempts,
        "revision": evaluation.revision,
        "time": evaluation.time,
        "cost": plain(judges_cost([outcome])),
        "evidence_cut": getattr(outcome, "evidence_cut", False),
        "usage": _usage(sum([step.usage for step in steps], NO_USAGE)),
        "steps": [_step(step, content=content) for step in steps],
    }
    return record if content else {**record, "explanation": None, "message": None}


def _step(step: StepRecord, *, content: bool) -> _Json:
    record = {
        "name": step.name,
        "result": plain(step.result),
        "prompt": step.prompt,
        "model": step.model,
        "usage": _usage(step.usage),
        "cost": plain(step.cost),
        "attempts": step.attempts,
        "start_time": step.start_time,
        "duration": plain(step.duration),
        "context": step.context and _context(step.context, content=content),
        "evidence_cut": step.evidence_cut,
        "error": step.error,
    }
    return record if content else {**record, "result": None, "prompt": None, "error": None}


def _context(seen: ContextSeen, *, content: bool) -> _Json:
    text = list(seen.text) if content and seen.text is not None else None
    return {"digest": seen.digest, "pieces": seen.pieces, "truncated": seen.truncated, "text": text}
