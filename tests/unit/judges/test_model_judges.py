"""Judges against a real HTTP server that answers, or misbehaves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import anyio
import pytest
from pydantic import BaseModel

from otel_evals._internal.judges.litellm import load
from otel_evals._internal.judges.refusals import judge_error
from otel_evals._internal.judges.resolver import resolve_judge
from otel_evals._internal.util.credentials import credentials
from otel_evals.context import tool_results
from otel_evals.errors import ConfigError, JudgeError, JudgeReplyError, JudgeUnavailableError
from otel_evals.judges import Budget, JudgeReply, JudgeRequest, LiteLLMJudge, OpenAICompatibleJudge
from otel_evals.scorers import hallucination
from tests.support import PYTHONPATH
from tests.support.recording_server import recording_server
from tests.support.runs import a_run, tool
from tests.support.stub_openai import Misbehave, Raw, StubOpenAI

Make = Callable[..., LiteLLMJudge | OpenAICompatibleJudge]
"""Builds a judge for the model `stub` of a server."""


@pytest.fixture(params=["litellm", "openai-compatible"])
def make(request: pytest.FixtureRequest) -> Make:
    if request.param == "litellm":
        return partial(LiteLLMJudge, "openai/stub")
    return partial(OpenAICompatibleJudge, "stub")


class Verdict(BaseModel):
    verdict: str


REQUEST = JudgeRequest(
    instructions="Judge.", prompt="Is it so?", schema=Verdict, scorer_id="s", step="analyze", mark="aa11"
)
TEXT = JudgeRequest(instructions="Explain.", prompt="Why?")


def run(work: Callable[[], Awaitable[Any]]) -> Any:
    """Run on a loop of its own and close the HTTP clients LiteLLM keeps."""

    async def main() -> Any:
        try:
            return await work()
        finally:
            load()
            from litellm.llms.custom_httpx.async_client_cleanup import close_litellm_async_clients

            await close_litellm_async_clients()

    return anyio.run(main)


def ask(make, stub: StubOpenAI, request: JudgeRequest = REQUEST, **options: Any) -> JudgeReply:
    judge = make(api_base=stub.url, **options)
    return run(lambda: judge.ask(request))


def test_a_typed_answer_comes_in_one_call(make: Make) -> None:
    with StubOpenAI({"verdict": "yes"}) as stub:
        reply = ask(make, stub)
    assert reply.value == Verdict(verdict="yes")
    assert (reply.attempts, reply.usage.input_tokens, reply.usage.output_tokens) == (1, 120, 20)
    assert reply.cost is None, "nobody knows this model's price"
    (sent,) = stub.requests
    assert sent["response_format"]["type"] == "json_schema"
    assert sent["temperature"] == 0.0
    assert [m["role"] for m in sent["messages"]] == ["system", "user"]


def test_text_is_asked_for_without_a_form(make: Make) -> None:
    with StubOpenAI("  because  ") as stub:
        reply = ask(make, stub, TEXT)
    assert reply.value == "because"
    assert "response_format" not in stub.requests[0]


def test_a_price_of_ones_own_is_used(make: Make) -> None:
    with StubOpenAI({"verdict": "yes"}) as stub:
        reply = ask(make, stub, input_price=1.0, output_price=10.0)
    assert reply.cost == pytest.approx((120 * 1 + 20 * 10) / 1e6)


def test_a_known_model_has_a_price() -> None:
    with StubOpenAI({"verdict": "yes"}) as stub:
        judge = LiteLLMJudge("openai/gpt-4o-mini", api_base=stub.url)
        reply = run(lambda: judge.ask(REQUEST))
    assert reply.cost is not None
    assert reply.cost > 0


@pytest.mark.parametrize(
    ("model", "reported", "cost"),
    [
        ("openrouter/openai/gpt-5-mini", None, None),
        ("openrouter/openai/gpt-5-mini", 0.25, 0.25),
        ("fireworks_ai/unheard-of", None, None),
    ],
)
def test_a_price_that_the_list_lacks_is_unknown_and_not_zero(
    model: str, reported: float | None, cost: float | None
) -> None:
    usage = {"prompt_tokens": 120, "completion_tokens": 20, "total_tokens": 140, "cost": reported}
    with StubOpenAI(Raw(json.dumps({"verdict": "yes"}), whole={"usage": usage})) as stub:
        judge = LiteLLMJudge(model, api_base=stub.url, max_tokens=50, api_key="k")
        assert run(lambda: judge.ask(REQUEST)).cost == cost
        budget = LiteLLMJudge(model, api_base=stub.url, max_tokens=50, limiters=(Budget(usd=1),))
        with pytest.raises(JudgeError, match="price is unknown"):
            run(lambda: budget.ask(REQUEST))


def test_the_status_of_an_overloaded_provider_is_not_lost_in_litellm() -> None:
    with StubOpenAI(Misbehave("status", 529)) as stub, pytest.raises(JudgeUnavailableError) as caught:
        ask(partial(LiteLLMJudge, "anthropic/claude-haiku-4-5"), stub, api_key="k")
    assert caught.value.status == 529
    assert len(stub.requests) == 1, "another form of the question would not help"


def test_a_temperature_that_the_model_refuses_is_left_out() -> None:
    with StubOpenAI({"verdict": "yes"}) as stub:
        judge = LiteLLMJudge("openai/gpt-5-mini", api_base=stub.url)
        run(lambda: judge.ask(REQUEST))
    assert "temperature" not in stub.requests[0]


@pytest.mark.parametrize("status", [408, 429, 498, 500, 502, 503])
def test_a_busy_provider_is_unavailable_after_one_call(make: Make, status: int) -> None:
    busy = Misbehave("status", status, {"retry-after": "7"})
    with StubOpenAI(busy) as stub, pytest.raises(JudgeUnavailableError) as caught:
        ask(make, stub)
    assert caught.value.retry_after == 7
    assert len(stub.requests) == 1, "retries belong to the limits, not to the client"


@pytest.mark.parametrize("status", [401, 403])
def test_a_refusal_for_good_is_not_worth_another_try(make: Make, status: int) -> None:
    with StubOpenAI(Misbehave("status", status)) as stub, pytest.raises(JudgeError) as caught:
        ask(make, stub)
    assert not isinstance(caught.value, JudgeUnavailableError)
    assert len(stub.requests) == 1


@pytest.mark.parametrize("how", ["hang", "drip"])
def test_a_provider_that_does_not_finish_times_out(make: Make, how: str) -> None:
    with StubOpenAI(Misbehave(how, seconds=600.0)) as stub:
        load()  # the first import of LiteLLM takes seconds
        with pytest.raises(JudgeUnavailableError):
            ask(make, stub, timeout=0.3)


@pytest.mark.parametrize("how", ["reset", "garbage", "truncated"])
def test_a_broken_transport_is_an_error_of_the_judge(make: Make, how: str) -> None:
    with StubOpenAI(Misbehave(how)) as stub, pytest.raises(JudgeError) as caught:
        ask(make, stub)
    assert "in time" not in str(caught.value)


def test_an_empty_answer_is_no_text(make: Make) -> None:
    with StubOpenAI(Misbehave("empty")) as stub, pytest.raises(JudgeReplyError, match="gave an empty answer"):
        ask(make, stub, TEXT)


def test_nobody_listening_is_unavailable(make: Make) -> None:
    judge = make(api_base="http://127.0.0.1:9/v1")
    with pytest.raises(JudgeUnavailableError):
        run(lambda: judge.ask(REQUEST))


def test_wrong_options_name_themselves() -> None:
    wrong = [
        ({"timeout": 0}, "timeout"),
        ({"input_price": 1.0}, "output_price"),
        ({"api_base": "localhost:8000/v1"}, "api_base: must begin with http"),
    ]
    for options, name in wrong:
        with pytest.raises(ConfigError, match=name):
            LiteLLMJudge("openai/stub", **options)
    with pytest.raises(ConfigError, match="model"):
        resolve_judge(42)  # type: ignore[arg-type]  # what a user may do


def test_a_scorer_over_http_sends_the_tool_results_of_the_very_run(make: Make) -> None:
    claim = {"claim": "ships on Friday", "evidence": "Friday", "verdict": "supported"}
    run_judged = a_run(tools=[tool("orders", {"order": 7, "ships": "Friday"})])
    with StubOpenAI([{"claims": [claim]}]) as stub:
        scorer = hallucination(make(api_base=stub.url), get_context=tool_results())
        score = run(lambda: scorer.score(run_judged))
    assert (score.value, score.explanation) == (0.0, "1 of 1 claims supported")
    assert ['{"order": 7, "ships": "Friday"}' in prompt for prompt in stub.prompts] == [True]
    assert [step.model for step in score.steps] == ["stub", None]
    assert score.steps[0].context is not None
    assert score.usage.input_tokens == 120


# --- what must not leave ---

KEY = "my-very-own-key-0815"


@pytest.mark.parametrize(
    "options",
    [
        {"api_key": KEY},
        {"options": {"extra_headers": {"x-api-key": KEY}}},
        {"options": {"extra_headers": {"Authorization": f"Bearer {KEY}"}}},
        {"options": {"aws_secret_access_key": KEY}},
    ],
)
def test_a_judges_own_key_comes_back_in_no_message(make: Make, options: dict[str, Any]) -> None:
    with StubOpenAI(Misbehave("status", 401)) as stub:
        stub.error_text = f"Incorrect API key provided: {KEY}"
        judge = make(api_base=stub.url, **options)
        with pytest.raises(JudgeError) as caught:
            run(lambda: judge.ask(TEXT))
    told = "".join(traceback.format_exception(caught.value))
    assert KEY not in told
    assert "401" in told
    assert caught.value.status == 401
    assert KEY not in repr(judge)


def test_keys_of_the_environment_and_the_address_go_too(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_PROVIDER_API_KEY", KEY)
    judge = make(api_base="http://ann:pa%24%24word1@localhost/v1?token=abcdefgh")
    known = credentials(judge.api_key, judge.api_base, judge.options)
    told = str(judge_error(ValueError(f"{KEY} pa$$word1 pa%24%24word1 abcdefgh"), "m", known))
    for secret in (KEY, "pa$$word1", "pa%24%24word1", "abcdefgh"):
        assert secret not in told
    assert repr(judge) == f"{type(judge).__name__}({judge.model!r}, api_base='http://localhost/v1')"


def test_a_key_in_an_answer_is_taken_out(make: Make) -> None:
    with StubOpenAI(f"the key is {KEY}") as stub:
        judge = make(api_base=stub.url, api_key=KEY)
        assert run(lambda: judge.ask(TEXT)).value == "the key is [redacted]"


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_sends_the_question_nowhere(status: int) -> None:
    with StubOpenAI("so") as other, StubOpenAI() as stub:
        target = {"location": f"{other.url}/chat/completions"}
        stub.script[:] = [Misbehave("status", status, target)]
        with pytest.raises(JudgeError) as caught:
            run(lambda: OpenAICompatibleJudge("stub", api_base=stub.url).ask(TEXT))
    assert target["location"] in str(caught.value)
    assert other.requests == []
    assert not isinstance(caught.value, JudgeUnavailableError)


@pytest.mark.parametrize("how", ["endless", "compressed"])
def test_an_answer_beyond_all_bounds_ends_the_call(how: str) -> None:
    with StubOpenAI(Misbehave(how)) as stub, pytest.raises(JudgeError, match="the answer is") as caught:
        run(lambda: OpenAICompatibleJudge("stub", api_base=stub.url, timeout=30).ask(TEXT))
    assert not isinstance(caught.value, JudgeUnavailableError)


# --- without LiteLLM ---


def test_the_key_of_the_environment_is_for_the_server_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with StubOpenAI("so") as own, StubOpenAI("so") as other:
        monkeypatch.setenv("OPENAI_BASE_URL", own.url)
        run(lambda: OpenAICompatibleJudge("stub").ask(TEXT))
        run(lambda: OpenAICompatibleJudge("stub", api_base=other.url).ask(TEXT))
    assert own.headers[0]["authorization"] == f"Bearer {KEY}"
    assert "authorization" not in other.headers[0]


def test_the_query_of_an_address_stays_behind_the_path() -> None:
    with recording_server() as server:
        judge = OpenAICompatibleJudge("stub", api_base=f"{server.url}/v1?api-version=1")
        with pytest.raises(JudgeError):
            run(lambda: judge.ask(TEXT))
    (request,) = server.requests
    assert (request.path, request.query) == ("/v1/chat/completions", {"api-version": ["1"]})


def test_a_model_name_or_mapping_selects_the_judge() -> None:
    named = resolve_judge("openai-compatible/m")
    assert named == OpenAICompatibleJudge("m")
    assert resolve_judge("openai-compatible/m") is named, "or equal questions would not be one call"
    server = "http://localhost:8000/v1"
    found = resolve_judge({"model": "openai-compatible/a/m", "api_base": server, "timeout": 5})
    assert found == OpenAICompatibleJudge("a/m", api_base=server, timeout=5)


def test_it_needs_neither_litellm_nor_the_sdk_of_openai() -> None:
    with StubOpenAI({"verdict": "yes"}) as stub:
        program = f"""
