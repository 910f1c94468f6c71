"""`otel-evals score --resume`: what is done is not done again, and what was left is made up for."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from typer.testing import CliRunner

from otel_evals._internal.cli.app import app
from tests.support.traffic import agent_run
from tests.unit.cli.test_score import turn

SCORERS = """
import asyncio
import os
from otel_evals import scorer
from otel_evals.errors import JudgeUnavailableError
from otel_evals._internal.judges.budget import Budget
from otel_evals._internal.judges.judge import Call

@scorer(version="1")
async def billed(run) -> float:
    '''Costs 10 tokens a run, of a budget; its calls are in a file.'''
    call = Call(model="m", scorer_id="billed", max_input_tokens=6, max_output_tokens=4, max_cost=None)
    async with Budget(tokens=int(os.environ.get("TOKENS", "100000")), store="judge.db").around(call):
        with open("calls", "a") as calls:
            calls.write(run.root_span_id + "\\n")
    shorter = len(run.turns) == 2
    if shorter and os.path.exists("slow"):
        while not os.path.exists("longer"):
            await asyncio.sleep(0.001)
    if len(run.turns) == 3:
        open("longer", "w").close()
    if os.path.exists("away") or (shorter and os.path.exists("away for the shorter")):
        raise JudgeUnavailableError("away")
    if os.path.exists("broken"):
        raise KeyError("order")
    return 1 / max(1, len(run.turns))
