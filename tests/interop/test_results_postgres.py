"""The results store on a real PostgreSQL: the same answers as on SQLite, and a server that goes away."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from otel_evals._internal.accounting.picks import MinuteOfPicks
from otel_evals._internal.cli.app import app
from otel_evals.errors import DestinationError
from otel_evals.statistics import Picks
from otel_evals_monitor import ResultsDestination
from otel_evals_monitor._internal.alarms.limits import AlarmLimits
from otel_evals_monitor._internal.alarms.monitors import check_store
from otel_evals_monitor._internal.alarms.record import alarms_of, keep_alarms
from otel_evals_monitor._internal.page.access import Access
from otel_evals_monitor._internal.page.app import Page, pulse_of
from otel_evals_monitor._internal.store import schema
from otel_evals_monitor._internal.store.labels import add_feedback, add_label, failure_types, labels_on
from otel_evals_monitor._internal.store.picks import keep_picks
from otel_evals_monitor._internal.store.retention import forget, keep_within
from otel_evals_monitor._internal.store.writer import ResultsStore
from tests.support.postgres_server import PostgresServer, find_postgres, postgres_server
from tests.support.result_records import START, record, records
from tests.support.scored import scored_run

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(
        find_postgres() is None, reason="PostgreSQL is not installed: apt-get install postgresql"
    ),
]


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    folder = Path(tempfile.mkdtemp(prefix="otel-evals-postgres-"))
    os.chmod(folder, 0o755)
    try:
        with postgres_server(folder) as running:
            yield running
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def url(server: PostgresServer) -> str:
    """The server's database, empty."""
    store = ResultsStore(server.url)
    with store.database.writing() as connection:
        for table in schema.metadata.sorted_tables:
            if table is not schema.settings:
                connection.exec_driver_sql(f"TRUNCATE {table.name}")
    store.close()
    return server.url


def estimates(place: str) -> list[dict[str, Any]]:
    done = CliRunner().invoke(app, ["report", place, "--by", "version", "--json"])
    assert done.exit_code == 0, done.output
    found: list[dict[str, Any]] = json.loads(done.stdout)["estimates"]
    return found


def test_both_databases_give_the_same_report_after_revisions_and_repeats(url: str, tmp_path: Path) -> None:
    given = [
        *records(400, probability=0.5, conversation="c"),
        *(record(i, None, status="failed", reason="timeout") for i in range(5)),
        *(record(1_000_000 + i, 0.0, probability=0.5, revision=2) for i in range(30)),
    ]
    for place in (url, str(tmp_path / "results.db")):
        store = ResultsStore(place)
        for _ in range(2):
            store.write(given)
        store.close()
    on_server, in_file = estimates(url), estimates(str(tmp_path / "results.db"))
    assert [row.pop("worst") for row in on_server] == [row.pop("worst") for row in in_file]
    for one, other in zip(on_server, in_file, strict=True):
        assert one.pop("cost") == pytest.approx(other.pop("cost"))
        assert one == other


