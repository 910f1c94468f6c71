"""Equal questions of several scorers about one run, such as `hallucination` and `faithfulness`: one call."""

from __future__ import annotations

import weakref
from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import Any

import anyio
from anyio.lowlevel import RunVar

from otel_evals._internal.judges.fence import Slot, items_of
from otel_evals._internal.model import Run
from otel_evals._internal.util.calls import of_this_loop


class _Answer:
    """An answer that each scorer may take once: one that asks again wants another."""

    def __init__(self, scorer_id: str, record: Any) -> None:
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
    record: Any,
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
