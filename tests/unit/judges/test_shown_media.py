"""Judges see the images of a run, in fences, or the run is not scored."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from functools import partial
from typing import Any

import anyio
import pytest

from otel_evals.context import static
from otel_evals.judges import CachedJudge, LiteLLMJudge, OpenAICompatibleJudge, ScriptedJudge
from otel_evals.model import Media, Message, NotScored, Part, Run, Score
from otel_evals.scorers import (
    bias,
    classifier,
    grounded_in_tools,
    hallucination,
)
from tests.support.judge_scorers import reply_of
from tests.support.replacing import replace
from tests.support.runs import a_run, tool
from tests.support.stub_openai import StubOpenAI

PNG = b64encode(b"\x89PNG\r\n\x1a\n" + bytes(40)).decode()
WEBP = b64encode(b"RIFF\x00\x00\x00\x00WEBPVP8 ").decode()
PAGE = b64encode(b"<script>alert(1)</script>").decode()
IMAGE = Media(kind="image", mime_type="image/png", size=48, digest="sha256:abc", base64=PNG)
LINK = Media(kind="image", uri="https://cdn.example/lift.png")
SUPPORTED = {"analyze": reply_of("hallucination")}
ANSWERS = {"analyze": {"label": "right", "reason": "r"}}


def asking(*media: Media, text: str | None = "Is the lift in the picture broken?") -> Run:
    said = () if text is None else (Part(kind="text", text=text),)
    shown = tuple(Part(kind="media", media=each) for each in media)
    return replace(a_run("Yes."), input_messages=(Message(role="user", parts=(*said, *shown)),))


def rightness(judge: Any) -> Any:
    return classifier(judge, question="Is it right?", classes={"right": 1, "wrong": 0})


def outcome(judge: Any, run: Run) -> Score | NotScored:
    found: Score | NotScored = anyio.run(rightness(judge).score, run)
    return found


@pytest.fixture(params=["litellm", "openai-compatible"])
def make(request: pytest.FixtureRequest) -> Callable[..., Any]:
    if request.param == "litellm":
        return partial(LiteLLMJudge, "openai/stub")
    return partial(OpenAICompatibleJudge, "stub")


def test_images_follow_the_prompt_in_fences(make: Callable[..., Any]) -> None:
    with StubOpenAI({"label": "right", "reason": "r"}) as stub:
        judge = make(api_base=stub.url, images=True)
        assert isinstance(outcome(judge, asking(IMAGE, replace(IMAGE, base64=WEBP))), Score)
    (sent,) = stub.requests
    prompt, *rest = sent["messages"][-1]["content"]
    parts = [part if part["type"] != "text" else part["text"] for part in rest]
    mark = parts[0].split()[0].removeprefix("<data-")
    assert mark in sent["messages"][0]["content"], "the system message explains these fences"
    assert parts == [
        f'<data-{mark} name="media 1">',
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
        f"</data-{mark}>",
        f'<data-{mark} name="media 2">',
        {"type": "image_url", "image_url": {"url": f"data:image/webp;base64,{WEBP}"}},
        f"</data-{mark}>",
    ]
    assert '1. "image, image/png, 48 bytes, sha256:abc"' in prompt["text"]


@pytest.mark.parametrize(
    ("media", "images"),
    [
        (IMAGE, False),
        (LINK, True),
        (replace(IMAGE, base64=None), True),
        (replace(IMAGE, base64=PAGE), True),
        (replace(IMAGE, base64=PNG + "A" * 12_000_000), True),
        (Media(kind="audio", mime_type="audio/mpeg", base64=PAGE), True),
        (Media(kind="video", mime_type="video/mp4", base64=PNG), True),
        (Media(kind="file", mime_type="application/pdf", base64=PNG), True),
    ],
)
def test_a_run_whose_media_a_judge_is_not_shown_is_not_scored(media: Media, images: bool) -> None:
    judge = ScriptedJudge(ANSWERS, images=images)
    found = outcome(judge, asking(media))
    assert isinstance(found, NotScored)
    assert (found.reason, judge.requests) == ("media_not_shown", [])


def test_the_bytes_say_what_an_image_is() -> None:
    judge = ScriptedJudge(ANSWERS, images=True)
    assert isinstance(outcome(judge, asking(replace(IMAGE, base64=WEBP, mime_type="text/html"))), Score)
    assert judge.requests[0].media[0].raster_type == "image/webp"


def test_an_image_alone_is_a_question() -> None:
    assert isinstance(outcome(ScriptedJudge(ANSWERS, images=True), asking(IMAGE, text=None)), Score)


def test_a_question_about_the_answer_alone_needs_no_image_of_the_question() -> None:
    judge = ScriptedJudge({"analyze": reply_of("bias")})
    found: Any = anyio.run(bias(judge).score, asking(IMAGE))
    assert isinstance(found, Score)
    assert judge.requests[0].media == ()


def test_equal_words_about_another_image_are_another_question() -> None:
    judge = ScriptedJudge(ANSWERS, images=True)
    cached = CachedJudge(judge)
    for digest in ("sha256:abc", "sha256:def", "sha256:abc"):
        outcome(cached, asking(replace(IMAGE, digest=digest)))
    assert len(judge.requests) == 2


def looking(*media: Media) -> Run:
    """A run whose tool returned a screenshot, and twice the same."""
    shots = [each.in_result("image") for each in media]
    return a_run("The lift is broken.", tools=[tool("look", [*shots, "seen"]), tool("look", shots)])


def test_images_in_tool_results_are_shown_with_the_results() -> None:
    judge = ScriptedJudge(SUPPORTED, images=True)
    assert isinstance(anyio.run(hallucination(judge).score, looking(IMAGE)), Score)
    (asked,) = judge.requests
    assert asked.media == (IMAGE,)
    assert PNG not in asked.prompt
    assert '1. "image, image/png, 48 bytes, sha256:abc"' in asked.prompt


@pytest.mark.parametrize("image", [IMAGE, replace(IMAGE, base64=None)])
def test_tool_results_with_images_that_a_judge_is_not_shown_are_not_judged(image: Media) -> None:
    judge = ScriptedJudge(SUPPORTED, images=image is not IMAGE)
    found: Any = anyio.run(hallucination(judge).score, looking(image))
    assert (found.reason, len(judge.requests)) == ("media_not_shown", 0)
    own = ScriptedJudge(SUPPORTED)
    assert isinstance(anyio.run(hallucination(own, get_context=static("c")).score, looking(image)), Score)


def test_a_fact_that_may_be_in_an_image_is_not_called_invented() -> None:
    state = tool("state", {"lift": 12})
    for run in (replace(asking(IMAGE), tool_calls=(state,)), looking(IMAGE)):
        found: Any = anyio.run(grounded_in_tools().score, replace(run, output="Lift 4711 is broken."))
        assert found.reason == "media_not_shown"


def test_a_judge_that_sees_images_is_another_version(make: Callable[..., Any]) -> None:
    blind, seeing = (rightness(make(images=images)).version for images in (False, True))
    assert blind != seeing == rightness(CachedJudge(make(images=True))).version
