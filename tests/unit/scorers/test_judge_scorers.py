"""The judge scorers with scripted verdicts: formulas, refusals and what each prompt holds."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from otel_evals._internal.scoring.scorer import StepFailure
from otel_evals.errors import ConfigError
from otel_evals.judges import ScriptedJudge
from otel_evals.model import Direction, NotScored, Run, Score
from otel_evals.scorers import StepScorer, answer_relevancy, hallucination
from tests.support.runs import a_run, tool

ORDERS = tool("orders", {"id": 7, "ships": "Friday"})
RUN = a_run(tools=[ORDERS])


def judge(scorer: StepScorer[Any, Any], run: Run = RUN) -> Score:
    outcome = anyio.run(scorer.score, run)
    assert isinstance(outcome, Score), outcome
    return outcome


def refuse(scorer: StepScorer[Any, Any], run: Run = RUN) -> str:
    outcome = anyio.run(scorer.score, run)
    assert isinstance(outcome, NotScored), outcome
    return outcome.reason


# --- hallucination ---


def findings(*verdicts: str, claims: int | None = None, reason: Any = "because") -> ScriptedJudge:
    count = len(verdicts) if claims is None else claims
    return ScriptedJudge(
        {
            "preprocess": {"claims": [f"claim {n}" for n in range(count)]},
            "analyze": {"verdicts": [{"statement": "s", "verdict": v, "reason": "r"} for v in verdicts]},
            "generate_reason": reason,
        }
    )


@pytest.mark.parametrize(
    ("verdicts", "value"),
    [
        (["no", "no"], 0.0),
        (["yes", "no", "no"], 0.33),
        ([" YES. ", '"No"', "**yes**"], 0.67),
        (["yes"], 1.0),
    ],
)
def test_hallucination_is_the_share_of_claims_without_backing(verdicts: list[str], value: float) -> None:
    scorer = hallucination(findings(*verdicts))
    assert scorer.direction is Direction.LOWER
    score = judge(scorer)
    assert (score.value, score.explanation) == (value, "because")


def test_hallucination_scales() -> None:
    assert judge(hallucination(findings("yes", "no", "no"), scale=10)).value == 3.33


def test_hallucination_shows_the_tool_results_unless_told_otherwise() -> None:
    for options, shown in [
        ({}, "Friday"),
        ({"context": ["fixed material"]}, "fixed material"),
        ({"get_context": lambda params: ["found material"], "context": ["fixed"]}, "found material"),
    ]:
        asked = findings("no")
        judge(hallucination(asked, **options))
        prompts = {request.step: request.prompt for request in asked.requests}
        assert shown in prompts["analyze"]
        assert shown in prompts["generate_reason"]
        assert 'name="context 1"' not in prompts["preprocess"]


def test_hallucination_answers_not_scored_where_it_does_not_apply() -> None:
    assert refuse(hallucination(findings(claims=0))) == "no_claims"
    assert refuse(hallucination(findings("no")), a_run()) == "no_context"
    assert refuse(hallucination(findings("no"), context=[])) == "no_context"
    assert refuse(hallucination(findings("no")), a_run(None, tools=[ORDERS])) == "output_not_recorded"
    assert judge(hallucination(findings("yes"), without_context=True), a_run()).value == 1.0


def test_as_many_verdicts_as_claims_after_one_repair() -> None:
    short = findings("yes", claims=2)
    with pytest.raises(StepFailure, match="1 verdicts for 2 items"):
        judge(hallucination(short))
    assert [request.step for request in short.requests] == ["preprocess", "analyze", "analyze"]


def test_a_verdict_nobody_asked_for_is_a_failure() -> None:
    with pytest.raises(StepFailure, match="maybe"):
        judge(hallucination(findings("maybe")))


def test_without_a_reason_there_is_one_call_less() -> None:
    asked = findings("no")
    assert judge(hallucination(asked, explain=False)).explanation is None
    assert [request.step for request in asked.requests] == ["preprocess", "analyze"]


# --- answer relevancy ---


def relevance(*results: str) -> ScriptedJudge:
    return ScriptedJudge(
        {
            "preprocess": {"statements": [f"statement {n}" for n in range(len(results))]},
            "analyze": {"results": [{"result": r, "reason": "r"} for r in results]},
            "generate_reason": "because",
        }
    )


@pytest.mark.parametrize(
    ("options", "value"),
    [
        ({}, 0.43),
        ({"scale": 10}, 4.33),
        ({"uncertainty_weight": 0.5}, 0.5),
        ({"uncertainty_weight": 0}, 0.33),
    ],
)
def test_answer_relevancy_counts_doubt_by_its_weight(options: dict[str, float], value: float) -> None:
    assert judge(answer_relevancy(relevance("yes", "Unsure", "no"), **options)).value == value


def test_answer_relevancy_answers_not_scored_where_it_does_not_apply() -> None:
    assert refuse(answer_relevancy(relevance())) == "no_statements"
    assert refuse(answer_relevancy(relevance("yes")), a_run(user=None)) == "input_not_recorded"


@pytest.mark.parametrize(
    "options", [{"scale": 0}, {"uncertainty_weight": 1.5}, {"uncertainty_weight": float("nan")}]
)
def test_answer_relevancy_refuses_wrong_options(options: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=f"answer_relevancy.{next(iter(options))}"):
        answer_relevancy(relevance(), **options)
