"""`otel-evals runs` prints trees for people and JSON lines for programs."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from otel_evals._internal.cli.app import app
from tests.support.result_records import record


def messages(role: str, text: str) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])


def write(path: Path, **attributes: str) -> Path:
    given = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "support", **attributes}
    pairs = [{"key": key, "value": {"stringValue": value}} for key, value in given.items()]
    span = {"traceId": "ab" * 16, "spanId": "cd" * 8, "name": "invoke_agent", "attributes": pairs}
    times = {"startTimeUnixNano": "1000000000", "endTimeUnixNano": "3500000000"}
    request = {"resourceSpans": [{"scopeSpans": [{"scope": {"name": "lib"}, "spans": [{**span, **times}]}]}]}
    path.write_text(json.dumps(request))
    return path


def run_command(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["runs", *arguments])


def test_a_run_is_one_json_object_and_line(tmp_path: Path) -> None:
    said = {
        "gen_ai.input.messages": messages("user", "Hi"),
        "gen_ai.output.messages": messages("assistant", "Hello"),
    }
    done = run_command("--json", str(write(tmp_path / "a.json", **said)))
    assert done.exit_code == 0, done.stderr
    (line,) = done.stdout.splitlines()
    run: dict[str, Any] = json.loads(line)
    assert (run["trace_id"], run["root_span_id"]) == ("ab" * 16, "cd" * 8)
    assert (run["agent_name"], run["input"], run["output"], run["error"]) == ("support", "Hi", "Hello", None)
    assert (run["tool_calls"], run["documents"], run["models"]) == ([], [], [])
    assert set(run["usage"].values()) == {0}
    assert {"cache_read_tokens", "reasoning_tokens"} <= run["usage"].keys()
    assert run["availability"]["input"] == "present"
    assert run["duration"] == 2.5


def test_scored_runs_of_the_jsonl_destination_are_listed(tmp_path: Path) -> None:
    failed = record(2, None, status="not_scored", reason="no_claims") | {"input": "Hi [/]", "agent": None}
    records = [record(1, 0.25) | {"output": "It costs 3 EUR."}, failed]
    (path := tmp_path / "scores.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in records))
    done = run_command("--json", str(path))
    assert [json.loads(line) for line in done.stdout.splitlines()] == records, done.stderr
    shown = " ".join(run_command(str(path)).stdout.split())
    assert f"support {records[0]['trace_id']}" in shown
    assert "answer It costs 3 EUR." in shown
    assert "grounded 0.250 explained 1" in shown
    assert "user Hi [/]" in shown
    assert "grounded not_scored: no_claims" in shown
    assert "2 runs" in shown
    # As `report` reads them: compressed, and with the byte-order mark of some editors.
    packed = gzip.compress(b"\xef\xbb\xbf" + path.read_bytes())
    path.write_bytes(packed)
    assert "2 runs" in run_command(str(path)).stdout
    path.write_bytes(packed[:-4])
    assert "2 runs" in run_command(str(path)).stdout


def test_a_file_that_is_no_otlp_ends_with_status_2_and_its_name(tmp_path: Path) -> None:
    (path := tmp_path / "notes.txt").write_text("hello")
    done = run_command(str(path))
    assert done.exit_code == 2
    assert str(path) in done.stderr


def test_people_see_a_tree_with_what_was_said_and_what_is_missing(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.json",
        **{"gen_ai.input.messages": messages("user", "Where is [bold]it[/]? password=hunter22")},
    )
    shown = run_command(str(path)).stdout
    assert "hunter22" not in shown + run_command("--json", str(path)).stdout
    assert "support" in shown
    assert "Where is [bold]it[/]?" in shown
    assert "(not_recorded)" in shown
    assert "1 run" in shown


def test_nan_in_an_argument_is_null(tmp_path: Path) -> None:
    call = {"type": "tool_call", "id": "c", "name": "t", "arguments": {"x": float("nan")}}
    said = {"gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": [call]}])}
    done = run_command("--json", str(write(tmp_path / "a.json", **said)))
    run = json.loads(done.stdout, parse_constant=pytest.fail)
    assert run["tool_calls"][0]["arguments"] == {"x": None}