"""
RULES = "rules: [{scorer: 'python:billing_scorers:billed', attempts: 1, concurrency: 1}, grounded_in_tools]"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "billing_scorers.py").write_text(SCORERS)
    (tmp_path / "rules.yaml").write_text(RULES)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    exported, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exported))
    for number in range(20):
        agent_run(provider.get_tracer("app"), answer=f"It arrives on 2026-11-{number + 10}.")
    (tmp_path / "spans").write_bytes(encode_spans(exported.get_finished_spans()).SerializeToString())
    return tmp_path


def score(*more: str, rules: str = "rules.yaml") -> tuple[int, dict[str, Any]]:
    given = ["score", "spans", "--config", rules, "--jsonl", "out.jsonl", "--resume", "--json"]
    done = CliRunner().invoke(app, [*given, *more])
    return done.exit_code, json.loads(done.stdout) if done.stdout.startswith("{") else {"said": done.output}


def calls() -> int:
    return len(Path("calls").read_text().splitlines())


def records() -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    return [evaluation for line in lines for evaluation in line["evaluations"]]


def test_what_is_done_is_not_done_again_and_still_in_the_summary() -> None:
    first, second = score(), score()
    assert (first[0], second[0]) == (0, 0)
    assert (first[1]["resumed"], second[1]["resumed"]) == (0, 40)
    assert second[1]["scorers"] == first[1]["scorers"]
    assert calls() == 20
    assert len(records()) == 40


def test_a_trace_that_a_backend_had_in_part_is_scored_again_once_it_is_whole(folder: Path) -> None:
    whole = TracesData.FromString((folder / "spans").read_bytes())
    part = TracesData.FromString((folder / "spans").read_bytes())
    spans = part.resource_spans[0].scope_spans[0].spans
    late = next(each for each in spans if each.parent_span_id)
    spans.remove(late)
    (folder / "spans").write_bytes(part.SerializeToString())
    assert score()[0] == 0
    (folder / "spans").write_bytes(whole.SerializeToString())
    assert (score()[1]["resumed"], calls()) == (38, 21)
    assert (score()[1]["resumed"], calls()) == (40, 21)
    again = [each for each in records() if each["revision"] == 2]
    assert {each["trace_id"] for each in again} == {late.trace_id.hex()}


def test_a_budget_that_is_used_up_ends_it_and_it_goes_on_when_there_is_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TOKENS", "70")
    code, report = score("--concurrency", "2")
    assert code == 1
    assert "stopped early: a budget is used up: m: up to" in report["problems"][0]
    assert calls() == 7
    code, report = score()
    assert (code, calls()) == (1, 7), "there is no more budget yet"
    monkeypatch.setenv("TOKENS", "1000")
    code, report = score()
    assert (code, report["problems"]) == (0, [])
    assert calls() == 20
    revisions = Counter((e["evaluation_id"], e["revision"]) for e in records())
    assert max(revisions.values()) == 1
    assert len({e["evaluation_id"] for e in records() if e["status"] == "scored"}) == 40


def test_without_resume_the_end_of_a_budget_is_told_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKENS", "70")
    done = CliRunner().invoke(app, ["score", "spans", "--config", "rules.yaml"])
    assert done.exit_code == 1
    assert "billed: the budget is used up; not scored: 13 runs" in done.output
    assert "again with --resume" in done.output


def test_a_judge_that_was_away_is_asked_again_under_the_next_revision() -> None:
    Path("away").touch()
    assert score()[0] == 1
    failed = {e["evaluation_id"]: e["revision"] for e in records() if e["status"] == "failed"}
    assert set(failed.values()) == {1}
    Path("away").unlink()
    assert score()[0] == 0
    scored = {e["evaluation_id"]: e["revision"] for e in records() if e["scorer"] == "billed" and e["value"]}
    assert scored == dict.fromkeys(failed, 2)
    assert (score()[1]["resumed"], calls()) == (40, 40)


def test_a_file_is_needed_and_a_line_that_was_cut_off_counts_for_nothing() -> None:
    done = CliRunner().invoke(app, ["score", "spans", "--config", "rules.yaml", "--resume"])
    assert done.exit_code == 2
    assert "--resume: continues the file of a jsonl destination; fix: add --jsonl FILE" in done.output
    score()
    written = Path("out.jsonl").read_text()
    Path("out.jsonl").write_text(written[:-100])
    assert score()[0] == 0
    assert calls() in (20, 21)
    assert (
        len({e["evaluation_id"] for line in written.splitlines() for e in json.loads(line)["evaluations"]})
        == 40
    )


@pytest.fixture
def conversations(folder: Path) -> None:
    """Write one conversation that is judged twice, since it paused, and one that is judged once."""
    seconds = 10**9
    spans = [turn("c1", 0), turn("c1", 10 * seconds), turn("c1", 500 * seconds), turn("c2", 600 * seconds)]
    (folder / "spans").write_bytes(encode_spans(spans).SerializeToString())
    rule = "{scorer: 'python:billing_scorers:billed', scope: conversation, idle: 60, attempts: 1}"
    (folder / "talk.yaml").write_text(f"rules: [{rule}]")


def written() -> list[tuple[str, int, float]]:
    """Conversations, revisions and values in the file, sorted."""
    return sorted((e["conversation_id"], e["revision"], e["value"]) for e in records())


TWICE_AND_ONCE = [("c1", 1, 1 / 2), ("c1", 2, 1 / 3), ("c2", 1, 1.0)]


@pytest.mark.usefixtures("conversations")
@pytest.mark.parametrize("slow", [False, True])
def test_conversations_go_on_too(slow: bool) -> None:
    """The longer state has the higher revision, even if the shorter one is scored after it."""
    if slow:
        Path("slow").touch()
    first = score(rules="talk.yaml")
    assert written() == TWICE_AND_ONCE
    second = score(rules="talk.yaml")
    assert first[1]["scorers"] == second[1]["scorers"]
    assert first[1]["scorers"][0]["lowest"] == 1 / 3
    assert (calls(), len(records())) == (3, 3)


@pytest.mark.usefixtures("conversations")
def test_a_failed_state_of_a_conversation_does_not_replace_a_longer_one() -> None:
    Path("away for the shorter").touch()
    first = score(rules="talk.yaml")
    Path("away for the shorter").unlink()
    second = score(rules="talk.yaml")
    assert second[1]["scorers"] == first[1]["scorers"]
    assert sorted(e["revision"] for e in records() if e["conversation_id"] == "c1") == [1, 2]