def test_many_writers_of_the_same_runs_write_each_once(url: str) -> None:
    given = [record(i, 1.0, probability=0.5) for i in range(300)]
    stores = [ResultsStore(url) for _ in range(4)]
    threads = [
        threading.Thread(target=each.write, args=(given[::step],))
        for each, step in zip(stores, (1, -1, 1, -1), strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for each in stores:
        each.close()
    (row,) = estimates(url)
    assert (row["scored"], row["stands_for"]) == (300, 600.0)


def test_alarms_labels_feedback_and_deletion_work_there_too(url: str) -> None:
    store = ResultsStore(url)
    store.write(records(2_000, mean=lambda hour: 0.95 if hour < 30 else 0.6))
    found = check_store(store.database, AlarmLimits(), START + 48 * 3600).alarms
    assert [alarm.kind for alarm in found] == ["fall"]
    keep_alarms(store.database, found, START)
    keep_alarms(store.database, [], START + 60)
    assert [each.ended for each in alarms_of(store.database)] == [START + 60]
    first = record(1_000_000, 1.0)
    add_label(store.database, first["evaluations"][0]["evaluation_id"], verdict="fail", failure_type="late")
    assert failure_types(store.database) == ["late"]
    add_feedback(store.database, first["trace_id"], True)
    assert len(labels_on(store.database, first["trace_id"])) == 1
    assert forget(store.database, trace_ids=[first["trace_id"]]) == (1, 1)
    assert labels_on(store.database, first["trace_id"]) == {}
    assert keep_within(store.database, 1e9) == 0
    store.close()


def test_the_sampler_check_works_there_too(url: str) -> None:
    store = ResultsStore(url)
    store.write(records(500, mean=lambda hour: 0.9))
    few = Picks(20, 1, 2.0, 1.8)
    rows = [MinuteOfPicks("a", "grounded", "support", START + 60 * number, few) for number in range(2_000)]
    for _ in range(2):  # what is told again changes nothing
        keep_picks(store.database, rows)
    alarms = check_store(store.database, AlarmLimits(), START + 48 * 3600).alarms
    assert {alarm.kind for alarm in alarms} == {"sampler"}
    told = CliRunner().invoke(app, ["report", url, "--json"])
    (check,) = json.loads(told.stdout)["sampler_checks"]
    assert (check["runs"], check["picked"], check["surprising"]) == (40_000, 2_000, True)
    store.close()


def test_the_destination_survives_a_server_that_goes_away_and_comes_back(
    server: PostgresServer, url: str
) -> None:
    async def deliver() -> None:
        destination = ResultsDestination(url=url)
        await destination.export([scored_run(1 << 96)])
        await anyio.to_thread.run_sync(server.stop)
        try:
            with pytest.raises(DestinationError) as refused:
                await destination.export([scored_run(2 << 96)])
            assert refused.value.retryable
            assert "secret" not in str(refused.value)
        finally:
            await anyio.to_thread.run_sync(server.start)
        await destination.export([scored_run(2 << 96)])
        await destination.shutdown()

    anyio.run(deliver)
    assert {row["scored"] + row["not_scored"] + row["failed"] + row["dropped"] for row in estimates(url)} == {
        2
    }


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/labels",
        "/runs?text=day+1&agent=support",
        "/runs?scorer=grounded&agent=support&order=worst&label=low&status=scored",
        "/scorer?scorer=grounded&agent=support&window=2d&version=2&tenant=eu",
        "/scorer?scorer=grounded&agent=support&window=all&text=It+SHIPS+on+day+20&label=low",
        "/scorer?scorer=grounded&agent=support&window=all&by=attribute:app.region",
    ],
)
def test_both_databases_give_the_same_pages(url: str, tmp_path: Path, path: str) -> None:
    given = [
        *records(200, probability=0.5),
        *records(200, seed=2, version="2", mean=lambda _: 0.5, tenant="eu", attributes={"app.region": "eu"}),
    ]
    for each in given:
        evaluation = each["evaluations"][0]
        evaluation["label"] = "low" if evaluation["value"] < 1.0 else "high"
        evaluation["review"] = "score < 0.5" if evaluation["value"] < 0.5 else ""
    given += [record(i, None, status="failed", reason="timeout", time=START + i) for i in range(5)]
    pages = []
    for place in (url, str(tmp_path / "results.db")):
        store = ResultsStore(place)
        store.write(given)
        page = Page(store.database, access=Access(None, "localhost"))
        answer = TestClient(page.app, base_url="http://localhost").get(path)
        assert answer.status_code == 200, answer.text
        pages.append(re.sub(r'value="[\w-]{32}"', "", answer.text.replace(store.database.name, "")))
        assert pulse_of(store.database)["newest"]
        store.close()
    assert pages[0] == pages[1]
    assert "No runs" not in pages[0]
