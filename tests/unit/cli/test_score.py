"""`otel-evals score`: the configured rules on the runs of OTLP files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import MessageToJson
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import SpanContext
from typer.testing import CliRunner

from otel_evals._internal.cli.app import app
from otel_evals._internal.config.loader import build_config
from otel_evals._internal.scorers import checks
from otel_evals.errors import DestinationError
from otel_evals.scorers import grounded_in_tools
from tests.support.result_records import record
from tests.support.scored_files import score_files
from tests.support.traffic import agent_run

RULES = """
rules:
  - grounded_in_tools
  - scorer: includes
    options: {text: "2026-11-25"}
    sample: ratio(0.0)
"""


@pytest.fixture
def spans(tmp_path: Path) -> Path:
    """A file with three runs, one of which states what no tool said."""
    exported, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exported))
    for answer in ("It arrives on 2026-11-25.", "It arrives on 2026-11-25.", "It arrives on 2027-01-01."):
        agent_run(provider.get_tracer("app"), answer=answer)
    path = tmp_path / "spans.json"
    path.write_text(MessageToJson(encode_spans(exported.get_finished_spans()), indent=None))
    return path


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    (path := tmp_path / "otel-evals.yaml").write_text(RULES)
    return path


def command(*arguments: Any) -> Any:
    return CliRunner().invoke(app, ["score", *map(str, arguments)])


def test_the_rules_score_every_run_and_a_table_tells(spans: Path, rules: Path, tmp_path: Path) -> None:
    done = command(spans, "--config", rules, "--jsonl", tmp_path / "scores.jsonl")
    assert done.exit_code == 0, done.output
    row = next(line for line in done.output.splitlines() if line.startswith("grounded_in_tools"))
    assert row.split()[:5] == ["grounded_in_tools", "3", "0", "0", "0.667"]
    assert "3 runs" in done.output
    records = [json.loads(line) for line in (tmp_path / "scores.jsonl").read_text().splitlines()]
    assert sorted(r["evaluations"][0]["value"] for r in records) == [0.0, 1.0, 1.0]


def test_sampling_holds_unless_all_is_asked_for(spans: Path, rules: Path) -> None:
    sampled, everything = (
        json.loads(command(spans, "--config", rules, "--json", *more).output) for more in ((), ("--all",))
    )
    assert [each["scored"] for each in sampled["scorers"]] == [3, 0]
    assert sampled["rules"]["includes"]["not_sampled"] == {"sampled_out": 3}
    assert [each["scored"] for each in everything["scorers"]] == [3, 3]


def test_the_configuration_may_come_from_the_environment(
    spans: Path, rules: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EVALS_CONFIG", str(rules))
    assert command(spans).exit_code == 0


@pytest.mark.parametrize("wrong", ["config", "file", "rule"])
def test_what_is_wrong_ends_with_status_2_and_its_name(wrong: str, spans: Path, tmp_path: Path) -> None:
    (config := tmp_path / "c.yaml").write_text("rules: [grounded_in_tool]" if wrong == "rule" else RULES)
    given = [spans if wrong != "file" else tmp_path / "nowhere.json"]
    done = command(*given, *([] if wrong == "config" else ["--config", config]))
    assert done.exit_code == 2
    named = {
        "config": "--config: is required",
        "file": "nowhere.json",
        "rule": "did you mean 'grounded_in_tools'?",
    }
    assert named[wrong] in done.output


def test_more_runs_than_fit_at_once_are_all_scored_and_delivered(tmp_path: Path) -> None:
    """Beyond every queue's size; nothing may be dropped for want of capacity."""
    exported, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exported))
    for number in range(300):
        agent_run(provider.get_tracer("app"), answer=str(number))
    (tmp_path / "spans").write_bytes(encode_spans(exported.get_finished_spans()).SerializeToString())
    config = build_config([grounded_in_tools(), checks.used_no_tools()], limits={"queue_size": 1})
    tallies, stats, _ = score_files([str(tmp_path / "spans")], config)
    assert stats.check() == []
    assert [each.scored + sum(each.not_scored.values()) for each in tallies] == [300, 300]
    assert stats.rules["used_no_tools"].dropped == {}


def test_scores_that_a_destination_refuses_are_told(spans: Path) -> None:
    class Closed:
        name = "closed"

        async def export(self, batch: Any) -> None:
            raise DestinationError("no", retryable=False)

        async def shutdown(self) -> None:
            pass

    config = build_config([grounded_in_tools()], [Closed()])
    _, _, deliveries = score_files([str(spans)], config)
    assert deliveries["closed"].failed == 3


TALK = """
rules:
  - {scorer: used_no_tools, scope: conversation, idle: 60}
  - used_no_tools
"""


