"""Replies as models write them, over HTTP: the verdict is read, or the reason why there is none is named."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from otel_evals._internal.judges.replies import parse_reply
from otel_evals.errors import (
    JudgeCutError,
    JudgeEmptyError,
    JudgeError,
    JudgeRefusalError,
    JudgeUnavailableError,
)
from otel_evals.judges import JudgeRequest, LiteLLMJudge, OpenAICompatibleJudge
from tests.support.stub_openai import Raw, StubOpenAI

Make = Callable[..., LiteLLMJudge | OpenAICompatibleJudge]


class Verdict(BaseModel):
    verdict: Literal["yes", "no"]
    reason: str


class Verdicts(BaseModel):
    verdicts: list[Verdict]


TYPED = JudgeRequest(instructions="Judge.", prompt="Is it so?", schema=Verdict)
TEXT = JudgeRequest(instructions="Explain.", prompt="Why?")
YES = '{"verdict": "yes", "reason": "r"}'
NO = '{"verdict": "no", "reason": "draft"}'


@pytest.fixture(params=["litellm", "openai-compatible"])
def make(request: pytest.FixtureRequest) -> Make:
    if request.param == "litellm":
        return partial(LiteLLMJudge, "openai/stub")
    return partial(OpenAICompatibleJudge, "stub")


WRITTEN = {
    "thoughts with a draft": f"<think>Perhaps {NO}?</think>{YES}",
    "thoughts without their beginning": f"Perhaps {NO}? No.</think>\n{YES}",
    "thoughts in capitals": f"<Reasoning>{NO}</Reasoning> {YES}",
    "thoughts after the answer": f"{YES} <think>Was it {NO}?</think>",
    "channels": f"<|channel|>analysis<|message|>{NO}<|end|><|channel|>final<|message|>{YES}",
    "a draft in a fenced block": f"```json\n{NO}\n```\nOn reflection: {YES}",
    "an object of another form after it": f'{YES}\n{{"confidence": 0.9}}',
    "braces in prose": f"The set {{a, b}} and {{x: , so {{it is {YES}",
    "a wrapper of one key": f'{{"answer": {YES}}}',
    "a trailing comma": '{"verdict": "yes", "reason": "r",}',
    "JSON5 in a fence": "```json5\n{verdict: 'yes', // so\n reason: 'r', }\n```",
    "a Python dict": "{'verdict': 'yes', 'reason': 'r'}",
    "a quoted tag": '{"verdict": "yes", "reason": "r"}',
}


@pytest.mark.parametrize("text", WRITTEN.values(), ids=WRITTEN)
def test_the_last_object_that_fits_is_the_answer_in_one_call(make: Make, text: str) -> None:
    with StubOpenAI(text) as stub:
        reply = anyio.run(make(api_base=stub.url).ask, TYPED)
    assert reply.value == Verdict(verdict="yes", reason="r")
    assert reply.attempts == 1


REASONS: dict[str, Any] = {
    '{"verdict": "yes"}': "",
    '{"verdict": "yes", "reason": null}': "",
    '{"verdict": "yes", "reason": 3}': "3",
    '{"verdict": "yes", "reason": ["a", "b"]}': "a b",
    '{"verdict": "yes", "reason": {"a": 1}}': '{"a": 1}',
    '{"verdict": "yes", "reason": "a\nb"}': "a\nb",
    '{"verdict": "yes", "reason": "it says </think> and <think>"}': "it says </think> and <think>",
    r'{"verdict": "yes", "reason": "half \ud83d"}': "half ?",
}


@pytest.mark.parametrize("text", REASONS)
def test_no_reason_costs_a_verdict(make: Make, text: str) -> None:
    with StubOpenAI(text) as stub:
        reply = anyio.run(make(api_base=stub.url).ask, TYPED)
    assert reply.value == Verdict(verdict="yes", reason=REASONS[text])
    assert reply.attempts == 1


def test_reasons_inside_of_lists_are_mended_and_verdicts_are_not() -> None:
    found, _ = parse_reply('{"verdicts": [{"verdict": "no"}, {"verdict": "yes", "reason": 1}]}', Verdicts)
    assert found is not None
    assert [verdict.reason for verdict in found.verdicts] == ["", "1"]
    assert parse_reply('{"verdicts": [{"reason": "r"}]}', Verdicts)[0] is None
    assert parse_reply('{"verdict": "perhaps", "reason": 1}', Verdict)[0] is None


class Claim(BaseModel):
    words: str = ""
    notes: list[str] = []
    step: int | str = 0
    verdict: Literal["yes", "no"]


def test_a_null_counts_as_left_out_and_not_as_a_verdict() -> None:
    claim = '{"words": null, "notes": null, "verdict": "yes"}'
    assert parse_reply(claim, Claim)[0] == Claim(verdict="yes")
    assert parse_reply(claim.replace('"yes"', "null"), Claim)[0] is None
    assert parse_reply('{"verdict": "yes", "step": null}', Claim)[0] is None
    assert parse_reply('{"verdict": "yes", "notes": [null]}', Claim)[0] is None


def test_the_arguments_of_a_tool_call_may_be_decoded() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "Verdict", "arguments": json.loads(YES)}}
    with StubOpenAI(Raw(message={"content": None, "tool_calls": [call]})) as stub:
        judge = OpenAICompatibleJudge("stub", api_base=stub.url)
        assert anyio.run(judge.ask, TYPED).value.verdict == "yes"


NONE_AT_ALL: list[tuple[Raw, type[JudgeError], int]] = [
    (Raw("", choice={"finish_reason": "insufficient_system_resource"}), JudgeUnavailableError, 6),
    (Raw(message={"content": None, "refusal": "I can't judge that."}), JudgeRefusalError, 1),
    (Raw("", choice={"finish_reason": "content_filter"}), JudgeRefusalError, 1),
    (Raw("I'm sorry, but I can't help with that."), JudgeRefusalError, 1),
    (Raw("Unfortunately, I'm unable to evaluate this."), JudgeRefusalError, 1),
    (Raw('{"verdict": "ye', choice={"finish_reason": "length"}), JudgeCutError, 1),
    (Raw("", choice={"finish_reason": "model_length"}), JudgeCutError, 1),
    (Raw("<think>First, the", choice={"finish_reason": "length"}), JudgeCutError, 1),
    (Raw(""), JudgeEmptyError, 6),
    (Raw(f"<think>{YES}</think>"), JudgeEmptyError, 6),
    (Raw(f"<think>{YES}"), JudgeEmptyError, 6),
]


@pytest.mark.parametrize(("act", "error", "calls"), NONE_AT_ALL)
def test_a_refusal_an_empty_and_a_cut_reply_are_named(
    make: Make, act: Raw, error: type[JudgeError], calls: int
) -> None:
    """A refusal or a cut would come again, so it is not repaired; an empty reply may be due to the form."""
    with StubOpenAI(act) as stub, pytest.raises(error) as caught:
        anyio.run(make(api_base=stub.url).ask, TYPED)
    assert caught.value.attempts == calls


def test_a_choice_without_a_message_is_read_by_its_finish_reason() -> None:
    with StubOpenAI(Raw(whole={"choices": [{"finish_reason": "length"}]})) as stub:
        judge = OpenAICompatibleJudge("stub", api_base=stub.url)
        with pytest.raises(JudgeCutError):
            anyio.run(judge.ask, TYPED)


def test_an_answer_that_was_cut_after_its_object_counts(make: Make) -> None:
    with StubOpenAI(Raw(f"{YES} And", choice={"finish_reason": "length"})) as stub:
        assert anyio.run(make(api_base=stub.url).ask, TYPED).value.verdict == "yes"


def test_texts_lose_their_thoughts_and_may_be_cut(make: Make) -> None:
    acts = [
        Raw("<think>hm</think> because", choice={"finish_reason": "length"}),
        "I cannot judge less: it is so",
    ]
    with StubOpenAI(acts) as stub:
        judge = make(api_base=stub.url)
        assert anyio.run(judge.ask, TEXT).value == "because"
        assert anyio.run(judge.ask, TEXT).value == "I cannot judge less: it is so"


PIECES = st.sampled_from(
    [
        "{",
        "}",
        '"',
        "'",
        "[",
        ":",
        ",",
        "<think>",
        "</think>",
        "//",
        "/*",
        "*/",
        "a",
        "\\",
        "\n",
        "```",
        "\ud800",
    ]
)


@given(st.lists(PIECES, max_size=40).map("".join))
def test_no_text_raises_or_becomes_a_verdict(text: str) -> None:
    assert parse_reply(text, Verdict)[0] is None
    found, _ = parse_reply(text.replace("<think>", "") + "</think>" + YES, Verdict)
    assert found == Verdict(verdict="yes", reason="r")


HOSTILE = [
    "{",
    '{"a":[',
    '{"a":',
    "<think>",
    "</think>",
    "{a:'",
    '{"a":"',
    "{a:1}",
    "{a:/*",
    '{"r":"</think>"}',
]


@pytest.mark.parametrize("piece", HOSTILE)
def test_no_text_takes_long_to_read(piece: str) -> None:
    text = piece * (390_000 // len(piece))
    began = time.thread_time()
    parse_reply(text, Verdict)
    assert time.thread_time() - began < 1.0
