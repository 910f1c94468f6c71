"""What was recorded may hold escape sequences: no command prints them, to a terminal or not."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from otel_evals._internal.cli.app import app
from otel_evals._internal.cli.runs import _tree
from otel_evals._internal.cli.terminal import json_text, log_visibly
from otel_evals._internal.otlp.files import read_traces
from otel_evals._internal.read.runs import read_runs
from otel_evals.conventions import load_conventions

STEERS = "\x1b]0;title\x07\x1b[31m\x9b2J\u202e\x00\r\x08\U000e0041"
TRACE = "1" * 32
STEERING = set("\x1b\x07\x9b\u202e\x00\x08\U000e0041")

SCORERS = """
from otel_evals import NotScored, Score, scorer

@scorer(version="1")
def labelled(run):
    return Score(value=0.5, label=run.output, explanation=run.output)

@scorer(version="1")
def failing(run):
    raise ValueError(run.output)

@scorer(version="1")
def reasoned(run):
    return NotScored(reason=run.output[:60], explanation=run.output)
"""


def said(role: str) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": f"so{STEERS}"}]}])


def span(number: int, parent: str, attributes: dict[str, str]) -> dict[str, Any]:
    return {
        "traceId": TRACE,
        "spanId": f"{number:016x}",
        "parentSpanId": parent,
        "name": f"s{STEERS}",
        "startTimeUnixNano": "1700000000000000000",
        "endTimeUnixNano": "1700000001000000000",
        "attributes": [{"key": k, "value": {"stringValue": v}} for k, v in attributes.items()],
        "status": {"code": 2, "message": f"no{STEERS}"},
    }


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With a recorded run, scorers that repeat what was said, and a configuration."""
    agent = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": f"a{STEERS}",
        "gen_ai.conversation.id": f"c{STEERS}",
        "gen_ai.input.messages": said("user"),
        "gen_ai.output.messages": said("assistant"),
    }
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": f"t{STEERS}"}
    model = {"gen_ai.operation.name": "chat", "gen_ai.request.model": f"m{STEERS}"}
    top = f"{1:016x}"
    spans = [span(1, "", agent), span(2, top, tool), span(3, top, model)]
    scope = {"scope": {"name": "app"}, "spans": spans}
    request = {"resourceSpans": [{"resource": {}, "scopeSpans": [scope]}]}
    (tmp_path / "run.json").write_text(json.dumps(request), encoding="utf-8")
    (tmp_path / "odd_scorers.py").write_text(SCORERS, encoding="utf-8")
    rules = "".join(f"  - scorer: python:odd_scorers:{n}\n" for n in ("labelled", "failing", "reasoned"))
    places = f"  - jsonl: {{path: {tmp_path}/out.jsonl}}\n  - results: {{path: {tmp_path}/out.db}}\n"
    (tmp_path / "odd.yaml").write_text(f"rules:\n{rules}destinations:\n{places}", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_no_command_steers_the_terminal(folder: Path) -> None:
    recorded, config = str(folder / "run.json"), str(folder / "odd.yaml")
    for command in (
        ["score", recorded, "--config", config],
        ["score", recorded, "--config", config, "--json"],
        ["runs", recorded],
        ["explain", TRACE, "--scores", str(folder / "out.jsonl")],
        ["report", str(folder / "out.db")],
        ["report", str(folder / "out.jsonl")],
        ["config", "check", config],
    ):
        done = CliRunner().invoke(app, command)
        assert done.output, command
        assert not STEERING.intersection(done.output), (command, done.output)


def test_nor_does_the_tree_of_a_run_on_a_terminal(folder: Path) -> None:
    (run,) = read_runs(read_traces([str(folder / "run.json")]), load_conventions())
    console = Console(force_terminal=True, no_color=True, width=200)
    with console.capture() as printed:
        console.print(_tree(run))
    assert "so" in printed.get()
    assert not (STEERING - {"\x1b"}).intersection(printed.get())
    assert "\x1b]" not in printed.get()


def test_json_says_the_same_with_nothing_raw_in_it() -> None:
    value = {"a": f"日本{STEERS}", "b": "\ud800\u2028"}
    assert json.loads(json_text(value)) == value
    assert json_text(value).isprintable()
    assert "日本" in json_text(value)


def test_log_lines_are_printed_without_them(capsys: pytest.CaptureFixture[str]) -> None:
    log_visibly()
    assert logging.lastResort is not None
    record = logging.LogRecord("a", logging.WARNING, "", 0, "failed: %s", (STEERS,), None)
    assert not STEERING.intersection(logging.lastResort.format(record))
