"""`otel-evals explain`: the answer from files, as the live pipeline would have given it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

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
"""


def explain(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["explain", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
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
    return records, told


def recorded(number: int, value: float, **evaluation: object) -> dict[str, Any]:
    run = record(number, value)
    run["evaluations"][0] |= {"span_id": run["span_id"], "duration": 0.0, "explanation": None, **evaluation}
    return run


def test_what_became_of_a_checked_answer_is_told(tmp_path: Path) -> None:
    run, scores = recorded(1, 0.0, effect="blocked", evidence_cut=True), tmp_path / "scores.jsonl"
    scores.write_text(json.dumps(run))
    told = explain(run["trace_id"], "--scores", scores)
    assert "score 0; the answer was blocked; the judge saw only a part of the evidence." in told


def test_every_decision_is_told_from_the_records_as_it_was_live(
    scored: tuple[Path, dict[str, str]],
) -> None:
    records, told = scored
    recorded = {json.loads(line)["trace_id"] for line in records.read_text().splitlines()}
    assert 10 < len(recorded) < 50
    for trace_id in recorded:
        answer = json.loads(explain(trace_id, "--scores", records, "--json"))
        assert answer["status"] == "scored"
        assert {f"{d['rule']} {d['status']}" for d in answer["decisions"]} <= {*told[trace_id].splitlines()}


@pytest.mark.parametrize("kind", ["jsonl", "results"])
def test_a_trace_that_was_not_drawn_is_explained_by_the_samplers_of_others(
    scored: tuple[Path, dict[str, str]], tmp_path: Path, kind: str
) -> None:
    """For a live process with rules in code; in words."""
    records, _ = scored
    if kind == "results":
        loaded = CliRunner().invoke(app, ["results", "load", str(tmp_path / "results.db"), str(records)])
        assert loaded.exit_code == 0, loaded.output
        records = tmp_path / "results.db"
    ids = [f"{number:032x}" for number in range(1, 40)]
    low = next(each for each in ids if not sampling.is_sampled(0.5, int(each, 16)))
    high = next(each for each in ids if sampling.is_sampled(0.5, int(each, 16)))
    said = explain(low, "--scores", records, code=1)
    assert "not scored, because no rule could sample its trace id" in said
    assert "answered: its trace was not drawn: 1 in 2 (ratio(0.5))." in said
    assert "drawn, but the rule did not apply" in explain(high, "--scores", records, code=1)


def test_failures_beside_a_score_are_in_the_headline_and_explanations_are_quoted(tmp_path: Path) -> None:
    run = recorded(1, 0.5, explanation="half of it is true.", duration=0.01)
    (score,), scores = run["evaluations"], tmp_path / "scores.jsonl"
    failed = {"status": "failed", "value": None, "reason": "KeyError", "explanation": None}
    run["evaluations"].append({**score, **failed, "evaluation_id": "e2", "rule": "broken"})
    scores.write_text(json.dumps(run))
    output = explain(run["trace_id"], "--scores", scores)
    assert "scored, but broken failed." in output
    assert "score 0.5 (took 0.010 s): half of it is true." in output
    assert f"Found in {scores}: 2 evaluations." in output


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
        answer = json.loads(explain(f"{trace:x}", "--scores", records, "--json"))
        (decision,) = answer["decisions"]
        assert (decision["rule"], decision["conversation_id"]) == ("used_no_tools@conversation", "c1")
        assert (answer["status"], answer["runs"]) == ("scored", 0)
    assert "used_no_tools@conversation, conversation c1: sampled by" in explain(
        f"{traces[0]:x}", "--scores", records
    )


def test_wrong_calls_are_refused_with_the_reason(tmp_path: Path) -> None:
    assert "Missing option '--scores'" in explain("abc", code=2)
    run = recorded(1, 0.5)
    (scores := tmp_path / "scores.jsonl").write_text(json.dumps(run))
    assert "'zz' is not a trace id" in explain("zz", "--scores", scores, code=2)
    none = tmp_path / "none.jsonl"
    assert "is no file; one is written with the first score" in explain("abc", "--scores", none, code=2)
    server = "postgresql://127.0.0.1:1/x"
    assert f"{server}: " in explain(run["trace_id"], "--scores", server, code=2)
