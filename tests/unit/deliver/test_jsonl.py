"""The JSONL destination: whole evaluations, one line each run, readable back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic import BaseModel

from otel_evals.destinations import JsonlDestination, read_jsonl
from otel_evals.errors import ConfigError, DestinationError
from otel_evals.model import Direction, Score, ScoredRun, StepRecord
from tests.support.replacing import replace
from tests.support.scored import JUDGED, SPAN, TRACE, scored_run
from tests.support.waits import SECONDS


def write(path: Path, *runs: ScoredRun, content: bool = True) -> list[dict[str, Any]]:
    async def export() -> None:
        destination = JsonlDestination(path, content=content)
        await destination.export(runs)
        await destination.shutdown()

    anyio.run(export)
    return list(read_jsonl(path))


def test_a_line_holds_the_run_and_its_evaluations_whole(tmp_path: Path) -> None:
    (record,) = write(tmp_path / "scores.jsonl", scored_run())
    assert {
        k: record[k] for k in ("trace_id", "span_id", "service", "agent", "duration", "input", "output")
    } == {
        "trace_id": TRACE,
        "span_id": SPAN,
        "service": "shop",
        "agent": "support",
        "duration": 2.0,
        "input": "Where is my order 1042?",
        "output": "It ships on Monday for $12.50.",
    }
    judged, covered, not_scored, failed, dropped = record["evaluations"]
    assert judged | {"steps": ...} == {
        "evaluation_id": f"{TRACE[:8]}-{SPAN}-hallucination-1f3a",
        "rule": "hallucination",
        "scorer": "hallucination",
        "version": "1f3a",
        "direction": "higher_is_better",
        "scale": 1.0,
        "trace_id": TRACE,
        "span_id": SPAN,
        "conversation_id": None,
        "status": "scored",
        "value": 0.25,
        "label": "unsupported",
        "operation": None,
        "review": None,
        "explanation": "$12.50 is in no tool result",
        "reason": None,
        "verdict": None,
        "effect": None,
        "message": None,
        "sampling": {"probability": 0.25, "rule": "ratio(0.25)"},
        "duration": 0.0,
        "attempts": 1,
        "revision": 1,
        "time": 1_700_000_002_500_000_000,
        "cost": 0.00042,
        "evidence_cut": False,
        "usage": {
            "input_tokens": 100,
            "output_tokens": 7,
            "cache_read_tokens": 0,
            "cache_write_tokens": 0,
            "reasoning_tokens": 0,
        },
        "steps": ...,
    }
    assert judged["steps"][1]["result"] == {"verdicts": ["no"]}
    assert judged["steps"][1]["context"] == {
        "digest": "ab" * 32,
        "pieces": 1,
        "truncated": False,
        "text": ["order 1042 costs $15.20"],
    }
    assert (covered["value"], covered["cost"]) == (1.0, None)
    assert (not_scored["status"], not_scored["reason"]) == ("not_scored", "no_tool_calls")
    assert (failed["status"], failed["reason"]) == ("failed", "timeout")
    assert failed["message"] == "no answer in 30 s"
    assert (dropped["status"], dropped["reason"], dropped["steps"]) == ("dropped", "queue_full", [])


def test_without_content_nothing_that_was_said_is_written(tmp_path: Path) -> None:
    path = tmp_path / "scores.jsonl"
    (record,) = write(path, scored_run(), content=False)
    for words in ("1042", "12.50", "Is it so", "15.20", "verdicts", "no answer"):
        assert words not in path.read_text()
    assert record["evaluations"][0]["steps"][1]["context"]["digest"] == "ab" * 32
    assert record["evaluations"][0]["value"] == 0.25


class Verdict(BaseModel):
    supported: bool


@dataclass
class Claim:
    text: str
    weight: float


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (float("nan"), None),
        pytest.param(10**5_000, None, id="too many digits"),
        ([float("inf"), 1.5], [None, 1.5]),
        (Verdict(supported=True), {"supported": True}),
        ([Claim("a", float("-inf"))], [{"text": "a", "weight": None}]),
        ({Direction.LOWER: {1}}, {"lower_is_better": [1]}),
        (b"\x00\xff", "00ff"),
        (complex(1, 2), "(1+2j)"),
        ("line one\nline two\u2028\ud800", "line one\nline two\u2028?"),
        (2**70, 2**70),
    ],
)
def test_any_step_result_becomes_json(tmp_path: Path, result: Any, expected: Any) -> None:
    score = replace(JUDGED, steps=(StepRecord(name="analyze", result=result),))
    (record,) = write(tmp_path / "s.jsonl", scored_run(outcomes={"hallucination": score}))
    assert record["evaluations"][0]["steps"][0]["result"] == expected


def test_a_value_with_too_many_levels_is_cut_off(tmp_path: Path) -> None:
    deep: list[Any] = []
    for _ in range(3_000):
        deep = [deep]
    score = replace(JUDGED, steps=(StepRecord(name="analyze", result=deep),))
    (record,) = write(tmp_path / "s.jsonl", scored_run(outcomes={"hallucination": score}))
    level, levels = record["evaluations"][0]["steps"][0]["result"], 0
    while level:
        (level,), levels = level, levels + 1
    assert (level, levels) == (None, 101)


def test_a_score_that_is_not_finite_is_null(tmp_path: Path) -> None:
    (record,) = write(tmp_path / "s.jsonl", scored_run(outcomes={"odd": Score(value=float("nan"))}))
    assert record["evaluations"][0]["value"] is None


def test_a_line_cut_off_by_a_crash_costs_only_itself(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "scores.jsonl"
    write(path, scored_run(0), scored_run(1))
    path.write_bytes(path.read_bytes()[:-20])
    records = write(path, scored_run(2))
    assert [r["trace_id"] for r in records] == [scored_run(n).run.trace_id for n in (0, 2)]
    assert "line 2 is not complete" in caplog.text


def test_a_full_disk_is_worth_another_try() -> None:
    async def export() -> None:
        destination = JsonlDestination("/dev/full")
        try:
            await destination.export([scored_run()])
        finally:
            await destination.shutdown()

    with pytest.raises(DestinationError, match="No space left") as caught:
        anyio.run(export)
    assert caught.value.retryable


@pytest.mark.parametrize(("path", "problem"), [(".", "is a folder"), ("no/such/folder/x", "does not exist")])
def test_an_impossible_path_is_refused_when_built(path: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=f"^path: .*{problem}"):
        JsonlDestination(path)


def test_several_processes_can_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "scores.jsonl"
    script = (
        "import sys, anyio\n"
        "from otel_evals.destinations import JsonlDestination\n"
        "from tests.support.scored import scored_run\n"
        "async def main():\n"
        "    d = JsonlDestination(sys.argv[1])\n"
        "    for n in range(40):\n"
        "        await d.export([scored_run(n), scored_run(n)])\n"
        "    await d.shutdown()\n"
        "anyio.run(main)\n"
    )
    root = Path(__file__).parents[3]
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])}
    writers = [subprocess.Popen([sys.executable, "-c", script, str(path)], env=env) for _ in range(2)]
    assert [writer.wait(SECONDS) for writer in writers] == [0, 0]
    # A process that opens the file during another's write starts on a new line, which may leave an empty one.
    lines = [line for line in path.read_text().splitlines() if line]
    assert len([json.loads(line) for line in lines]) == 160
