"""Judges against a real model server: structure, repair, timeouts, usage, and every judge scorer.

The model is small, and its verdicts are poor: the tests are about what happens to its answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Literal

import anyio
import pytest
from pydantic import BaseModel

from otel_evals import scorers
from otel_evals._internal.scorers.kit.scorer import StepFailure
from otel_evals.errors import JudgeCutError, JudgeError, JudgeReplyError, JudgeUnavailableError
from otel_evals.judges import JudgeReply, JudgeRequest, LiteLLMJudge, OpenAICompatibleJudge
from otel_evals.model import Score
from otel_evals.testing import run_of
from tests.support.judge_scorers import JUDGE_OPTIONS, judge_scorers
from tests.support.model_server import find_model, model_server

pytestmark = pytest.mark.interop
Make = Callable[..., LiteLLMJudge | OpenAICompatibleJudge]
OPTIONS = {"max_tokens": 40, "timeout": 240, "options": {"frequency_penalty": 1.0}}
"""Without the penalty, a model of this size repeats itself until the end of the answer."""
RUN = run_of(
    {
        "input": "When does order 7 ship?",
        "output": "Order 7 ships on Friday.",
        "system": "Be brief.",
        "tools": [{"name": "orders", "arguments": {"id": 7}, "result": {"ships": "Monday"}}],
        "context": ["Order 7 ships on Monday."],
        "expected": "It ships on Monday.",
    }
)


class Verdict(BaseModel):
    verdict: Literal["yes", "no"]


QUESTION = JudgeRequest(instructions="You are a judge.", prompt="Is Paris in France?", schema=Verdict)
MAKES = {
    "litellm": partial(LiteLLMJudge, "openai/smollm2", **OPTIONS),
    "openai-compatible": partial(OpenAICompatibleJudge, "smollm2", **OPTIONS),
}


@pytest.fixture(scope="module")
def llama_cpp() -> Iterator[str]:
    python = find_model()
    if python is None:
        pytest.skip("run tests/interop/setup.sh first: it installs a model and its server")
    with model_server(python) as url:
        yield url


@pytest.fixture(params=MAKES)
def make(request: pytest.FixtureRequest) -> Make:
    return MAKES[request.param]


def ask(judge: Any, request: JudgeRequest = QUESTION) -> JudgeReply:
    return anyio.run(judge.ask, request)


@pytest.mark.parametrize("form", ["json_schema", "json_object_schema", None])
def test_a_schema_is_enforced(make: Make, llama_cpp: str, form: Any) -> None:
    reply = ask(make(api_base=llama_cpp, structured_output=form, input_price=1.0, output_price=10.0))
    assert reply.value.verdict in ("yes", "no")
    assert reply.attempts == 1
    assert reply.usage.input_tokens > 20
    assert 3 < reply.usage.output_tokens < 40
    assert reply.cost == pytest.approx((reply.usage.input_tokens + 10 * reply.usage.output_tokens) / 1e6)


def test_an_answer_that_was_cut_off_is_named_as_such(make: Make, llama_cpp: str) -> None:
    with pytest.raises(JudgeCutError, match="length") as caught:
        ask(make(api_base=llama_cpp, max_tokens=3))
    assert caught.value.attempts == 1
    assert caught.value.usage.output_tokens == 3


def test_a_text_beyond_the_model_s_window_is_refused_at_once(make: Make, llama_cpp: str) -> None:
    with pytest.raises(JudgeError, match="context size") as caught:
        ask(make(api_base=llama_cpp), JudgeRequest(instructions="", prompt="so " * 5_000, schema=Verdict))
    assert (caught.value.status, caught.value.attempts) == (400, 1)


def test_a_timeout_leaves_the_server_usable(make: Make, llama_cpp: str) -> None:
    with pytest.raises(JudgeUnavailableError):
        ask(make(api_base=llama_cpp, timeout=0.05), JudgeRequest(instructions="", prompt="Count to 1000."))
    assert ask(make(api_base=llama_cpp)).attempts == 1


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", judge_scorers())
def test_every_scorer_scores_or_reports_the_unusable_answer(name: str, llama_cpp: str) -> None:
    """With answers that are too short for most scorers: reading the prompts takes most of the time."""
    judge = MAKES["litellm"](api_base=llama_cpp, max_tokens=12)
    scorer = getattr(scorers, name)(judge, **JUDGE_OPTIONS.get(name, {}))
    outcome = anyio.run(outcome_of, scorer)
    if isinstance(outcome, StepFailure):
        outcome = outcome.__cause__
    assert isinstance(outcome, Score | JudgeReplyError), outcome
    assert outcome.usage.output_tokens > 0
    assert isinstance(outcome, JudgeReplyError) or 0 <= outcome.value <= (scorer.scale or 1)


async def outcome_of(scorer: scorers.Scorer) -> Any:
    try:
        return await scorer.score(RUN)
    except StepFailure as failure:
        return failure
