"""What the recorded cases mean in our records, where the recordings at hand do not say it themselves."""

from __future__ import annotations

from typing import Any

import pytest

from tests.oracle.__main__ import judge, ours
from tests.oracle.cases import case_of, run_of


def trajectory(options: dict[str, Any], *steps: dict[str, Any]) -> Any:
    run = {"output": {"steps": steps}}
    return judge_raw({"scorer": "trajectory-code", "options": {"defaults": options}, "run": run})


def judge_raw(raw: dict[str, Any]) -> Any:
    return ours(case_of({"id": "x", "kind": "code", "expected": {}, **raw}))


@pytest.mark.parametrize(("expected", "value"), [("mcp_tool_call", 0.0), ("tool_call", 1.0)])
def test_a_step_of_another_type_is_no_match(expected: str, value: float) -> None:
    plan = {"steps": [{"name": "a", "stepType": expected}]}
    assert trajectory(plan, {"name": "a", "stepType": "tool_call"}).value == value


@pytest.mark.parametrize(("durations", "how"), [((60, 20), "score"), ((60, None), "not_scored")])
def test_a_duration_budget_is_judged_where_durations_are_told(
    durations: tuple[int | None, ...], how: str
) -> None:
    steps = [
        {"name": f"s{n}", "stepType": "tool_call", **({} if d is None else {"durationMs": d})}
        for n, d in enumerate(durations)
    ]
    assert trajectory({"maxTotalDurationMs": 100}, *steps).how == how
    if how == "score":
        over = trajectory({"maxTotalDurationMs": 40}, *steps)
        assert over.value < trajectory({"maxTotalDurationMs": 100}, *steps).value == 1.0


@pytest.mark.parametrize(("state", "calls"), [("partial-call", 0), ("call", 1), ("result", 1)])
def test_an_invocation_that_is_still_streaming_is_no_call(state: str, calls: int) -> None:
    invocation = {"toolName": "a", "toolCallId": "1", "args": {}, "state": state}
    content = {"content": "so", "parts": [{"type": "tool-invocation", "toolInvocation": invocation}]}
    output = [{"role": "assistant", "content": {**content, "toolInvocations": [invocation]}}]
    assert len(run_of({"output": output}).tool_calls) == calls


def test_a_reply_that_is_no_json_gets_one_repair() -> None:
    replies = {"analyze": {"$sequence": ["no JSON", {"verdicts": [{"verdict": "no"}]}]}}
    output = [{"role": "assistant", "content": {"content": "so", "parts": []}}]
    raw = {"scorer": "toxicity", "run": {"output": output}, "step_replies": replies}
    assert judge_raw(raw).value == 0.0
    assert judge_raw({**raw, "step_replies": {"analyze": {"$sequence": ["no", "neither"]}}}).how == "failed"


def said(*messages: dict[str, Any]) -> dict[str, Any]:
    question = {"role": "user", "content": {"content": "Where is the ferry?"}}
    output = [{"role": "assistant", "content": content} for content in messages]
    return {"input": {"inputMessages": [question]}, "output": output}


def verdict(raw: dict[str, Any]) -> str:
    return judge(case_of({"id": "x", "kind": "code", **raw}))[0]


CALL = {"toolCallId": "c1", "toolName": "ferries", "args": {}, "state": "result", "result": {"ok": True}}


@pytest.mark.parametrize(("score", "expected"), [(0, "deviating"), (0.2, "different"), (1, "equal")])
def test_a_call_in_the_parts_of_a_message_is_a_call(score: float, expected: str) -> None:
    parts = {"parts": [{"type": "tool-invocation", "toolInvocation": CALL}]}
    raw = {"scorer": "tool-call-accuracy-code", "options": {"expectedTool": "ferries"}, "run": said(parts)}
    assert verdict({**raw, "expected": {"score": score}}) == expected


@pytest.mark.parametrize(
    ("call", "score", "expected"),
    [
        ({"state": "call"}, 0, "deviating"),
        ({"state": "call"}, 0.2, "different"),
        ({"state": "output-error"}, 0, "equal"),
        ({"state": "result", "result": {}}, 0, "different"),
    ],
)
def test_a_call_without_a_result_has_not_failed(call: dict[str, Any], score: float, expected: str) -> None:
    run = said({"content": "x", "toolInvocations": [{"toolCallId": "c1", "toolName": "ferries", **call}]})
    raw = {"kind": "check", "scorer": "check", "fn": "noToolErrors", "args": [], "run": run}
    assert verdict({**raw, "expected": {"score": score}}) == expected


@pytest.mark.parametrize("contents", [[], [{"content": ""}]])
def test_a_run_without_calls_and_without_an_answer_is_not_scored(contents: list[dict[str, Any]]) -> None:
    reply = {"analyze": {"evaluations": [], "missingTools": []}, "generateReason": "because"}
    raw = {
        "kind": "llm",
        "scorer": "tool-call-accuracy-llm",
        "options": {"availableTools": [{"id": "ferries"}]},
    }
    raw |= {"run": said(*contents), "step_replies": reply, "expected": {"error": {"message": "no output"}}}
    assert verdict(raw) == "equal"
