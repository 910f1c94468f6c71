"""What a step asked and got: its record, and the answers that it shares with other scorers.

Equal questions of several scorers about one run, such as `hallucination` and `faithfulness`, are one call.
"""

from __future__ import annotations

import re
import time
import weakref
from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import Any

import anyio
from anyio.lowlevel import RunVar

from otel_evals._internal.judges.fence import Slot, items_of, shorten
from otel_evals._internal.judges.judge import CallTotals, JudgeReply, JudgeRequest
from otel_evals._internal.model import ContextSeen, NotScored, Run, Score, StepRecord, Usage
from otel_evals._internal.trust.marks import need_span
from otel_evals._internal.util.calls import of_this_loop
from otel_evals._internal.util.plain import plain_text, plain_value, type_name

_MODEL = re.compile(r"[\w.:/@+-]{1,200}")
_MAX_PROMPT = 40_000
"""Characters of a recorded prompt; the judge gets all of it."""


class StepRecordBuilder:
    """Collects a step's prompt, cost and result."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.context: ContextSeen | None = None
        self.evidence_cut = False
        self.prompt: str | None = None
        self._model: str | None = None
        self._spent = CallTotals()
        self._start_time = time.time_ns()
        self._clock = time.perf_counter()

    def asked(self, request: JudgeRequest, model: str) -> None:
        """Record a question; `model` is the name it is sent to."""
        need_span()
        self.prompt = shorten(f"{request.instructions}\n\n{request.prompt}", _MAX_PROMPT)
        self._model = model

    def answered(self, reply: JudgeReply) -> None:
        if _MODEL.fullmatch(reply.model):  # servers may answer with any text
            self._model = reply.model
        self._spent.add(reply.usage, reply.cost, reply.attempts)

    def shares(self, other: StepRecordBuilder) -> None:
        """Take over the question of another scorer, which paid for it."""
        self.prompt, self._model, self.evidence_cut = other.prompt, other._model, other.evidence_cut

    def failed(self, error: Any) -> StepRecord:
        if isinstance(getattr(error, "usage", None), Usage):  # noted by the judge
            self._spent.add(error.usage, error.cost, error.attempts)
        return self.record(error=describe_error(error))

    def record(self, value: Any = None, error: str | None = None) -> StepRecord:
        return StepRecord(
            name=self.name,
            result=_plain(value),
            prompt=self.prompt,
            model=self._model,
            usage=self._spent.usage,
            cost=self._spent.cost,
            attempts=self._spent.calls or 1,
            start_time=self._start_time,
            duration=time.perf_counter() - self._clock,
            context=self.context,
            evidence_cut=self.evidence_cut,
            error=error,
        )


def describe_error(error: BaseException) -> str:
    return f"{type_name(error)}: {plain_text(error, 2_000)}".removesuffix(": ")


def _plain(value: Any) -> Any:
    if isinstance(value, Score):
        value = {"value": value.value, "label": value.label}
    elif isinstance(value, NotScored):
        value = {"not_scored": value.reason}
    return plain_value(value)


# --- shared answers ---


class _Answer:
    """An answer that each scorer may take once: one that asks again wants another."""

    def __init__(self, scorer_id: str, record: StepRecordBuilder) -> None:
        self.takers = {scorer_id}
        self.record = record
        self.known = anyio.Event()
        self.value: Any = None
        """None while the judge is asked, and after it failed."""


_Answers = dict[Hashable, _Answer]
# One for each event loop, to which an anyio Event belongs.
_of_runs: RunVar[dict[int, _Answers]] = RunVar("otel_evals.answers_about_runs")


async def asked_once(
    run: Run,
    question: Hashable,
    scorer_id: str,
    record: StepRecordBuilder,
    ask: Callable[[], Awaitable[Any]],
    fits: Callable[[Any], bool],
) -> Any:
    """Return the answer that another scorer got or is waiting for, or ask.

    `question` has everything that the answer depends on, apart from the run. `record` notes the prompt and
    its cost: the answer to another scorer's question is free. It is taken if it `fits` this scorer.
    """
    answers = _answers_about(run)
    while (answer := answers.get(question)) is not None and scorer_id not in answer.takers:
        answer.takers.add(scorer_id)
        await answer.known.wait()
        if answer.value is not None and fits(answer.value):
            record.shares(answer.record)
            return answer.value
    # Nobody has asked, or whoever did failed: then the first of those that waited asks.
    answers[question] = answer = _Answer(scorer_id, record)
    try:
        answer.value = await ask()
        return answer.value
    finally:
        answer.known.set()


def question_of(slots: Mapping[str, Slot], *parts: Hashable) -> Hashable:
    """Return a key that is equal for equal parts and slots."""
    shown = ((k, v if isinstance(v, str | int | float) else tuple(items_of(v))) for k, v in slots.items())
    return (*parts, frozenset(shown))


def _answers_about(run: Run) -> _Answers:
    """Return the answers about a run, which are forgotten with it."""
    runs = of_this_loop(_of_runs, dict[int, _Answers])
    # By identity: runs with equal content are different runs. The finalizer frees the id for another.
    if id(run) not in runs:
        runs[id(run)] = {}
        weakref.finalize(run, runs.pop, id(run), None).atexit = False
    return runs[id(run)]
