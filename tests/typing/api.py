"""How the public names are used, for the type checker alone: never run, checked strictly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_type

import otel_evals
from otel_evals import (
    Destination,
    NotScored,
    Pipeline,
    Rule,
    Run,
    Score,
    ScoredRun,
    Scorer,
    Stats,
    sampling,
    scorer,
)
from otel_evals.context import tool_results
from otel_evals.scorers import (
    FunctionScorer,
    grounded_in_tools,
    hallucination,
    keyword_coverage,
    tool_call_accuracy,
)


@scorer
def mentions_price(run: Run) -> bool:
    return "$" in (run.output or "")


@scorer(id="short", inline=True)
def is_short(run: Run) -> Score | NotScored:
    return NotScored(reason="no_output") if run.output is None else Score(value=float(len(run.output) < 500))


@scorer
async def slow(run: Run) -> float:
    return 1.0


class Length(Scorer):
    id = "length"
    version = "1"

    async def score(self, run: Run) -> Score:
        return Score(value=min(len(run.output or "") / 1000, 1.0))


class Nowhere:
    name = "nowhere"

    async def export(self, batch: Sequence[ScoredRun]) -> None: ...

    async def shutdown(self) -> None: ...


def expected(run: Run) -> str | None:
    return "search_orders" if "order" in (run.input or "") else None


destination: Destination = Nowhere()
assert_type(mentions_price, FunctionScorer)
assert_type(is_short, FunctionScorer)
assert_type(slow, FunctionScorer)

pipeline = otel_evals.configure(
    rules=[
        Rule(Length()),
        Rule(is_short, scope="conversation", idle=60),
        Rule(mentions_price, when=lambda run: run.agent_name == "support"),
        Rule(grounded_in_tools(), sample=sampling.always()),
        Rule(tool_call_accuracy(expected_tool=expected)),
        Rule(keyword_coverage(), sample=sampling.ratio(0.5) & sampling.when(lambda run: bool(run.input))),
        Rule(
            hallucination(model="openai/gpt-5-mini", get_context=tool_results()),
            sample=sampling.ratio(0.05) | sampling.errors(),
        ),
    ],
    destinations=[destination, "console", {"jsonl": {"path": "scores.jsonl"}}],
)
assert_type(pipeline, Pipeline)
assert_type(pipeline.force_flush(), bool)
assert_type(otel_evals.stats(), Stats)
assert_type(otel_evals.explain("4bf92f3577b34da6a3ce929d0e0e4736"), otel_evals.Explanation)
assert_type(otel_evals.health(), otel_evals.Health)
