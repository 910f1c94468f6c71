"""A judge that explores: what its looks show, their limits, and what is recorded of them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from otel_evals._internal.scorers.kit.explore import Look, RunView
from otel_evals._internal.scorers.kit.run_steps import RunStep, run_steps
from otel_evals._internal.scorers.kit.scorer import StepFailure
from otel_evals.errors import ConfigError, JudgeUnavailableError
from otel_evals.judges import (
    Budget,
    CachedJudge,
    LiteLLMJudge,
    OpenAICompatibleJudge,
    ScriptedJudge,
)
from otel_evals.model import NotScored, Run, Score
from otel_evals.scorers import toxicity
from tests.support.judge_scorers import reply_of
from tests.support.runs import a_run, tool
from tests.support.stepped_run import RUN, TRACE, span_id
from tests.support.stub_openai import StubOpenAI

CLEAN = reply_of("toxicity")
DONE = {"action": "answer"}


def judge(looks: list[Any], **settings: Any) -> ScriptedJudge:
    scripted = ScriptedJudge({"explore": looks, "analyze": CLEAN}, cost=0.5)
    for name, value in {"explore": True, **settings}.items():
        setattr(scripted, name, value)
    return scripted


def outcome(asked: ScriptedJudge, run: Run = RUN) -> Any:
    return anyio.run(toxicity(asked).score, run)


def look(run: Run | list[RunStep], **fields: Any) -> str:
    steps = run_steps(run) if isinstance(run, Run) else run
    return anyio.run(RunView(steps, str).answer, Look(**fields))[0]


def test_each_step_has_what_is_new_in_it() -> None:
    assert [(step.depth, dict(step.texts)) for step in run_steps(RUN)] == [
        (0, {"input": "user: When?"}),
        (1, {"system": "system: Be brief.", "output": 'assistant: [tool_call orders] {"id": 7}'}),
        (1, {"arguments": '{"id": 7}', "result": '{"ships": "Monday", "usd": 4}'}),
        (
            1,
            {
                "input": 'tool: [tool_result orders] {"ships": "Monday"}\nuser: When?',
                "output": "assistant: On Friday.",
            },
        ),
    ]


def test_a_run_without_operations_has_steps_too() -> None:
    run = a_run(tools=[tool("orders", "none left")], history=[("user", "Hi"), ("assistant", "Hello")])
    assert [step.title for step in run_steps(run)] == ["user", "assistant", "user", "tool orders", "answer"]


def test_looks_list_read_search_and_compare() -> None:
    assert look(RUN, action="list", step=2).splitlines()[1] == "3.   tool orders (59 characters)"
    assert look(RUN, action="read", step=3).splitlines()[-1] == '{"ships": "Monday", "usd": 4}'
    assert look(RUN, action="search", text="FRIDAY").startswith("step 4: ")
    assert look(RUN, action="search", text="Sunday") == "no step contains this text"
    values = [
        RunStep(title="a", texts={"result": text}) for text in ('{"a": [1, 2]}', '{"a": [1, 3], "b": 0}')
    ]
    assert look(values, action="compare", step=1, other=2) == ".a[1]: 2 is not 3\n.b: null is not 0"
    assert look(values, action="compare", step=1, other=1) == "their values are equal"


def test_a_long_text_is_read_in_parts() -> None:
    steps = [RunStep(title="tool", texts={"result": "x" * 9_000 + "end"})]
    parts = [look(steps, action="read", part=part) for part in (1, 2, 3)]
    assert [part.splitlines()[0] for part in parts] == [f"1. tool, part {n} of 3" for n in (1, 2, 3)]
    assert parts[2].endswith("end")
    assert look(steps, action="read", part=4) == "step 1 has the parts 1 to 3"


def test_long_lists_have_pages_and_wrong_numbers_an_explanation() -> None:
    steps = [RunStep(title=f"s{n}".ljust(32)) for n in range(1, 101)]
    assert look(steps, action="list").endswith("\n[21 more steps]")
    assert look(steps, action="list", step=80).splitlines()[-1].startswith("100. s100 ")
    for action in ("read", "list", "compare"):
        assert look(steps, action=action, step=0) == "there is no step 0; steps have the numbers 1 to 100"


def test_looks_of_deep_and_long_values_end() -> None:
    deep = RunStep(title="deep", texts={"result": "[" * 100_000})
    nested = RunStep(title="nested", texts={"result": "[" * 900 + "]" * 900})
    long = RunStep(title="long", texts={"result": "a" * 900_000 + "b"})
    longer = RunStep(title="longer", texts={"result": "a" * 900_000 + "c"})
    for left in range(1, 5):
        for right in range(1, 5):
            assert len(look([deep, nested, long, longer], action="compare", step=left, other=right)) < 500
    assert look([long, longer], action="compare", step=1, other=2).count("a" * 40) == 2


def test_a_judge_answers_with_what_it_saw_and_its_calls_are_recorded() -> None:
    asked = judge(
        [{"action": "list"}, {"action": "read", "step": 3}, {"action": "search", "text": "Friday"}, DONE]
    )
    found = outcome(asked)
    assert isinstance(found, Score)
    assert '"ships": "Monday"' in asked.requests[4].prompt
    names = [step.name for step in found.steps]
    assert names[:5] == [*(f"analyze.explore {n}" for n in (1, 2, 3, 4)), "analyze"]
    assert [step.links for step in found.steps[:4]] == [
        (),
        ((TRACE, span_id(3)),),
        ((TRACE, span_id(4)),),
        (),
    ]
    assert found.steps[1].result == {"action": "read", "step": 3}
    assert found.steps[1].context is not None
    assert (found.cost, found.usage.input_tokens) == (2.5, 500), "four looks and the answer"
    assert not found.evidence_cut


@pytest.mark.parametrize(
    ("limits", "reached", "looks"),
    [
        ({"calls": 2}, "calls=2", 2),
        ({"tokens": 200}, "tokens=200", 2),
        ({"seconds": 1e-9}, "seconds=1e-09", 0),
    ],
)
def test_a_limit_ends_it_without_a_guess(limits: dict[str, Any], reached: str, looks: int) -> None:
    asked = judge([{"action": "list"}], explore=limits)
    found = outcome(asked)
    assert isinstance(found, NotScored)
    assert found.reason == "evidence_too_long"
    assert (found.explanation or "").endswith(f"at the limit {reached}")
    assert [request.step for request in asked.requests] == ["explore"] * looks
    assert outcome(judge([{"action": "list"}], explore=limits, on_cut="score")).evidence_cut


def test_what_was_shown_stays_within_the_prompt() -> None:
    run = a_run(tools=[tool("read", "x" * 100_000)])
    asked = judge([{"action": "read", "step": 2}], max_prompt_chars=40_000, explore={"calls": 100})
    assert outcome(asked, run).explanation.endswith("max_prompt_chars")
    assert len(asked.requests) == 8
    assert all(len(request.prompt) < 42_000 for request in asked.requests)


def test_a_size_decides_and_a_cut_text_can_be_read() -> None:
    assert len(judge([DONE], explore={"above": 100}).requests) == 0
    short = judge([DONE], explore={"above": 100})
    outcome(short)
    assert [request.step for request in short.requests] == ["analyze"]
    end = {"action": "read", "step": 3, "part": 33}
    asked = judge([end, DONE], explore={"above": 1_000_000})
    found = outcome(asked, a_run("y" * 130_000 + "the end"))
    assert isinstance(found, Score), found
    assert "the end" in asked.requests[1].prompt
    assert "characters left out" in asked.requests[1].prompt


def test_calls_before_a_failure_are_paid_for_and_recorded() -> None:
    asked = judge([{"action": "list"}, JudgeUnavailableError("away")])
    with pytest.raises(Exception, match="away") as caught:
        outcome(asked)
    assert [step.name for step in caught.value.steps] == ["analyze.explore 1", "analyze"]  # type: ignore[attr-defined]


def test_secrets_are_redacted_before_a_text_is_cut_into_parts() -> None:
    secret = "sk-" + "a1" * 20
    run = a_run(tools=[tool("read", "x" * 3_980 + " " + secret)])
    asked = judge([{"action": "read", "step": 2}, {"action": "read", "step": 2, "part": 2}, DONE])
    outcome(asked, run)
    assert "a1a1" not in "".join(request.prompt for request in asked.requests)


def test_options_are_checked() -> None:
    with pytest.raises(ConfigError, match=r"judge.explore.calls: must be positive, not 0"):
        LiteLLMJudge("openai/m", explore={"calls": 0})
    with pytest.raises(ConfigError, match=r"judge.explore.depth: unknown option"):
        LiteLLMJudge("openai/m", explore={"depth": 1})
    with pytest.raises(ConfigError, match=r"judge.explore: must be true or options"):
        LiteLLMJudge("openai/m", explore="yes")  # type: ignore[arg-type]  # on purpose


# --- through HTTP, with limits of calls ---


def on_a_server(body: dict[str, Any]) -> Any:
    """A model that reads step 3 and then answers, in plain text around JSON."""
    prompt = body["messages"][-1]["content"]
    if "one look at a time" in prompt and "Answer the question now" not in prompt:
        seen = 'name="look 1"' in prompt
        return 'I do this: {"action": "answer"}' if seen else 'First {"action": "read", "step": 3}'
    return f"Now {json.dumps(CLEAN)}"


def test_models_explore_without_tool_calls_within_a_budget_and_a_cache() -> None:
    budget = Budget(tokens=1_000_000)
    with StubOpenAI(on_a_server) as stub:
        asked = OpenAICompatibleJudge(
            "stub",
            api_base=stub.url,
            max_tokens=100,
            limiters=(budget,),
            explore=True,
            structured_output="prompt",
        )
        scorer = toxicity(CachedJudge(asked))
        first, again = (anyio.run(scorer.score, RUN) for _ in range(2))
    assert isinstance(first, Score)
    assert isinstance(again, Score)
    assert len(stub.requests) == 3
    assert not any("tools" in request for request in stub.requests)
    assert first.steps[0].links == again.steps[0].links == ((TRACE, span_id(3)),)
    assert (first.usage.total_tokens, again.usage.total_tokens) == (3 * 140, 0)


class Noted:
    """A limiter that notes what calls may take."""

    def __init__(self) -> None:
        self.most: list[int] = []

    @asynccontextmanager
    async def around(self, call: Any) -> AsyncIterator[Any]:
        self.most.append(call.max_input_tokens + call.max_output_tokens)
        yield lambda usage, cost: None


def test_a_budget_ends_an_exploration_as_it_ends_any_call() -> None:
    def ask(stub: StubOpenAI, limiter: Any) -> Any:
        asked = OpenAICompatibleJudge(
            "stub",
            api_base=stub.url,
            max_tokens=100,
            limiters=(limiter,),
            explore=True,
            structured_output="prompt",
        )
        return anyio.run(toxicity(asked).score, RUN)

    with StubOpenAI(on_a_server) as stub:
        ask(stub, noted := Noted())
        with pytest.raises(StepFailure) as caught:
            ask(stub, Budget(tokens=noted.most[1] + 139))  # the first took 140
    assert caught.value.error_type == "BudgetExceededError"
    assert [step.usage.total_tokens for step in caught.value.steps] == [140, 0]