def test_conversations_end_by_the_spans_own_time_or_with_the_file(tmp_path: Path) -> None:
    """A pause longer than `idle` has a conversation judged before it goes on; the table counts it once."""
    seconds = 10**9
    spans = [
        turn("c1", 0),
        turn("c2", 10 * seconds),
        turn("c1", 30 * seconds),  # goes on in time
        turn("c2", 95 * seconds),  # goes on too late
        turn(None, 96 * seconds),
    ]
    (tmp_path / "spans").write_bytes(encode_spans(spans).SerializeToString())
    (tmp_path / "c.yaml").write_text(TALK)
    done = command(
        tmp_path / "spans", "--config", tmp_path / "c.yaml", "--json", "--jsonl", tmp_path / "scores.jsonl"
    )
    assert done.exit_code == 0, done.output
    report = json.loads(done.output)
    assert [(each["scorer_id"], each["scored"]) for each in report["scorers"]] == [
        ("used_no_tools@conversation", 2),
        ("used_no_tools", 5),
    ]
    rule = report["rules"]["used_no_tools@conversation"]
    assert (rule["scored"], rule["not_sampled"]) == (3, {"no_conversation_id": 1})
    records = [json.loads(line) for line in (tmp_path / "scores.jsonl").read_text().splitlines()]
    judged = [
        (record["conversation_id"], len(record["turns"]), evaluation["revision"])
        for record in records
        for evaluation in record["evaluations"]
        if evaluation["conversation_id"]
    ]
    assert judged == [("c2", 1, 1), ("c1", 2, 1), ("c2", 2, 2)]


def turn(conversation: str | None, start: int) -> ReadableSpan:
    """An agent's span, a second long."""
    attributes = {"gen_ai.operation.name": "invoke_agent"}
    if conversation is not None:
        attributes["gen_ai.conversation.id"] = conversation
    ids = RandomIdGenerator()
    return ReadableSpan(
        "invoke_agent",
        context=SpanContext(ids.generate_trace_id(), ids.generate_span_id(), is_remote=False),
        attributes=attributes,
        start_time=10**18 + start,
        end_time=10**18 + start + 10**9,
    )


BROKEN = """
from otel_evals import scorer

@scorer(version="1")
def broken(run):
    raise KeyError("order")
"""


def test_that_everything_failed_fails_with_the_cause(spans: Path, tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "broken_scorers.py").write_text(BROKEN)
    monkeypatch.syspath_prepend(tmp_path)
    done = command(spans, "--scorer", "python:broken_scorers:broken")
    assert done.exit_code == 1
    assert "broken scored nothing, and failed on 3 runs: KeyError: 'order'" in done.output


def test_that_a_rule_of_conversations_failed_is_said_too(
    spans: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    (tmp_path / "broken_talks.py").write_text(BROKEN)
    monkeypatch.syspath_prepend(tmp_path)
    spans.write_text(spans.read_text().replace("gen_ai.agent.name", "gen_ai.conversation.id"))
    (path := tmp_path / "talks.yaml").write_text(
        "rules: [{scorer: 'python:broken_talks:broken', scope: conversation}]"
    )
    done = command(spans, "--config", path)
    assert "broken@conversation scored nothing, and failed on 1 run: KeyError: 'order'" in done.output


def test_a_scorer_needs_no_file_and_a_mean_can_be_required(spans: Path) -> None:
    options = ("--scorer", "includes", "--option", 'text="2026-11-25"')
    done = command(spans, *options, "--fail-under", 0.6)
    assert done.exit_code == 0, done.output
    done = command(spans, *options, "--fail-under", 0.7)
    assert done.exit_code == 1
    assert "includes: the mean 0.667 is below 0.7; --fail-under is 0.7" in done.output
    options = ("--scorer", "content_similarity", "--option", "reference=ground_truth")
    assert "content_similarity: nothing was scored" in command(spans, *options, "--fail-under", 0).stderr


@pytest.mark.parametrize("name", ["score", "runs"])
def test_files_without_spans_of_agents_are_said_to_be_so(name: str, tmp_path: Path) -> None:
    exported, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exported))
    provider.get_tracer("http").start_span("GET /").end()
    (path := tmp_path / "spans").write_bytes(encode_spans(exported.get_finished_spans()).SerializeToString())
    more = ["--scorer", "answered"] if name == "score" else []
    done = CliRunner().invoke(app, [name, str(path), *more])
    assert done.exit_code == 1
    assert f"{path}: no run found: there is no span of an agent or a model" in done.output
    path.write_text(json.dumps(record(1, 0.5)))
    done = CliRunner().invoke(app, ["score", str(path), "--scorer", "answered"])
    assert done.exit_code == 2
    assert f"{path}: has scores of the jsonl destination, not OTLP; fix: use `otel-evals runs`" in done.output
