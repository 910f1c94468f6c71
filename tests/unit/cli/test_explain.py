"""`otel-evals explain`: the answer from files, as the live pipeline would have given it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from otel_evals import load_config, sampling
from otel_evals._internal.cli.app import app
from otel_evals.destinations import JsonlDestination
from tests.support.result_records import record
from tests.support.traffic import Live

CONFIG = """
rules:
  - scorer: answered
    sample: ratio(0.5)
  - scorer: used_no_tools
    sample: errors() | below('answered', 0.5)
  - scorer: no_tool_errors
    when: {agent_name: vip}
  - scorer: called_tool
    options: {name: lookup_order}
    sample: per_minute(1)
"""


def explain(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["explain", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, dict[str, str]]:
    """Fifty real runs under the configuration above: its file, their records, what live explain said."""
    folder = tmp_path_factory.mktemp("explain")
    records, path = folder / "scores.jsonl", folder / "otel-evals.yaml"
    path.write_text(CONFIG)
    with Live(*load_config(path).rules, destinations=[JsonlDestination(records)]) as live:
        traces = [live.run() for _ in range(50)]
        assert live.flush()
        told = {
            f"{t:032x}": "\n".join(f"{d.rule} {d.status}" for d in live.pipeline.explain(t).decisions)
            for t in traces
        }
    return path, records, told


def test_what_became_of_a_checked_answer_is_told(tmp_path: Path) -> None:
    run, scores = record(1, 0.0), tmp_path / "scores.jsonl"
    run["evaluations"][0] |= {"span_id": run["span_id"], "effect": "blocked", "evidence_cut": True}
    run["evaluations"][0]["duration"] = 0.0
    scores.write_text(json.dumps(run))
    told = explain(run["trace_id"], "--scores", scores)
    assert "scored: 0; the answer was blocked; the judge saw only a part of the evidence." in told


@pytest.mark.slow
def test_what_was_scored_is_told_from_the_records_and_the_rest_worked_out_again(
    scored: tuple[Path, Path, dict[str, str]],
) -> None:
    """Every decision that live explain told is told from the files too, but for what only lived then."""
    path, records, told = scored
    recorded = {json.loads(line)["trace_id"] for line in records.read_text().splitlines()}
    assert 10 < len(recorded) < 50
    for trace_id in recorded:
        answer = json.loads(explain(trace_id, "--scores", records, "--config", path, "--json"))
        again = {f"{d['rule']} {d['status']}" for d in answer["decisions"]}
        assert answer["status"] == "scored"
        assert again | {"called_tool not_sampled"} == set(told[trace_id].splitlines()) | {
            "called_tool not_sampled"
        }


def test_a_trace_that_lost_is_explained_by_its_id(
    scored: tuple[Path, Path, dict[str, str]], tmp_path: Path
) -> None:
    """With the configuration's rates; a head sampler's tracestate may be given."""
    _, records, told = scored
    (tmp_path / "half.yaml").write_text("rules: [{scorer: answered, sample: ratio(0.5)}]")
    options = ("--scores", records, "--config", tmp_path / "half.yaml")
    recorded = records.read_text()
    unrecorded = [t for t in told if t not in recorded and not sampling.is_sampled(0.5, int(t, 16))]
    assert unrecorded
    assert "not scored, because no rule could sample its trace id" in explain(unrecorded[0], *options)
    assert "is below 0.750000" in explain("9", *options, "--trace-state", "ot=th:8;rv:b0000000000000")


def test_only_the_configuration_tells_who_could_have_picked_it(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(CONFIG.replace("ratio(0.5)", "never()"))
    output = explain("abc", "--config", path)
    assert "answered: never() could not have sampled it." in output
    assert "called_tool: per_minute(1) could have sampled it." in output


def test_without_a_configuration_only_the_records_speak(scored: tuple[Path, Path, dict[str, str]]) -> None:
    _, records, _ = scored
    output = explain("abc", "--scores", records)
    assert "no record of it" in output
    assert f"Found in {records}: 0 evaluations." in " ".join(output.split())


def test_every_run_of_a_conversation_is_told_what_came_of_it(tmp_path: Path) -> None:
    """From the one record of the conversation, whichever of its traces is asked for."""
    rule = "rules: [{scorer: used_no_tools, scope: conversation}]"
    (path := tmp_path / "c.yaml").write_text(rule)
    records = tmp_path / "scores.jsonl"
    with Live(*load_config(path).rules, destinations=[JsonlDestination(records)]) as live:
        traces = [
            live.run(during=lambda span: span.set_attribute("gen_ai.conversation.id", "c1")) for _ in range(2)
        ]
    for trace in traces:
        answer = json.loads(explain(f"{trace:x}", "--scores", records, "--config", path, "--json"))
        (decision,) = answer["decisions"]
        assert (decision["rule"], decision["conversation_id"]) == ("used_no_tools@conversation", "c1")
        assert (answer["status"], answer["runs"]) == ("scored", 0)
    assert "used_no_tools@conversation, conversation c1: sampled by" in explain(
        f"{traces[0]:x}", "--scores", records
    )


def test_wrong_calls_are_refused_with_the_reason(tmp_path: Path) -> None:
    assert "--scores, --config, or both" in explain("abc", code=2)
    assert "cannot be read" in explain("abc", "--config", tmp_path / "none.yaml", code=2)
