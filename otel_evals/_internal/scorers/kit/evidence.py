"""Fits the evidence of a question into a judge's prompt: shown whole, explored, cut or not scored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from otel_evals._internal.judges.fence import Fence, Slot, items_of, length
from otel_evals._internal.judges.judge import Exploration, Judge, JudgeRequest, window_of
from otel_evals._internal.model import NotScored, StepRecord
from otel_evals._internal.redaction.redactor import redact
from otel_evals._internal.scorers.kit.context import Params
from otel_evals._internal.scorers.kit.explore import Explorer, question_steps
from otel_evals._internal.scorers.kit.run_steps import run_steps


class Record(Protocol):
    """What a step notes about its evidence."""

    evidence_cut: bool
    looks: list[StepRecord]


class Evidence:
    def __init__(self, slots: Mapping[str, Slot], params: Params[Any, Any], judge: Judge) -> None:
        self._slots = slots
        self._params = params
        self._judge = judge
        self._window = window_of(judge)
        self._chars = sum(map(length, slots.values()))
        limit = self._window.max_prompt_chars
        self.fence = Fence(max_chars=limit, redact=getattr(judge, "redact", redact))
        self._fenced, whole = self.fence.wrap_all(slots, limit)
        resolver_cut = params.context is not None and params.context.truncated
        self._why_cut = (
            f"the evidence has {self._chars} characters, and the judge's max_prompt_chars is {limit}"
            if not whole
            else "the resolver of the context left out a part of it; raise its max_chars"
            if resolver_cut
            else None
        )

    async def question(
        self, of: Callable[[Mapping[str, str]], JudgeRequest], record: Record
    ) -> JudgeRequest | NotScored:
        """Return the question with its evidence, after exploration if the judge explores.

        Args:
            of: returns the question with these fenced slots.
            record: notes the looks, and whether the evidence is cut.
        """
        if self._params.step == "generate_reason":  # the score is known, a reason may rest on less
            return of(self._fenced)
        if (exploration := self._exploration()) is not None:
            return await self._explored(of, exploration, record)
        return self._cut(self._why_cut, of(self._fenced), record)

    def _exploration(self) -> Exploration | None:
        limits = self._window.explore
        if limits is None or (self._why_cut is None and self._chars <= limits.above):
            return None
        return limits

    async def _explored(
        self, of: Callable[[Mapping[str, str]], JudgeRequest], limits: Exploration, record: Record
    ) -> JudgeRequest | NotScored:
        capacity = self._window.max_prompt_chars // 2
        fenced, _ = self.fence.wrap_all(self._slots, capacity)
        texts = {name: items_of(slot) for name, slot in self._slots.items()}
        steps = [*run_steps(self._params.run), *question_steps(texts)]
        explorer = Explorer(steps, limits, capacity)
        try:
            request = await explorer.explore(of(fenced), self._judge, self.fence)
        finally:
            record.looks += explorer.records
        reached = explorer.reached and f"the judge had not seen enough at the limit {explorer.reached}"
        return self._cut(reached, request, record)

    def _cut(self, why: str | None, request: JudgeRequest, record: Record) -> JudgeRequest | NotScored:
        """Return the question, unless some evidence is missing and it must not be asked."""
        if why is not None and self._window.on_cut == "not_scored":
            return NotScored(reason="evidence_too_long", explanation=why)
        record.evidence_cut = record.evidence_cut or why is not None
        return request
