"""Servers as they are: fields that they refuse, errors inside of successes, usage that nobody can believe."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from functools import partial
from typing import Any

import anyio
import pytest
from pydantic import BaseModel

from otel_evals.errors import BudgetExceededError, JudgeError, JudgeRefusalError, JudgeUnavailableError
from otel_evals.judges import Budget, JudgeLimits, JudgeRequest, LiteLLMJudge, OpenAICompatibleJudge
from tests.support.recording_server import RecordedRequest, Reply, recording_server
from tests.support.stub_openai import Misbehave, Raw, StubOpenAI

Make = Callable[..., LiteLLMJudge | OpenAICompatibleJudge]


class Verdict(BaseModel):
    verdict: str


TYPED = JudgeRequest(instructions="Judge.", prompt="Is it so?", schema=Verdict, scorer_id="s")
TEXT = JudgeRequest(instructions="Explain.", prompt="Why?")


@pytest.fixture(params=["litellm", "openai-compatible"])
def make(request: pytest.FixtureRequest) -> Make:
    if request.param == "litellm":
        return partial(LiteLLMJudge, "openai/stub")
    return partial(OpenAICompatibleJudge, "stub")


def often(judge: Any, request: JudgeRequest, count: int) -> list[Any]:
    async def ask() -> list[Any]:
        return [(await judge.ask(request)).value for _ in range(count)]

    return anyio.run(ask)


def refusing(stub: StubOpenAI, field: str, status: int, text: str) -> Callable[[dict[str, Any]], Any]:
    def act(body: dict[str, Any]) -> Any:
        if field in body:
            stub.error_text = text
            return Misbehave("status", status)
        return {"verdict": "yes"}

    return act


REFUSED = [
    ("temperature", 400, "Unsupported value: 'temperature' does not support 0.0 with this model."),
    ("temperature", 422, "[{'type': 'extra_forbidden', 'loc': ('body', 'temperature')}]"),
    ("temperature", 400, "Temperature must be 1 when thinking is on"),
    ("temperature", 500, "this model has no temperature"),
    ("temperature", 400, "bad request"),
    ("max_tokens", 400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."),
    ("max_tokens", 422, "max tokens: extra inputs are not permitted"),
    ("seed", 400, "Unknown parameter: 'seed'."),
    ("seed", 422, "('body', 'seed'): Extra inputs are not permitted"),
    ("seed", 400, "Unrecognized request argument supplied: seed"),
    ("seed", 400, 'unexpected keyword argument "seed"'),
    ("seed", 400, "seed is not supported"),
    ("seed", 400, "unknown field seed"),
]


@pytest.mark.parametrize(("field", "status", "text"), REFUSED)
@pytest.mark.parametrize("request_", [TYPED, TEXT], ids=["typed", "text"])
def test_a_refused_field_is_left_out_from_then_on(
    make: Make, request_: JudgeRequest, field: str, status: int, text: str
) -> None:
    with StubOpenAI() as stub:
        stub.script = [refusing(stub, field, status, text)]
        judge = make(api_base=stub.url, max_tokens=50, options={"seed": 7})
        assert len(often(judge, request_, 3)) == 3
    assert field not in stub.requests[-1]
    sent = [field in request for request in stub.requests]
    assert sent[-2:] == [False, False], "only the first question finds out"
    kept = {"temperature", "max_tokens", "seed"} - {field}
    assert all(kept <= request.keys() for request in stub.requests)
    if field == "max_tokens":
        assert stub.requests[-1]["max_completion_tokens"] == 50
    if request_ is TYPED:
        assert stub.requests[-1]["response_format"]["type"] == "json_schema", "it was not the form"


@pytest.mark.parametrize(
    "error",
    [
        {"message": "Unsupported parameter.", "param": "reasoning_effort"},
        "Model stub does not support parameter reasoningEffort.",
    ],
)
def test_a_field_may_be_named_in_another_place_or_case(make: Make, error: Any) -> None:
    def reply(request: RecordedRequest) -> Reply:
        if "reasoning_effort" in request.body:
            return Reply(400, json.dumps({"error": error}).encode())
        return Reply(200, GOOD)

    with recording_server() as server:
        server.reply = reply
        judge = make(api_base=server.url, options={"reasoning_effort": "low"})
        assert often(judge, TEXT, 2) == ["so", "so"]
    assert len(server.requests) == 3


def test_a_word_that_only_looks_like_an_option_is_none(make: Make) -> None:
    with StubOpenAI(Misbehave("status", 400)) as stub:
        stub.error_text = "the user's message is invalid: no seeds"
        judge = make(api_base=stub.url, temperature=None, options={"seed": 7, "user": "u"})
        with pytest.raises(JudgeError):
            often(judge, TEXT, 1)
    assert len(stub.requests) == 1


def test_a_refused_form_is_not_paid_by_a_budget(make: Make) -> None:
    budget = Budget(tokens=100_000)
    with StubOpenAI() as stub:
        stub.script = [refusing(stub, "response_format", 400, "no")]
        often(make(api_base=stub.url, max_tokens=50, limiters=(budget,)), TYPED, 1)
    assert len(stub.requests) == 3
    assert budget.spent() == (0.0, 140, False)


def test_a_server_that_takes_neither_limit_gets_none(make: Make) -> None:
    def act(body: dict[str, Any]) -> Any:
        for field in ("max_tokens", "max_completion_tokens"):
            if field in body:
                stub.error_text = f"unknown field {field}"
                return Misbehave("status", 400)
        return "so"

    with StubOpenAI(act) as stub:
        assert often(make(api_base=stub.url, max_tokens=50), TEXT, 2) == ["so", "so"]
    assert len(stub.requests) == 4


@pytest.mark.parametrize(
    "text",
    [
        "This model's maximum context length is 4096 tokens, and max_tokens is 1000",
        "blocked by the content filter at temperature 0",
        "inputs tokens + `max_new_tokens` must be <= 4096. Given: 4000",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "The input token count (1200000) exceeds the maximum number of tokens allowed",
        "API key not valid. Please pass a valid API key.",
        "stub is not a valid model ID",
    ],
)
def test_an_error_about_something_else_is_one(make: Make, text: str) -> None:
    with StubOpenAI(Misbehave("status", 400)) as stub:
        stub.error_text = text
        with pytest.raises(JudgeError):
            often(make(api_base=stub.url, max_tokens=50), TYPED, 1)
    assert len(stub.requests) == 1


@pytest.mark.parametrize(
    ("status", "text"),
    [(400, "triggering the content management policy"), (403, "moderation: your input was flagged")],
)
def test_an_answer_that_the_provider_withholds_is_a_refusal(make: Make, status: int, text: str) -> None:
    with StubOpenAI(Misbehave("status", status)) as stub:
        stub.error_text = text
        with pytest.raises(JudgeRefusalError, match=f"withheld .*{text}"):
            often(make(api_base=stub.url), TYPED, 1)
    assert len(stub.requests) == 1


# --- errors inside of a status 200 ---


INSIDE = [
    (Raw(whole={"choices": None, "error": {"message": "slow down", "code": 429}}), True),
    (Raw(whole={"choices": [], "error": {"message": "upstream", "code": 502}}), True),
    (Raw(whole={"choices": [], "error": {"message": "no credits", "code": 402}}), False),
]


@pytest.mark.parametrize(("act", "again"), INSIDE)
def test_an_error_inside_of_a_success_is_an_error_with_its_code(make: Make, act: Raw, again: bool) -> None:
    with StubOpenAI(act) as stub, pytest.raises(JudgeError) as caught:
        often(make(api_base=stub.url), TEXT, 1)
    assert isinstance(caught.value, JudgeUnavailableError) is again
    assert caught.value.status == act.whole["error"]["code"]


def test_an_error_in_the_choice_or_by_name_is_retried_too(make: Make) -> None:
    for act, status in (
        (Raw(choice={"error": {"code": 503, "message": "away"}, "finish_reason": "error"}), 503),
        (Raw(whole={"choices": [], "error": {"code": "rate_limit_exceeded", "message": "away"}}), 429),
    ):
        with StubOpenAI(act) as stub, pytest.raises(JudgeUnavailableError, match="away") as caught:
            often(make(api_base=stub.url), TEXT, 1)
        assert caught.value.status == status


@pytest.mark.parametrize("code", [{"type": "overloaded_error"}, {"status": "RESOURCE_EXHAUSTED"}])
def test_an_error_inside_may_have_its_code_elsewhere(code: dict[str, str]) -> None:
    with StubOpenAI(Raw(whole={"choices": [], "error": code})) as stub, pytest.raises(JudgeUnavailableError):
        often(OpenAICompatibleJudge("stub", api_base=stub.url), TEXT, 1)


# --- answers in other forms of HTTP ---


GOOD = json.dumps({"choices": [{"message": {"content": "so"}, "finish_reason": "stop"}]}).encode()
_PAGE = f"<!DOCTYPE html><!-- {'x' * 900} --><html><head><title>api | Bad gateway</title></head></html>"
ODD = {
    "created": Reply(201, GOOD),
    "comments and a mark before it": Reply(200, b"\xef\xbb\xbf: PROCESSING\n\n: PROCESSING\n\n  " + GOOD),
    "compressed without being asked": Reply(200, gzip.compress(GOOD), {"Content-Encoding": "gzip"}),
    "cut off, without a length that tells": Reply(200, GOOD[:40]),
    "empty": Reply(200, b""),
    "a compressed error": Reply(503, gzip.compress(b"too busy"), {"Content-Encoding": "gzip"}),
    "damaged": Reply(200, gzip.compress(GOOD)[:-8] + bytes(8), {"Content-Encoding": "gzip"}),
    "proxy's page": Reply(502, _PAGE.encode(), {"Content-Type": "text/html"}),
    "events": Reply(200, b": hi\n\ndata: {}\n\ndata: [DONE]\n\n", {"Content-Type": "text/event-stream"}),
}
ERRORS = {
    "cut": "broke off",
    "emp": "is empty",
    "a c": "503: too busy",
    "dam": r"is damaged \(gzip\)",
    "pro": r"502: api \| Bad gateway$",
    "eve": "stream: false",
}


@pytest.mark.parametrize("how", ODD)
def test_odd_answers_are_read_or_say_what_they_are(how: str) -> None:
    with recording_server() as server:
        server.reply = lambda _: ODD[how]
        judge = OpenAICompatibleJudge("stub", api_base=server.url, input_price=1.0, output_price=1.0)
        if how[:3] not in ERRORS:
            assert often(judge, TEXT, 1) == ["so"]
            return
        with pytest.raises(JudgeError, match=ERRORS[how[:3]]) as caught:
            often(judge, TEXT, 1)
    assert isinstance(caught.value, JudgeUnavailableError) is (how != "events")
    assert caught.value.cost == 0.0, "nothing was answered"


# --- unknown usage ---


UNKNOWN: list[Any] = [
    None,
    {},
    {"prompt_tokens": 0, "completion_tokens": 0},
    {"prompt_tokens": 120, "completion_tokens": 0},
    {"prompt_tokens": "120", "completion_tokens": "20"},
    {"prompt_tokens": 0.5, "completion_tokens": 0.5},
    {"prompt_tokens": -5, "completion_tokens": 20},
    {"prompt_tokens": True, "completion_tokens": True},
    "120",
]


@pytest.mark.parametrize("usage", UNKNOWN)
def test_unknown_usage_is_not_zero(usage: Any) -> None:
    """Each call reserves some 260 tokens and reports none: three fit, and not a hundred."""
    budget, limits = Budget(tokens=800), JudgeLimits(tokens="100000/min")
    with StubOpenAI(Raw(whole={"usage": usage})) as stub:
        judge = OpenAICompatibleJudge("stub", api_base=stub.url, max_tokens=150, limiters=(limits, budget))
        with pytest.raises(BudgetExceededError):
            often(judge, TEXT, 100)
    assert 1 <= len(stub.requests) <= 4
    assert budget.spent().estimated
    assert budget.spent().tokens >= 150 * len(stub.requests)


@pytest.mark.parametrize("usage", [None, {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}])
def test_dollars_are_kept_too_by_both_judges(make: Make, usage: Any) -> None:
    budget = Budget(usd=0.01)
    with StubOpenAI(Raw(whole={"usage": usage})) as stub:
        prices = {"input_price": 10.0, "output_price": 10.0, "max_tokens": 150}
        judge = make(api_base=stub.url, limiters=(budget,), **prices)
        with pytest.raises(BudgetExceededError):
            often(judge, TEXT, 100)
    assert len(stub.requests) <= 6
    assert budget.spent().estimated


def test_unknown_usage_keeps_the_tokens_of_a_limit() -> None:
    limits = JudgeLimits(tokens="1000/hour")
    with StubOpenAI(Raw(whole={"usage": None})) as stub:
        judge = OpenAICompatibleJudge("stub", api_base=stub.url, max_tokens=400, limiters=(limits,))

        async def ask() -> None:
            with anyio.move_on_after(2):
                for _ in range(10):
                    await judge.ask(TEXT)

        anyio.run(ask)
    assert len(stub.requests) == 2


def test_an_unknown_price_says_how_to_set_one(make: Make) -> None:
    with StubOpenAI("so") as stub:
        judge = make(api_base=stub.url, max_tokens=10, limiters=(Budget(usd=1),))
        with pytest.raises(JudgeError, match="set the judge's input_price and output_price"):
            often(judge, TEXT, 1)
    assert stub.requests == []
