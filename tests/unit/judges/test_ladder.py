"""The ladder of structured output, against servers that refuse or ignore some of its rungs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from otel_evals.errors import ConfigError, JudgeError, JudgeModelError, JudgeReplyError, JudgeUnavailableError
from otel_evals.judges import JudgeLimits, JudgeRequest, LiteLLMJudge, OpenAICompatibleJudge
from tests.support.stub_openai import CallTool, Misbehave, StubOpenAI

Make = Callable[..., LiteLLMJudge | OpenAICompatibleJudge]
RUNGS = ("json_schema", "json_object_schema", "tool", "json_object", "prompt")


class Verdict(BaseModel):
    verdict: str


class Other(BaseModel):
    verdict: str


def question(schema: type[BaseModel] = Verdict) -> JudgeRequest:
    return JudgeRequest(instructions="Judge.", prompt="Is it so?", schema=schema)


def rung_of(body: Mapping[str, Any]) -> str:
    """Return the rung that a request is on."""
    form = body.get("response_format", {})
    if form.get("type") == "json_object":
        return "json_object_schema" if "schema" in form else "json_object"
    return "tool" if "tools" in body else form.get("type", "prompt")


class Server(StubOpenAI):
    """Gives each rung an act of its own; others answer as they should."""

    def __init__(self, **acts: Any) -> None:
        self.acts = acts
        super().__init__(self.act)

    def act(self, body: dict[str, Any]) -> Any:
        rung, good = rung_of(body), {"verdict": "yes"}
        act = self.acts.get(rung, CallTool("Verdict", good) if rung == "tool" else good)
        if isinstance(act, tuple):
            status, self.error_text = act
            return Misbehave("status", status)
        return act

    @property
    def rungs(self) -> list[str]:
        return [rung_of(request) for request in self.requests]


@pytest.fixture(params=["litellm", "openai-compatible"])
def make(request: pytest.FixtureRequest) -> Make:
    if request.param == "litellm":
        return partial(LiteLLMJudge, "openai/stub")
    return partial(OpenAICompatibleJudge, "stub")


def ask(judge: Any, *schemas: type[BaseModel]) -> list[str]:
    async def each() -> list[str]:
        return [(await judge.ask(question(schema))).value.verdict for schema in schemas or (Verdict,)]

    return anyio.run(each)


RECORDED = {
    "llama-cpp-python 0.3.36": (500, "{'type': 'literal_error', 'loc': ('body', 'response_format', 'type')}"),
    "ik_llama.cpp": (
        500,
        'response_format type must be one of "text" or "json_object", but got: json_schema',
    ),
    "DeepSeek": (400, "This response_format type is unavailable now"),
    "DeepSeek, 2025": (422, "response_format.type `json_schema` is unavailable now"),
    "OpenRouter": (404, "No endpoints found that support the requested parameters"),
    "any other": (501, "not implemented"),
}
"""Statuses and messages with which servers refuse a form of answer."""


@pytest.mark.parametrize("refusal", RECORDED.values(), ids=RECORDED)
def test_a_refused_form_leads_to_the_next_one_and_is_not_tried_again(make: Make, refusal: Any) -> None:
    with Server(json_schema=refusal) as server:
        judge = make(api_base=server.url, limiters=(JudgeLimits(failures=1),))
        assert ask(judge, Verdict, Verdict) == ["yes", "yes"], "and no refusal opened the circuit breaker"
    assert server.rungs == ["json_schema", "json_object_schema", "json_object_schema"]


_NO_VALUE = "Failed to deserialize the JSON body into the target type: response_format: missing field `value`"
_NO_JSON_MODE = "'response_format.type' must be 'json_schema' or 'text'"
_NO_PARSER = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
_IGNORED = "I think so."
HOSTED = {
    "LM Studio, a model without the form": (_IGNORED, (400, _NO_JSON_MODE)),
    "Ollama, a model without tools": (_IGNORED, '{"other": 1}', (400, "stub does not support tools")),
    "TGI": ((422, _NO_VALUE), (422, _NO_VALUE)),
    "vLLM without a tool parser": (_IGNORED, _IGNORED, (400, _NO_PARSER)),
}
"""What servers that people host do on the upper rungs: statuses and messages, or answers that do not fit."""


@pytest.mark.parametrize("acts", HOSTED.values(), ids=HOSTED)
def test_servers_that_people_host_answer_on_the_next_rung(make: Make, acts: tuple[Any, ...]) -> None:
    with Server(**dict(zip(RUNGS, acts, strict=False))) as server:
        judge = make(api_base=server.url, limiters=(JudgeLimits(failures=1),))
        assert ask(judge, *[Verdict] * 4) == ["yes"] * 4
    works = RUNGS[len(acts)]
    searches = 3 if _IGNORED in acts else 1
    assert server.rungs == [*RUNGS[: len(acts)], works] * searches + [works] * (4 - searches)


@pytest.mark.parametrize("works", RUNGS)
def test_every_rung_may_be_the_one_that_works(make: Make, works: str) -> None:
    above = RUNGS[: RUNGS.index(works)]
    with Server(**dict.fromkeys(above, (400, "no"))) as server:
        again = make(api_base=server.url)
        assert ask(make(api_base=server.url)) == ask(again) == ["yes"], "judges of a server share its memory"
    assert server.rungs == [*above, works, works]
    shown = ["JSON schema" in prompt for prompt in server.prompts]
    assert shown == [rung not in ("json_schema", "tool") for rung in server.rungs]


def test_another_form_begins_at_the_rung_that_has_worked(make: Make) -> None:
    with Server(json_schema=(400, "no")) as server:
        assert ask(make(api_base=server.url), Verdict, Other) == ["yes", "yes"]
    assert server.rungs == ["json_schema", "json_object_schema", "json_object_schema"]


def test_a_form_that_works_is_repaired_once(make: Make) -> None:
    with Server() as server:
        judge = make(api_base=server.url)
        ask(judge)
        server.acts["json_schema"] = '{"other": 1}'
        with pytest.raises(JudgeReplyError, match="verdict: Field required") as caught:
            ask(judge)
    assert server.rungs == ["json_schema"] * 3
    assert "verdict: Field required" in server.prompts[2]
    assert '{"other": 1}' in server.prompts[2]
    assert caught.value.attempts == 2


def test_an_answer_that_never_fits_says_what_came_back_and_ends_the_search(make: Make) -> None:
    said = "my key is sk-abcdefghijklmnopqrstuvwxyz " + "x" * 1000
    with Server(**dict.fromkeys(RUNGS, said)) as server:
        judge = make(api_base=server.url)
        with pytest.raises(JudgeReplyError, match="answered: 'my key is") as caught:
            ask(judge)
        assert server.rungs == [*RUNGS, "prompt"]
        with pytest.raises(JudgeReplyError):
            ask(judge)
    assert server.rungs[6:] == ["prompt", "prompt"], "a search that failed is not repeated at once"
    assert "sk-abc" not in str(caught.value)
    assert len(str(caught.value)) < 500
    assert caught.value.attempts == 6
    assert caught.value.usage is not None
    assert caught.value.usage.output_tokens == 120


# --- outages ---


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_server_that_is_unavailable_is_asked_once(make: Make, status: int) -> None:
    with Server(json_schema=(status, "busy")) as server:
        with pytest.raises(JudgeUnavailableError):
            ask(make(api_base=server.url))
        assert server.rungs == ["json_schema"]
        server.acts.clear()
        assert ask(make(api_base=server.url)) == ["yes"]
    assert server.rungs == ["json_schema"] * 2, "nothing was learnt from it"


def test_a_server_that_fails_in_every_form_is_searched_once(make: Make) -> None:
    with Server(**dict.fromkeys(RUNGS, (500, "out of memory"))) as server:
        judge = make(api_base=server.url)
        for _ in range(4):
            with pytest.raises(JudgeUnavailableError, match="500"):
                ask(judge)
        assert server.rungs == [*RUNGS, *["prompt"] * 3]
        server.acts.clear()
        assert ask(judge) == ["yes"]


@pytest.mark.parametrize("act", [(500, "out of memory"), (400, "see 'failed_generation'"), _IGNORED])
def test_one_failure_that_is_no_refusal_does_not_lower_the_form_for_good(make: Make, act: Any) -> None:
    with Server(json_schema=act) as server:
        judge = make(api_base=server.url)
        assert ask(judge) == ["yes"]
        server.acts.clear()
        assert ask(judge, Verdict, Verdict) == ["yes", "yes"]
    assert server.rungs == ["json_schema", "json_object_schema", "json_schema", "json_schema"]


def test_a_form_that_always_fails_is_given_up_after_three_questions(make: Make) -> None:
    with Server(json_schema=(500, "out of memory")) as server:
        judge = make(api_base=server.url)
        assert ask(judge, *[Verdict] * 5) == ["yes"] * 5
    assert server.rungs == ["json_schema", "json_object_schema"] * 3 + ["json_object_schema"] * 2


def test_a_form_that_worked_and_fails_is_an_outage(make: Make) -> None:
    with Server() as server:
        judge = make(api_base=server.url)
        ask(judge)
        server.acts["json_schema"] = (500, "out of memory")
        with pytest.raises(JudgeUnavailableError):
            ask(judge)
    assert server.rungs == ["json_schema"] * 2


def test_a_server_that_changed_is_searched_again(make: Make) -> None:
    with Server() as server:
        judge = make(api_base=server.url)
        ask(judge)
        server.acts["json_schema"] = (400, "the generated JSON does not match the schema")
        assert ask(judge, *[Verdict] * 5) == ["yes"] * 5
    counts = Counter(server.rungs[1:])
    assert counts == {"json_schema": 3, "json_object_schema": 5}, "forgotten after three refusals"


@pytest.mark.parametrize(
    ("message", "error"),
    [
        ("The model `stub` does not exist.", JudgeModelError),
        ("This model's maximum context length is 4096 tokens", JudgeError),
    ],
)
def test_a_refusal_for_another_reason_is_not_repeated_in_other_forms(
    make: Make, message: str, error: type[JudgeError]
) -> None:
    status = 404 if error is JudgeModelError else 400
    with Server(json_schema=(status, message)) as server, pytest.raises(error) as caught:
        ask(make(api_base=server.url))
    assert not isinstance(caught.value, JudgeUnavailableError)
    assert server.rungs == ["json_schema"]


ACT = st.sampled_from(
    [None, (400, "no"), (500, "response_format tools"), (422, "no"), "prose", '{"other": 1}']
)


@settings(max_examples=20)
@given(st.fixed_dictionaries(dict.fromkeys(RUNGS, ACT)))
def test_a_question_is_answered_if_any_rung_works(acts: dict[str, Any]) -> None:
    """Within six calls for the first question, and one for the next unless a rung was only ignored."""
    works = next((rung for rung in RUNGS if acts[rung] is None), None)
    with Server(**{rung: act for rung, act in acts.items() if act is not None}) as server:
        judge = OpenAICompatibleJudge("stub", api_base=server.url)
        if works is None:
            with pytest.raises(JudgeError):
                ask(judge)
        else:
            assert ask(judge, Verdict, Verdict) == ["yes", "yes"]
    search = [*RUNGS]
    if works is not None:
        search = [*RUNGS[: RUNGS.index(works) + 1]]
        ignored = any(isinstance(acts[rung], str) for rung in search)
        search += search if ignored else [works]
    last = acts["prompt"]  # repaired, or asked again without a temperature
    again = works is None and (isinstance(last, str) or last[0] < 500)
    assert server.rungs == search + ["prompt"] * again


# --- set by the user ---


def test_a_form_that_is_set_is_the_only_one(make: Make) -> None:
    with Server(json_object=(400, "no")) as server:
        assert ask(make(api_base=server.url, structured_output="tool")) == ["yes"]
        with pytest.raises(JudgeError, match="no"):
            ask(make(api_base=server.url, structured_output="json_object"))
    assert server.rungs == ["tool", "json_object"]


def test_an_unknown_form_is_rejected_with_the_known_ones(make: Make) -> None:
    with pytest.raises(ConfigError, match="json_object_schema, tool"):
        make(structured_output="xml")
