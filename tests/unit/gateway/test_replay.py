"""`otel-evals replay` against real servers on loopback."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from otel_evals._internal.cli.app import app
from otel_evals._internal.config.loader import build_config
from otel_evals.model import Evaluation, Score
from otel_evals.scorers import answered, tool_error_rate
from otel_evals.testing import InMemoryDestination
from tests.support.gateways import GatewayThread
from tests.support.otlp_receiver import OtlpReceiver
from tests.support.recording_server import Reply, recording_server
from tests.support.recordings import NOW, REQUEST, span
from tests.support.scored_files import score_files

CAPTURES = os.environ.get("OTEL_EVALS_CAPTURES", "").split(os.pathsep)[0]


def run(*args: str) -> Any:
    return CliRunner().invoke(app, ["replay", *args])


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "traces.json"
    path.write_text(json.dumps(REQUEST))
    return str(path)


def test_a_recording_arrives_as_traffic_of_now(file: str) -> None:
    before = time.time_ns()
    with OtlpReceiver() as receiver:
        done = run(file, "--to", receiver.endpoint, "--speed", "max", "--json")
        spans, logs = receiver.wait_for_spans(3), receiver.wait_for_logs(1)
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert report["recorded"] == {"traces": 3, "logs": 1, "traces_by_id": 2}
    assert report["accepted"] == {"traces": 3, "logs": 1}
    assert all(before - 10**9 < (each.end_time or 0) <= time.time_ns() for each in spans)
    assert {each.end_time - each.start_time for each in spans if each.end_time} == {2_000}
    assert logs[0].trace_id in {each.trace_id for each in spans}


def test_speed_is_a_factor(tmp_path: Path) -> None:
    later = [span("b" * 16, startTimeUnixNano=str(NOW), endTimeUnixNano=str(NOW + n * 10**9)) for n in (1, 9)]
    path = tmp_path / "slow.json"
    path.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": later}]}]}))
    with OtlpReceiver() as receiver:
        began = time.monotonic()
        assert run(str(path), "--to", receiver.endpoint, "--speed", "16").exit_code == 0
        assert time.monotonic() - began >= 0.5
        assert len(receiver.wait_for_spans(2)) == 2


def test_a_server_without_room_is_asked_again_after_the_time_that_it_names(file: str) -> None:
    with recording_server() as server:
        server.reply = lambda _: (
            Reply(503, headers={"Retry-After": "1"}) if len(server.requests) <= 2 else Reply()
        )
        began = time.monotonic()
        done = run(file, "--to", server.url, "--speed", "0", "--json")
    report = json.loads(done.stdout)
    assert done.exit_code == 0, done.output
    assert time.monotonic() - began >= 1
    assert report["again"] == 2
    assert report["accepted"] == {"traces": 3, "logs": 1}
    assert "the endpoint answered 503; sending again for up to 30 s" in done.stderr


def test_an_endpoint_that_stays_away_ends_the_replay(file: str) -> None:
    done = run(file, "--to", "http://127.0.0.1:1", "--patience", "0")
    assert done.exit_code == 1
    assert "4 not sent or not answered: the endpoint cannot be reached" in done.stdout


def test_what_is_refused_for_good_is_counted_and_not_repeated(file: str) -> None:
    with recording_server() as server:
        server.reply = lambda _: Reply(400)
        done = run(file, "--to", server.url)
    assert done.exit_code == 1
    assert "3 spans and 1 log record refused\n  4: the endpoint answered 400" in done.stdout


def test_rejected_spans_of_a_partial_success_are_counted(tmp_path: Path) -> None:
    many = [{"key": f"k{n}", "value": {"intValue": str(n)}} for n in range(20)]
    path = tmp_path / "wide.json"
    spans = [span("a" * 16), span("b" * 16, "a" * 16, attributes=many)]
    path.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}))
    with GatewayThread(answered(), gateway={"max_attributes": 10}) as gateway:
        done = run(str(path), "--to", gateway.endpoint)
    assert done.exit_code == 1, done.output
    assert "1 span accepted" in done.stdout
    assert "1 span rejected" in done.stdout


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--to", "localhost:4318"), "must be an http or https URL"),
        (("--to", "http://h/v1/traces"), "must be the base URL"),
        (("--to", "http://h", "--speed", "-1"), "--speed: must be a factor"),
        (("--to", "http://h", "--speed", "nan"), "--speed: must be a factor"),
        (("--to", "http://h", "--header", "x"), "--header: must be NAME=VALUE"),
    ],
)
def test_wrong_options_are_named(file: str, args: tuple[str, ...], said: str) -> None:
    done = run(file, *args)
    assert done.exit_code == 2
    assert said in done.stderr


def test_files_without_telemetry_are_told(tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"
    path.write_text('{"system": "hello"}\n')
    done = run(str(path), "--to", "http://127.0.0.1:1")
    assert done.exit_code == 2
    assert "contains no OTLP" in done.stderr


@pytest.mark.skipif(not CAPTURES, reason="needs OTEL_EVALS_CAPTURES")
def test_replayed_captures_get_the_scores_that_their_files_get() -> None:
    """Everything but ids is the same: scores, labels, explanations, of many frameworks."""
    found = sorted(str(path) for path in Path(CAPTURES).glob("*.otlp.json"))[:24]
    rules = [answered(), tool_error_rate()]
    from_files = InMemoryDestination()
    score_files(found, build_config(rules, [from_files]))
    wanted = sorted(map(outcome_of, from_files.evaluations))
    assert len(wanted) > 20
    with GatewayThread(*rules, gateway={"quiet": 1.0, "idle": 2.0}) as gateway:
        done = run(*found, "--to", gateway.endpoint, "--speed", "max")
        assert done.exit_code == 0, done.output
        replayed = gateway.evaluations(len(wanted))
    assert sorted(map(outcome_of, replayed)) == wanted


def outcome_of(evaluation: Evaluation) -> tuple[str, ...]:
    outcome = evaluation.outcome
    if isinstance(outcome, Score):
        return evaluation.scorer_id, f"{outcome.value:.6f}", str(outcome.label), str(outcome.explanation)
    return evaluation.scorer_id, type(outcome).__name__, "", ""
