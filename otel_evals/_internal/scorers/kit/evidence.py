"""Fits the evidence of a question into a judge's prompt: shown whole, cut, or not scored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from otel_evals._internal.judges.fence import Fence, Slot, length
from otel_evals._internal.judges.judge import Judge, JudgeRequest, window_of
from otel_evals._internal.model import NotScored
from otel_evals._internal.redaction.redactor import redact
from otel_evals._internal.scorers.kit.context import Params


class Record(Protocol):
    """What a step notes about its evidence."""

    evidence_cut: bool


def with_evidence(
    of: Callable[[Fence, Mapping[str, str]], JudgeRequest],
    slots: Mapping[str, Slot],
    params: Params[Any, Any],
    judge: Judge,
    record: Record,
) -> tuple[JudgeRequest, Fence] | NotScored:
    """Return the question with its evidence and its fence.

    Args:
        of: returns the question with these fenced slots.
        slots: the evidence.
        params: of the step that asks.
        judge: will answer.
        record: notes whether the evidence is cut.
    """
    window = window_of(judge)
    limit, chars = window.max_prompt_chars, sum(map(length, slots.values()))
    fence = Fence(max_chars=limit, redact=getattr(judge, "redact", redact))
    fenced, whole = fence.wrap_all(slots, limit)
    cut = None
    if not whole:
        cut = f"the evidence has {chars} characters, and the judge's max_prompt_chars is {limit}"
    elif params.context is not None and params.context.truncated:
        cut = "the resolver of the context left out a part of it"
    request = of(fence, fenced)
    if params.step == "generate_reason":  # the score is known, a reason may rest on less
        return request, fence
    if cut is not None and window.on_cut == "not_scored":
        return NotScored(reason="evidence_too_long", explanation=cut)
    record.evidence_cut = record.evidence_cut or cut is not None
    return request, fence
