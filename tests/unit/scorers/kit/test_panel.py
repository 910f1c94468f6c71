"""Votes and panels: one score of several, and how far they agree."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from pydantic import BaseModel

from otel_evals._internal.scorers.kit.prompt import PromptStep
from otel_evals._internal.scorers.kit.scorer import StepFailure
from otel_evals.errors import ConfigError, JudgeUnavailableError
from otel_evals.judges import CachedJudge, ScriptedJudge
from otel_evals.model import Direction, NotScored, Run, Score
from otel_evals.scorers import Scorer, panel, scorer, step_scorer, votes
from tests.support.runs import a_run


def says(value: Any) -> Scorer:
    @scorer(id=f"says {value}", scale=None)
    async def one(run: Run) -> Any:
        if isinstance(value, Exception):
            raise value
        return value

    return one


def judged(*values: Any, **options: Any) -> Score | NotScored:
    return anyio.run(panel([says(value) for value in values], id="p", **options).score, a_run())


@pytest.mark.parametrize(
    ("values", "value", "agreement"),
    [((0.2, 0.9, 1.0), 0.9, 2 / 3), ((0.5, 0.5), 0.5, 1.0), ((0.0, 1.0), 0.5, 0.0)],
)
def test_a_panel_scores_the_median_and_says_who_agrees(
    values: tuple[float, ...], value: float, agreement: float
) -> None:
    score = judged(*values)
    assert isinstance(score, Score)
    assert (score.value, score.agreement) == (value, pytest.approx(agreement))
    assert (score.explanation or "").startswith("votes ")


def test_labels_are_decided_by_the_majority() -> None:
    score = judged(True, False, True)
    assert isinstance(score, Score)
    assert (score.value, score.label, score.agreement) == (1.0, "true", pytest.approx(2 / 3))


def test_a_failing_member_is_left_out_unless_most_fail() -> None:
    busy = JudgeUnavailableError("busy")
    score = judged(0.5, 0.5, busy)
    assert isinstance(score, Score)
    assert score.explanation == "votes 0.5, 0.5, JudgeUnavailableError."
    with pytest.raises(StepFailure, match="2 of 3 members failed") as caught:
        judged(0.5, busy, busy)
    assert caught.value.__cause__ is busy


def test_a_panel_that_mostly_does_not_apply_is_not_scored() -> None:
    none = NotScored(reason="no_claims")
    assert judged(none, none, 0.5) == none
    assert isinstance(judged(none, 0.5, 0.5), Score)


def test_votes_of_one_judge_are_separate_questions_even_behind_a_cache() -> None:
    class Rating(BaseModel):
        score: float

    judge = ScriptedJudge({"generate_score": [{"score": s} for s in (0.2, 0.4, 0.6)]}, cost=0.5)
    one = step_scorer("rating", judge=CachedJudge(judge)).generate_score(
        PromptStep(prompt="$output", schema=Rating)
    )
    three = votes(one, 3)
    score = anyio.run(three.score, a_run())
    assert isinstance(score, Score)
    assert (three.id, score.value, len(judge.requests), score.cost) == ("rating", 0.4, 3, 1.5)
    assert [step.name for step in score.steps] == [f"{n}.generate_score" for n in (1, 2, 3)]


def test_panels_are_refused_that_cannot_agree() -> None:
    with pytest.raises(ConfigError, match="at least two"):
        panel([says(1)], id="p")
    low = scorer(id="low", direction=Direction.LOWER)(lambda run: 1.0)
    with pytest.raises(ConfigError, match="direction"):
        panel([says(1), low], id="p")
