"""The four-step scorer: order, results, failures, contexts and what is recorded."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import anyio
import pytest
from pydantic import BaseModel

from otel_evals._internal.scorers.kit.prompt import PromptStep
from otel_evals._internal.scorers.kit.scorer import StepFailure
from otel_evals.context import Context, Params, static
from otel_evals.errors import ConfigError, JudgeReplyError, JudgeUnavailableError
from otel_evals.judges import JudgeReply, JudgeRequest, ScriptedJudge
from otel_evals.model import NotScored, Score, Usage
from otel_evals.scorers import ReasonParams, StepScorer, step_scorer
from otel_evals.testing import run_of
from tests.support.runs import a_run

AnyParams = Params[Any, Any]


class Claims(BaseModel):
    claims: list[str]


def score(scorer: StepScorer[Any, Any], **run: Any) -> Score:
    outcome = anyio.run(scorer.score, a_run(**run))
    assert isinstance(outcome, Score)
    return outcome


def test_steps_run_in_their_order_whatever_order_they_were_chained_in() -> None:
    names = ["preprocess", "analyze", "generate_score", "generate_reason"]
    for seed in range(5):
        seen: list[str] = []

        def step(params: AnyParams, seen: list[str] = seen) -> Any:
            seen.append(params.step)
            return "why" if params.step == "generate_reason" else 0.5

        chained = step_scorer("x")
        for name in random.Random(seed).sample(names, 4):
            chained = getattr(chained, name)(step)
        assert score(chained).explanation == "why"
        assert seen == names


def test_results_accumulate_and_are_kept() -> None:
    async def analyze(params: Params[list[str], None]) -> int:
        return len(params.results.preprocess)

    def reason(params: ReasonParams[list[str], int]) -> str:
        return f"{params.results.analyze} words make {params.score:.1f}"

    scorer = (
        step_scorer("words", scale=10)
        .preprocess(lambda params: (params.run.output or "").split())
        .analyze(analyze)
        .generate_score(lambda params: params.results.analyze)
        .generate_reason(reason)
    )
    result = score(scorer)
    assert (result.value, result.explanation) == (5.0, "5 words make 5.0")
    assert [s.name for s in result.steps] == ["preprocess", "analyze", "generate_score", "generate_reason"]
    assert result.steps[0].result == ["Order", "7", "ships", "on", "Friday."]
    assert all(s.duration >= 0 and s.start_time > 0 for s in result.steps)


def test_builders_are_immutable() -> None:
    base = step_scorer("x").generate_score(lambda params: 0.25)
    other = base.generate_score(lambda params: 0.75)
    assert (score(base).value, score(other).value) == (0.25, 0.75)
    assert base.version != other.version


def test_what_is_missing_is_said_before_anything_runs() -> None:
    with pytest.raises(ConfigError, match=r"x\.generate_score: is missing"):
        step_scorer("x").analyze(lambda params: 1).check()
    asking = (
        step_scorer("x").generate_score(lambda params: 1).analyze(PromptStep(prompt="$output", schema=Claims))
    )
    with pytest.raises(ConfigError, match=r"x\.analyze: asks a judge"):
        asking.check()
    with pytest.raises(ConfigError, match="nothing fills"):
        PromptStep(prompt="Judge $answer", schema=Claims)
    with pytest.raises(ConfigError, match="dollar"):
        PromptStep(prompt="Costs $5", schema=Claims)
    with pytest.raises(ConfigError, match=r"x\.analyze"):
        step_scorer("x").analyze(3)  # type: ignore[call-overload]  # what a user may do


@pytest.mark.parametrize("name", ["preprocess", "analyze", "generate_score"])
def test_any_step_may_say_that_it_does_not_apply(name: str) -> None:
    scorer = step_scorer("x").preprocess(lambda params: 1).generate_score(lambda params: 1.0)
    stopped = getattr(scorer, name)(lambda params: NotScored(reason="no_prices"))
    outcome = anyio.run(stopped.score, a_run())
    assert isinstance(outcome, NotScored)
    assert outcome.reason == "no_prices"
    assert outcome.steps[-1].name == name
    assert outcome.steps[-1].result == {"not_scored": "no_prices"}


def test_a_failing_step_carries_those_before_it() -> None:
    scorer = step_scorer("x").preprocess(lambda params: ["kept"]).generate_score(lambda params: 1 / 0)
    with pytest.raises(StepFailure, match="generate_score: ZeroDivisionError") as caught:
        score(scorer)
    assert type(caught.value.__cause__) is ZeroDivisionError
    assert [(s.name, s.result) for s in caught.value.steps] == [
        ("preprocess", ["kept"]),
        ("generate_score", None),
    ]
    assert caught.value.steps[-1].error == "ZeroDivisionError: division by zero"


def test_a_failing_reason_does_not_lose_the_score() -> None:
    judge = ScriptedJudge({"generate_reason": JudgeUnavailableError("busy")})
    scorer = step_scorer("x", judge=judge).generate_score(lambda params: 0.5)
    result = score(scorer.generate_reason(PromptStep(prompt="Why $score?", schema=str)))
    assert (result.value, result.explanation) == (0.5, None)
    assert result.steps[-1].error == "JudgeUnavailableError: busy"


def test_a_reason_cut_short_by_a_timeout_does_not_lose_the_score() -> None:
    async def forever(params: AnyParams) -> str:
        await anyio.sleep_forever()
        return ""

    scorer = step_scorer("x").generate_score(lambda params: 0.5).generate_reason(forever)

    async def main() -> Any:
        with anyio.fail_after(0.05):
            return await scorer.score(a_run())

    result = anyio.run(main)
    assert (result.value, result.explanation) == (0.5, None)
    assert result.steps[-1].error is not None


def test_an_analysis_cut_short_by_a_timeout_is_a_timeout() -> None:
    async def forever(params: AnyParams) -> None:
        await anyio.sleep_forever()

    async def main() -> None:
        with anyio.fail_after(0.05):
            await step_scorer("x").analyze(forever).generate_score(lambda params: 1).score(a_run())

    with pytest.raises(TimeoutError):
        anyio.run(main)


# --- prompts ---


def asking(asked: ScriptedJudge, **options: Any) -> StepScorer[None, Claims]:
    step = PromptStep(prompt="Claims of $output for $input", schema=Claims, **options)
    return step_scorer("x", judge=asked).analyze(step).generate_score(lambda p: len(p.results.analyze.claims))


def test_a_prompt_step_records_what_it_asked_and_cost() -> None:
    judge = ScriptedJudge({"analyze": {"claims": ["one"]}}, cost=0.25, usage=Usage(input_tokens=7))
    result = score(asking(judge))
    (step, _) = result.steps
    assert step.result == {"claims": ["one"]}
    assert (step.model, step.cost, step.usage.input_tokens, step.attempts) == ("scripted", 0.25, 7, 1)
    assert step.prompt is not None
    assert "Order 7 ships on Friday." in step.prompt
    assert (result.cost, result.usage.input_tokens) == (0.25, 7)


def test_an_unknown_price_is_not_zero() -> None:
    assert score(asking(ScriptedJudge({"analyze": {"claims": ["one"]}}))).cost is None


def test_a_run_without_what_the_prompt_needs_is_not_scored() -> None:
    judge = ScriptedJudge({})
    outcome = anyio.run(asking(judge).score, a_run(None))
    assert isinstance(outcome, NotScored)
    assert outcome.reason == "output_not_recorded"
    assert judge.requests == []


def test_a_reply_that_fails_its_check_is_repaired_once() -> None:
    judge = ScriptedJudge({"analyze": [{"claims": []}, {"claims": ["one"]}]}, cost=0.1)
    result = score(asking(judge, check=lambda p, reply: None if reply.claims else "there must be a claim"))
    assert result.value == 1.0
    assert (result.steps[0].attempts, result.steps[0].cost) == (2, 0.2)
    assert "there must be a claim" in judge.requests[1].prompt


def test_a_reply_that_fails_its_check_twice_is_a_failure() -> None:
    judge = ScriptedJudge({"analyze": {"claims": []}}, cost=0.1)
    with pytest.raises(StepFailure, match="there must be a claim") as caught:
        score(asking(judge, check=lambda p, reply: "there must be a claim"))
    assert isinstance(caught.value.__cause__, JudgeReplyError)
    step = caught.value.steps[-1]
    assert step.prompt is not None
    assert (step.attempts, step.cost) == (2, 0.2)


def test_a_step_may_have_a_judge_and_instructions_of_its_own() -> None:
    first, second = ScriptedJudge({}), ScriptedJudge({"analyze": {"claims": []}}, model="second")
    scorer = asking(first, judge=second, instructions="Be quick.")
    assert score(scorer).steps[0].model == "second"
    assert second.requests[0].instructions.startswith("Be quick.")
    assert scorer.version != asking(second, instructions="Be quick.").version


# --- contexts ---


def with_context(resolver: Any, **options: Any) -> StepScorer[None, Any]:
    scorer = step_scorer("x", get_context=resolver, **options)
    return (
        scorer.analyze(lambda params: params.context)
        .generate_score(lambda params: 1.0)
        .generate_reason(lambda params: f"{params.context}")
    )


def test_the_hook_is_called_once_and_serves_the_reason_too() -> None:
    seen: list[tuple[str, Any]] = []

    async def hook(params: AnyParams) -> list[str]:
        seen.append((params.step, params.results.analyze))
        return ["material"]

    result = score(with_context(hook))
    assert seen == [("analyze", None)]
    contexts = {s.name: s.context for s in result.steps}
    assert contexts["generate_score"] is None
    assert contexts["analyze"] == contexts["generate_reason"]
    assert contexts["analyze"] is not None
    assert (contexts["analyze"].pieces, contexts["analyze"].text) == (1, ("material",))


@pytest.mark.parametrize("found", [None, [], "", Context(note="switched off")])
def test_a_hook_that_finds_nothing_makes_it_not_scored(found: Any) -> None:
    outcome = anyio.run(with_context(lambda params: found).score, a_run())
    assert isinstance(outcome, NotScored)
    assert outcome.reason == "no_context"
    assert anyio.run(with_context(lambda params: found, without_context=True).score, a_run())


@pytest.mark.parametrize("found", [3, {"a": "b"}, [1, 2], ["text", None], b"bytes"])
def test_a_hook_that_returns_no_texts_fails(found: Any) -> None:
    with pytest.raises(StepFailure, match="get_context must return a list of texts"):
        score(with_context(lambda params: found))


# --- versions ---


def test_the_version_changes_with_whatever_could_change_the_judgement() -> None:
    def make(prompt: str = "$output", weight: float = 1.0, model: str = "m", **options: Any) -> str:
        scorer = step_scorer("x", judge=ScriptedJudge({}, model=model), **options)
        step = PromptStep(prompt=prompt, schema=Claims)
        return scorer.analyze(step).generate_score(lambda params: weight).version

    assert make() == make()
    others = [
        make("$output!"),
        make(weight=2.0),
        make(model="n"),
        make(scale=2),
        make(get_context=static("a")),
        make(get_context=static("b")),
        make(instructions="i"),
        make(options={"a": 1}),
    ]
    assert len({make(), *others}) == len(others) + 1
    assert make(version="3") == "3"


@pytest.mark.parametrize("answered", ["m-2026-01-01", "what was said to it, as a name", "x" * 9_000, ""])
def test_a_model_that_answers_is_recorded_by_a_name_and_by_no_other_text(answered: str) -> None:
    """A server writes it; it stands on spans, events and metrics."""

    class Served:
        model = "asked"

        async def ask(self, request: JudgeRequest) -> JudgeReply:
            return JudgeReply(value="yes", model=answered)

    judged = step_scorer("s", judge=Served()).analyze(PromptStep(prompt="Is it? $input", schema=str))
    score = asyncio.run(judged.generate_score(lambda params: 1.0).score(run_of({"input": "why?"})))
    assert isinstance(score, Score)
    assert score.steps[0].model == (answered if answered.startswith("m-") else "asked")
