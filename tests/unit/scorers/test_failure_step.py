"""`failure_step` names the operation at which a run went wrong."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from otel_evals.errors import ConfigError
from otel_evals.judges import ScriptedJudge
from otel_evals.model import NotScored, Run, Score
from otel_evals.scorers import failure_step
from tests.support.runs import a_run, tool
from tests.support.stepped_run import RUN, span_id


def outcome(*replies: Any, run: Run = RUN, **options: Any) -> tuple[ScriptedJudge, Any]:
    judge = ScriptedJudge({"analyze": list(replies)})
    return judge, anyio.run(failure_step(judge, **options).score, run)


READ_WRONGLY = {"failed": True, "step": 4, "category": "Result_misread.", "reason": "It ships on Monday."}


def test_a_failure_is_about_the_span_of_its_step() -> None:
    judge, score = outcome(READ_WRONGLY)
    assert isinstance(score, Score)
    assert (score.value, score.label, score.span_id) == (0.0, "result_misread", span_id(4))
    assert (score.explanation or "").startswith("step 4, inference ")
    assert (score.explanation or "").endswith("It ships on Monday.")
    assert '4. "inference' in judge.requests[0].prompt
    assert "result_misread: a correct result" in judge.requests[0].prompt


def test_a_run_without_a_failure_is_about_no_step() -> None:
    _, score = outcome({"failed": False, "reason": "It was answered."})
    assert (score.value, score.label, score.span_id, score.explanation) == (
        1.0,
        "none",
        None,
        "It was answered.",
    )


@pytest.mark.parametrize("wrong", [{"step": 0}, {"step": 5}, {"category": "bad luck"}])
def test_a_step_or_category_that_does_not_exist_is_asked_for_again(wrong: dict[str, Any]) -> None:
    judge, score = outcome({**READ_WRONGLY, **wrong}, READ_WRONGLY)
    assert score.span_id == span_id(4)
    assert len(judge.requests) == 2


def test_a_run_without_operations_is_judged_by_its_messages() -> None:
    reply = {"failed": True, "step": 2, "category": "late", "reason": "no"}
    _, score = outcome(reply, run=a_run(tools=[tool("orders")]), categories={"late": "too late"})
    assert (score.label, score.span_id) == ("late", None)
    assert score.explanation == "step 2, tool orders: no"


def test_a_run_without_content_is_not_scored() -> None:
    _, found = outcome(run=a_run(None, None))
    assert isinstance(found, NotScored)
    assert found.reason == "no_steps"


def test_categories_are_needed_and_count_in_the_version() -> None:
    with pytest.raises(ConfigError, match=r"failure_step.categories: is empty"):
        failure_step("openai/m", categories={})
    assert failure_step("openai/m").version != failure_step("openai/m", categories={"a": "b"}).version
