"""What the recorded cases mean in our records, where the recordings at hand do not say it themselves."""

from __future__ import annotations

from typing import Any

import pytest

from tests.oracle.__main__ import ours
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