import sys
sys.modules.update(dict.fromkeys(("litellm", "openai")))
import anyio
from pydantic import BaseModel
from otel_evals.judges import JudgeRequest, OpenAICompatibleJudge
class Verdict(BaseModel):
    verdict: str
judge = OpenAICompatibleJudge("stub", api_base={stub.url!r})
request = JudgeRequest(instructions="", prompt="Is it so?", schema=Verdict)
print(anyio.run(judge.ask, request).value.verdict)
"""
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("yes", "")


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("model", ["openai/gpt-5-mini", "openai-compatible/gpt-5-mini"])
def test_a_missing_key_is_one_line_at_configure_and_no_traceback_later(model: str) -> None:
    program = f"""
import otel_evals
from opentelemetry.sdk.trace import TracerProvider
from otel_evals import Rule
from otel_evals.scorers import answer_relevancy
from tests.support.traffic import agent_run
provider = TracerProvider()
rule = Rule(answer_relevancy(model={model!r}), attempts=1, timeout=120)
otel_evals.configure(rules=[rule], tracer_provider=provider, shutdown_timeout=120)
print("configured", flush=True)
agent_run(provider.get_tracer("app"))
"""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("OPENAI_")}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**clean, "PYTHONPATH": PYTHONPATH, "HTTPS_PROXY": "http://127.0.0.1:9"},  # nothing listens
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    before, _, after = done.stdout.partition("configured\n")
    (line,) = before.splitlines()
    assert line.endswith("has no API key, so its scorers will fail; fix: export OPENAI_API_KEY=...")
    assert "answer_relevancy fails: Judge" in after
    assert "Traceback" not in after
