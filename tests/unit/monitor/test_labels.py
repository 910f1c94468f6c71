"""`otel-evals labels pull`: feedback from servers that answer as backends do, joined to what is on record."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from otel_evals._internal.cli.app import app
from otel_evals.testing import read_labels
from otel_evals_monitor._internal.store.labels import add_label, feedback_on, labels_on
from otel_evals_monitor._internal.store.writer import ResultsStore
from tests.support.destinations import KEY
from tests.support.feedback_servers import BACKENDS, Said, answering
from tests.support.recording_server import RecordingServer, Reply, recording_server
from tests.support.result_records import record

RUNS = [record(number, 1.0, scorer="grounded") for number in range(6)]
TRACES = [run["trace_id"] for run in RUNS]
SPANS = [run["span_id"] for run in RUNS]
IDS = [run["evaluations"][0]["evaluation_id"] for run in RUNS]
SAID = [
    Said("grounded", 0.0, TRACES[0], SPANS[0], comment=f"The price is made up. {KEY}"),
    Said("grounded", True, TRACES[1], SPANS[1]),
    Said("thumbs", -1.0, TRACES[2], SPANS[2], comment="Rude."),
    Said("thumbs", 1.0, TRACES[3], SPANS[3], by="api"),
    Said("grounded", 0.5, TRACES[4], SPANS[4], by="judge"),
    Said("grounded", 0.5, "f" * 32, "e" * 16),
]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ResultsStore]:
    opened = ResultsStore(tmp_path / "results.db")
    opened.write(RUNS)
    yield opened
    opened.close()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[RecordingServer]:
    for name in ("LANGFUSE_SECRET_KEY", "LANGSMITH_API_KEY", "OPIK_API_KEY", "MLFLOW_TRACKING_TOKEN"):
        monkeypatch.setenv(name, KEY)
    monkeypatch.setenv("LANGFUSE_PUBLIC_KEY", "pk")
    monkeypatch.setenv("PHOENIX_API_KEY", KEY)
    monkeypatch.delenv("PHOENIX_PROJECT_NAME", raising=False)
    with recording_server() as server:
        yield server


def pull(name: str, server: RecordingServer, store: ResultsStore, *more: str, code: int = 0) -> Result:
    done = CliRunner().invoke(app, ["labels", "pull", f"{name}={server.url}", store.database.name, *more])
    assert done.exit_code == code, done.output
    assert KEY not in done.output
    return done


def labels(store: ResultsStore) -> dict[str, float]:
    return {id: row["label"] for trace in TRACES for id, row in labels_on(store.database, trace).items()}


def feedback(store: ResultsStore) -> list[dict[str, Any]]:
    return [dict(row) for trace in TRACES for row in feedback_on(store.database, trace)]


@pytest.mark.parametrize("name", BACKENDS)
def test_what_people_said_becomes_labels_and_feedback_once(
    name: str, server: RecordingServer, store: ResultsStore, tmp_path: Path
) -> None:
    server.reply = answering(name, SAID)
    first = pull(name, server, store)
    assert "2 labels and 1 feedback written" in first.stdout
    assert labels(store) == {IDS[0]: 0.0, IDS[1]: 1.0}
    (thumb,) = feedback(store)
    assert (thumb["name"], thumb["value"], thumb["source"]) == ("thumbs", -1.0, f"{name}:u-1")
    assert (thumb["trace_id"], thumb["comment"]) == (TRACES[2], "Rude.")
    again = pull(name, server, store)
    assert "0 labels and 0 feedback written" in again.stdout
    assert labels(store) == {IDS[0]: 0.0, IDS[1]: 1.0}
    assert all(KEY in json.dumps(request.headers) or name == "langfuse" for request in server.requests)

    out = tmp_path / "labels.jsonl"
    exported = ["export", store.database.name, "--labels", str(out)]
    assert CliRunner().invoke(app, exported).exit_code == 0
    assert [each.label for each in read_labels(out.read_text("utf-8").splitlines())] == [0.0, 1.0]


def test_a_name_can_stand_for_a_scorer_and_takes_what_programs_sent(
    server: RecordingServer, store: ResultsStore
) -> None:
    server.reply = answering("langfuse", [replace(SAID[3], value="good"), *SAID])
    done = pull("langfuse", server, store, "--name", "thumbs=grounded", "--value", "good=0.75")
    assert "1 labels and 0 feedback written, 1 known" in done.stdout
    assert labels(store) == {IDS[3]: 0.75}
    assert "left out: 1 out of the score's range" in done.stdout
    assert "left out: 3 of another name" in done.stdout
    assert server.requests[0].query["name"] == ["thumbs"]


def test_the_latest_verdict_stands_whoever_gave_it(server: RecordingServer, store: ResultsStore) -> None:
    later = replace(SAID[0], value=0.25, time="2026-09-21T15:00:00+00:00")
    server.reply = answering("mlflow", [later, SAID[0]])
    pull("mlflow", server, store)
    assert labels(store) == {IDS[0]: 0.25}
    add_label(store.database, IDS[0], 1.0, expected="$3")  # on the page, now
    assert "2 known" in pull("mlflow", server, store).stdout
    assert labels(store) == {IDS[0]: 1.0}


def test_a_verdict_on_a_trace_or_on_another_span_of_it_is_about_its_run(
    server: RecordingServer, store: ResultsStore
) -> None:
    whole = [Said("grounded", 0.0, TRACES[0]), Said("grounded", 0.5, TRACES[1], "a" * 16)]
    store.write([{**record(9, 1.0, scorer="grounded"), "trace_id": TRACES[2]}])
    server.reply = answering("langfuse", [*whole, Said("grounded", 0.5, TRACES[2])])
    done = pull("langfuse", server, store)
    assert labels(store) == {IDS[0]: 0.0, IDS[1]: 0.5}
    assert "left out: 1 of a trace with several runs" in done.stdout


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (Reply(401, b'{"error": "bad key ' + KEY.encode() + b'"}'), "answered 401"),
        (Reply(200, b"<html>", {"Content-Type": "text/html"}), "a page of HTML"),
        (Reply(200, b'{"data": 3}'), "has an unexpected form"),
        (Reply(200, b'{"data": [], "meta": {"cursor": "x"}}'), "the same page twice"),
        (Reply(302, b"", {"Location": "https://elsewhere.example"}), "redirects are not followed"),
    ],
)
def test_a_server_that_misbehaves_is_told_of(
    reply: Reply, told: str, server: RecordingServer, store: ResultsStore
) -> None:
    server.reply = lambda _: reply
    assert told in pull("langfuse", server, store, code=1).stderr


def test_what_was_read_before_it_failed_is_kept(server: RecordingServer, store: ResultsStore) -> None:
    good = answering("langfuse", SAID)
    server.reply = lambda request: Reply(403) if "cursor" in request.query else good(request)
    assert "2 labels and 1 feedback" in pull("langfuse", server, store, code=1).stdout
    assert len(labels(store)) == 2


def test_a_pull_is_bounded_in_time_and_in_number(server: RecordingServer, store: ResultsStore) -> None:
    server.reply = answering("langfuse", SAID)
    assert "more than 2" in pull("langfuse", server, store, "--most", "2", code=1).stderr
    server.reply = lambda _: Reply(delay=30)
    assert "not finished within 1 s" in pull("langfuse", server, store, "--timeout", "1", code=1).stderr


def test_a_busy_server_is_asked_again(server: RecordingServer, store: ResultsStore) -> None:
    good = answering("langfuse", SAID)
    busy = Reply(429, headers={"Retry-After": "0"})
    server.reply = lambda request: good(request) if len(server.requests) > 2 else busy
    assert "2 labels" in pull("langfuse", server, store).stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["datadog", "{store}"], "has no API that feedback can be read from"),
        (["nowhere", "{store}"], "--to nowhere"),
        (["phoenix", "missing.db"], "missing.db"),
        (["phoenix", "{store}", "--value", "good"], "--value: must be CATEGORY=NUMBER"),
        (["phoenix", "{store}", "--window", "soon"], "--window"),
    ],
)
def test_wrong_options_are_told(
    arguments: list[str], told: str, store: ResultsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DD_API_KEY", KEY)
    given = [each.format(store=store.database.name) for each in arguments]
    done = CliRunner().invoke(app, ["labels", "pull", *given])
    assert done.exit_code == 2, done.output
    assert told in done.stderr


def test_odd_records_are_counted_and_comments_can_be_left_out(
    server: RecordingServer, store: ResultsStore
) -> None:
    good = answering("langfuse", SAID)

    def reply(request: Any) -> Reply:
        found = json.loads(good(request).body)
        odd = [None, 7, {}, {"name": "x"}, {**found["data"][0], "updatedAt": "soon", "timestamp": "soon"}]
        return Reply(body=json.dumps({**found, "data": [*odd, *found["data"]]}).encode())

    server.reply = reply
    done = pull("langfuse", server, store, "--no-content")
    assert "left out: 10 of another form" in done.stdout
    assert "2 labels and 1 feedback" in done.stdout
    assert feedback(store)[0]["comment"] is None
