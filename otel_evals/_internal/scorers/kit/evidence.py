"""Fits the evidence of a question into a judge's prompt: shown whole, explored, cut or not scored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from otel_evals._internal.judges.fence import Fence, Slot, items_of, length
from otel_evals._internal.judges.judge import Judge, JudgeRequest, Window, window_of
from otel_evals._internal.model import NotScored, StepRecord
from otel_evals._internal.redaction.redactor import redact
from otel_evals._internal.scorers.kit.context import Params
from otel_evals._internal.scorers.kit.explore import Explorer, question_steps
from otel_evals._internal.scorers.kit.run_steps import run_steps


class Record(Protocol):
    """What a step notes about its evidence."""

    evidence_cut: bool
    looks: list[StepRecord]


async def with_evidence(
    of: Callable[[Fence, Mapping[str, str]], JudgeRequest],
    slots: Mapping[str, Slot],
    params: Params[Any, Any],
    judge: Judge,
    record: Record,
) -> tuple[JudgeRequest, Fence] | NotScored:
    """Return the question with its evidence and its fence, after exploration if the judge explores.

    Args:
        of: returns the question with these fenced slots.
        slots: the evidence.
        params: of the step that asks.
        judge: will answer.
        record: notes the looks, and whether the evidence is cut.
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
    if window.explore is not None and (cut is not None or chars > window.explore.above):
        explorer = _explorer(slots, params, window)
        smaller, _ = fence.wrap_all(slots, explorer.max_chars)
        try:
            request = await explorer.explore(of(fence, smaller), judge, fence)
        finally:
            # After an error too: the looks have cost something.
            record.looks += explorer.records
        # A judge that ends its looks by itself has seen what decides: nothing counts as cut then.
        cut = explorer.reached and f"the judge had not seen enough at the limit {explorer.reached}"
    if cut is not None and window.on_cut == "not_scored":
        return NotScored(reason="evidence_too_long", explanation=cut)
    record.evidence_cut = record.evidence_cut or cut is not None
    return request, fence


def _explorer(slots: Mapping[str, Slot], params: Params[Any, Any], window: Window) -> Explorer:
    assert window.explore is not None
    texts = {name: items_of(slot) for name, slot in slots.items()}
    steps = [*run_steps(params.run), *question_steps(texts)]
    # Half of the prompt is for the evidence, the other half for the results of looks.
    return Explorer(steps, window.explore, window.max_prompt_chars // 2)
