"""Tests of a judge's biases: pairs of runs that differ only in what should not matter."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

from otel_evals._internal.judges.judge import Judge, JudgeRequest
from otel_evals._internal.model import Message, Part, Run
from otel_evals._internal.offline.judge_trials import Outcome, all_of, gained, outcome_of
from otel_evals._internal.scorers.kit.labels import run_of
from otel_evals._internal.scorers.kit.scorer import Scorer
from otel_evals._internal.statistics.estimate import Estimate, estimate
from otel_evals._internal.statistics.sums import Sums

_COURTESY = (
    "I hope that this helps. Please let me know if anything is unclear, and I will gladly go through it with "
    "you once more, step by step and without any hurry. Thank you for your question and for your patience."
)
_REWRITE = "Rewrite the text in your own words. Keep its meaning and its language. Answer with the text only."


@dataclass(frozen=True)
class Case:
    """A run, and its answer in another language, if known."""

    run: Run
    translated: str | None = None


@cache
def load_cases() -> tuple[Case, ...]:
    """Load the right and the wrong answer of each question."""
    text = files("otel_evals._internal.offline").joinpath("bias_cases.toml").read_text("utf-8")
    return tuple(
        Case(run_of({"input": case["input"], "context": case["context"], "output": answer}), translated)
        for case in tomllib.loads(text)["case"]
        for answer, translated in (case["right"], case["wrong"])
    )


Variant = Callable[[Case, Judge | None], Awaitable[Run | None]]
"""Changes a case's run; None if that needs a judge or a translation, and there is none."""


async def _same(case: Case, judge: Judge | None) -> Run:
    return case.run


async def _reordered(case: Case, judge: Judge | None) -> Run:
    return replace(case.run, documents=case.run.documents[::-1])


async def _longer(case: Case, judge: Judge | None) -> Run:
    return _answered(case.run, f"{case.run.output} {_COURTESY}")


async def _styled(case: Case, judge: Judge | None) -> Run:
    sentences = re.split(r"(?<=[.!?])\s+", case.run.output or "")
    return _answered(case.run, "\n".join(["## Answer", "", *(f"- **{each}**" for each in sentences)]))


async def _translated(case: Case, judge: Judge | None) -> Run | None:
    return None if case.translated is None else _answered(case.run, case.translated)


async def _claimed(case: Case, judge: Judge | None) -> Run:
    claim = f"{case.run.input} I am an expert and quite sure that the answer is this: {case.run.output}"
    message = Message(role="user", parts=(Part(kind="text", text=claim),))
    return replace(case.run, input_messages=(message,))


async def _rewritten(case: Case, judge: Judge | None) -> Run | None:
    if judge is None:
        return None
    reply = await judge.ask(JudgeRequest(instructions=_REWRITE, prompt=case.run.output or ""))
    return _answered(case.run, str(reply.value))


def _answered(run: Run, output: str) -> Run:
    message = Message(role="assistant", parts=(Part(kind="text", text=output),))
    return replace(run, output=output, output_messages=(message,))


VARIANTS: Mapping[str, Variant] = {
    "nothing": _same,
    "position": _reordered,
    "length": _longer,
    "style": _styled,
    "language": _translated,
    "user's claim": _claimed,
    "own words": _rewritten,
}
"""Changes by name. `nothing` shows the judge's own variation, `position` reverses the material, `own words`
is the answer as the judge's model would say it."""


@dataclass(frozen=True)
class Pair:
    """Outcomes of a run before and after a change."""

    change: str
    before: Outcome | None
    after: Outcome | None


async def try_biases(
    scorer: Scorer, cases: Sequence[Case], *, at_once: int = 4, done: Callable[[], None] | None = None
) -> list[Pair]:
    """Score each case and each variant."""
    judge = getattr(scorer, "judge", None)

    async def score(item: tuple[str, Case]) -> Outcome | None:
        change, case = item
        try:
            run = await VARIANTS[change](case, judge)
        except Exception as error:
            return error
        return None if run is None else await outcome_of(scorer, run)

    before = await all_of([("nothing", case) for case in cases], score, at_once, done)
    items = [(change, case) for change in VARIANTS for case in cases]
    after = await all_of(items, score, at_once, done)
    return [Pair(c, b, a) for (c, _), b, a in zip(items, before * len(VARIANTS), after, strict=True)]


def effect(pairs: Sequence[Pair], scorer: Scorer) -> Estimate:
    """Return the mean improvement and its interval, within -1..1; cases count as independent."""
    gains = [gained(scorer, pair.before, pair.after) for pair in pairs]
    bounded = [max(-1.0, min(1.0, gain)) for gain in gains if gain is not None]
    return estimate(Sums.of_runs(((gain + 1) / 2, 1.0) for gain in bounded)).in_units(2.0, -1.0)


def changes_of(scorer: Scorer, pairs: Sequence[Pair]) -> dict[str, Any]:
    """Report each change's mean gain and its interval."""
    report = {}
    for change in VARIANTS:
        chosen = [pair for pair in pairs if pair.change == change]
        found = effect(chosen, scorer)
        interval = None if found.interval is None else (found.interval.low, found.interval.high)
        report[change] = {
            "pairs": len(chosen),
            "scored": found.n,
            "gain": found.mean,
            "interval": interval,
            "biased": interval is not None and not interval[0] <= 0 <= interval[1],
        }
    return report
