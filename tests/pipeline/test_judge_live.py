"""Judge scorers in the live pipeline, with a judge behind real HTTP."""

from __future__ import annotations

from typing import Any

from otel_evals import Rule, Score
from otel_evals.context import tool_results
from otel_evals.judges import OpenAICompatibleJudge
from otel_evals.scorers import hallucination
from tests.support.judge_scorers import reply_of
from tests.support.stub_openai import StubOpenAI
from tests.support.traffic import Live


def checker(body: dict[str, Any]) -> Any:
    """A judge that finds a claim hallucinated unless its words stand in the context."""
    if body.get("response_format", {}).get("json_schema", {}).get("name") != "Claims":
        return "because of the date"
    answer, _, material = body["messages"][-1]["content"].rpartition("The material:")
    date = answer.rpartition("arrives on ")[2][:10]
    return reply_of("hallucination", date, good=date in material)


def scorer(stub: StubOpenAI) -> Any:
    judge = OpenAICompatibleJudge("stub", api_base=stub.url)
    return hallucination(judge, get_context=tool_results())


def test_the_judge_sees_the_tool_results_of_the_very_run() -> None:
    with StubOpenAI(checker) as stub, Live(Rule(scorer(stub))) as live:
        dates = [f"2031-0{n}-11" for n in range(1, 7)]
        for n, date in enumerate(dates):
            told = date if n % 2 else "2030-01-01"  # every other answer names another date than the tool
            live.run(answer=f"It arrives on {told}.", result={"eta": date})
        assert live.flush()
        outcomes = {
            scored.run.tool_calls[0].result["eta"]: scored.evaluations[0].outcome
            for scored in live.scored.runs
        }
    assert len(stub.requests) == 6
    for n, date in enumerate(dates):
        score = outcomes[date]
        assert isinstance(score, Score)
        assert score.value == (0.0 if n % 2 else 1.0)
        steps = {step.name: step for step in score.steps}
        prompt, context = steps["analyze"].prompt, steps["analyze"].context
        assert prompt is not None
        assert context is not None
        assert date in prompt
        assert not any(other in prompt for other in dates if other != date)
        assert len(context.digest) == 64
        verdict = steps["analyze"].result["claims"][0]["verdict"]
        assert verdict == ("supported" if n % 2 else "contradicted")


def test_without_content_capture_digest_and_verdicts_stay_and_texts_go() -> None:
    with StubOpenAI(checker) as stub, Live(Rule(scorer(stub)), capture_content=False) as live:
        live.run()
        assert live.flush()
        (scored,) = live.scored.runs
    outcome = scored.evaluations[0].outcome
    assert isinstance(outcome, Score)
    assert all(step.prompt is None for step in outcome.steps)
    contexts = [step.context for step in outcome.steps if step.context is not None]
    assert contexts
    assert all(context.text is None and context.digest for context in contexts)
