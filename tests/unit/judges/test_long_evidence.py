"""Evidence that does not fit into a prompt is not scored, or its score is marked."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from otel_evals.context import Context
from otel_evals.errors import ConfigError
from otel_evals.judges import CachedJudge, JudgeRequest, LiteLLMJudge, ScriptedJudge
from otel_evals.model import NotScored, Run, Score
from otel_evals.scorers import (
    PromptStep,
    Scorer,
    ScoreReply,
    hallucination,
    rubric,
    step_scorer,
    tool_call_judge,
    toxicity,
    trajectory_judge,
)
from tests.support.judge_scorers import reply_of
from tests.support.runs import a_run, tool

POLITE = {"analyze": reply_of("toxicity")}


def a_judge(script: Any = POLITE, **settings: Any) -> ScriptedJudge:
    judge = ScriptedJudge(script)
    for name, value in settings.items():
        setattr(judge, name, value)
    return judge


def outcome(scorer: Scorer, run: Run) -> Any:
    return anyio.run(scorer.score, run)


def test_text_that_does_not_fit_is_not_scored_and_asks_nobody() -> None:
    judge = a_judge()
    found = outcome(toxicity(judge), a_run("x" * 130_000))
    assert isinstance(found, NotScored)
    assert found.reason == "evidence_too_long"
    assert "has 130023 characters, and the judge's max_prompt_chars is 120000" in (found.explanation or "")
    assert judge.requests == []


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_score_of_a_part_is_marked(wrapped: bool) -> None:
    judge: Any = a_judge(on_cut="score", max_prompt_chars=5_000)
    found = outcome(toxicity(CachedJudge(judge) if wrapped else judge), a_run("x" * 6_000))
    assert isinstance(found, Score)
    assert found.evidence_cut
    assert [step.evidence_cut for step in found.steps] == [True, False]
    assert "characters left out" in judge.requests[0].prompt


def test_text_that_fits_is_shown_whole_and_not_marked() -> None:
    judge = a_judge(max_prompt_chars=7_000)
    found = outcome(toxicity(judge), a_run("x" * 6_000))
    assert isinstance(found, Score)
    assert not found.evidence_cut
    assert "x" * 6_000 in judge.requests[0].prompt


def test_items_that_escapes_lengthen_are_shown_whole() -> None:
    scorer = step_scorer("says", judge=(judge := a_judge({"generate_score": {"score": 1}}))).generate_score(
        PromptStep(prompt="$said", schema=ScoreReply, data=lambda _: {"said": ["\x00" * 100, "end"]})
    )
    assert outcome(scorer, a_run()).value == 1
    assert judge.requests[0].prompt.count("u{0}") == 100


def test_a_resolver_that_leaves_something_out_is_a_cut_too() -> None:
    run = a_run()
    script = {"analyze": reply_of("hallucination")}
    make = lambda judge: hallucination(judge, get_context=lambda _: Context(("y",), truncated=True))  # noqa: E731
    found = outcome(make(a_judge(script)), run)
    assert (found.reason, found.explanation) == (
        "evidence_too_long",
        "the resolver of the context left out a part of it",
    )
    assert outcome(make(a_judge(script, on_cut="score")), run).evidence_cut


LONG = "z" * 4_500 + "the end"


@pytest.mark.parametrize(
    ("make", "run"),
    [
        (trajectory_judge, a_run(tools=[tool("read", arguments={"q": LONG})])),
        (tool_call_judge, a_run(tools=[tool("read", arguments={"q": LONG})])),
        (
            lambda judge: tool_call_judge(judge, available_tools={"read": LONG}),
            a_run(tools=[tool("read")]),
        ),
        (
            lambda judge: step_scorer("s", judge=judge).generate_score(
                PromptStep(prompt="$tool_calls", schema=ScoreReply)
            ),
            a_run(tools=[tool("read", LONG)]),
        ),
    ],
)
def test_single_items_are_not_cut_before_the_prompt_is_full(make: Any, run: Run) -> None:
    asked: list[JudgeRequest] = []
    answer = lambda request: asked.append(request) or {}  # noqa: E731
    judge = ScriptedJudge({"analyze": answer, "generate_score": answer})
    with pytest.raises(Exception, match="does not fit"):
        outcome(make(judge), run)
    assert "the end" in asked[0].prompt


def test_criteria_of_a_run_are_not_cut() -> None:
    found = outcome(rubric(a_judge({}), criteria=lambda run: run.input), a_run(user="is kind " * 9_000))
    assert found.reason == "evidence_too_long"


def test_the_settings_belong_to_the_version_and_are_checked() -> None:
    versions = {
        toxicity(LiteLLMJudge("openai/m", **settings)).version
        for settings in ({}, {"on_cut": "score"}, {"max_prompt_chars": 200_000})
    }
    assert len(versions) == 3
    with pytest.raises(ConfigError, match=r"model.on_cut: must be not_scored or score, not 'guess'"):
        LiteLLMJudge("openai/m", on_cut="guess")  # type: ignore[arg-type]  # on purpose
    with pytest.raises(ConfigError, match=r"model.max_prompt_chars: must be within"):
        LiteLLMJudge("openai/m", max_prompt_chars=10)
