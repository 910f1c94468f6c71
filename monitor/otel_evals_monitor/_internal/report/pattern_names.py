"""Names of failure patterns by a judge."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated

import anyio
from pydantic import BaseModel, StringConstraints

from otel_evals.errors import JudgeError
from otel_evals.judges import Judge, JudgeRequest
from otel_evals.sdk.commands import Fence
from otel_evals_monitor._internal.report.patterns import FailurePattern, Failures
from otel_evals_monitor._internal.report.report import ScoreReport

_AT_ONCE = 4
_TASK = (
    "You name kinds of failures of an AI agent for its developers. Answer with one name of at "
    "most ten words that says what goes wrong, in plain English, without names, numbers or dates of one case."
)


class PatternName(BaseModel):
    name: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=120)]


@dataclass
class Naming:
    """A report with names by a judge, and the judge's calls."""

    report: ScoreReport
    named: int = 0
    costs: list[float | None] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """Errors of the judge; those patterns keep their names."""


async def name_patterns(report: ScoreReport, judge: Judge) -> Naming:
    """Return the report with its patterns named by a judge, one call each."""
    naming, names = Naming(report), dict[int, str]()
    limiter = anyio.CapacityLimiter(_AT_ONCE)

    async def name(pattern: FailurePattern) -> None:
        async with limiter:
            try:
                reply = await judge.ask(_request(pattern))
            except JudgeError as error:
                naming.problems.append(str(error))
                return
        naming.costs.append(reply.cost)
        names[id(pattern)] = " ".join(reply.value.name.split())

    async with anyio.create_task_group() as group:
        for row in report.slices:
            for pattern in row.failures.patterns:
                group.start_soon(name, pattern)

    def renamed(failures: Failures) -> Failures:
        patterns = [replace(each, name=names.get(id(each), each.name)) for each in failures.patterns]
        return replace(failures, patterns=tuple(patterns))

    slices = [replace(row, failures=renamed(row.failures)) for row in report.slices]
    naming.report, naming.named = replace(report, slices=slices), len(names)
    return naming


def _request(pattern: FailurePattern) -> JudgeRequest:
    fence, example = Fence(max_chars=4_000), pattern.example
    slots = {
        "what the runs have in common": "; ".join([*pattern.tools, pattern.template, *pattern.words]),
        "explanation of one run's score": example.explanation or "",
        "question of this run": example.input or "",
        "answer of this run": example.output or "",
    }
    fenced, _ = fence.wrap_all(slots, 16_000)
    return JudgeRequest(
        instructions=f"{_TASK}\n\n{fence.notice}",
        prompt="\n\n".join(fenced.values()),
        schema=PatternName,
        scorer_id=example.scorer_id,
        step="name_pattern",
        mark=fence.mark,
    )
