"""Incidents group alarms of one cause; people acknowledge them."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from otel_evals._internal.cli.app import app
from otel_evals_monitor._internal.alarms.limits import AlarmLimits
from otel_evals_monitor._internal.alarms.record import (
    Alarm,
    alarms_of,
    incidents_of,
    keep_alarms,
    lasting_alarms,
)
from otel_evals_monitor._internal.page.access import Access
from otel_evals_monitor._internal.page.app import Page
from otel_evals_monitor._internal.store.writer import ResultsStore
from tests.support.result_records import records

DAY = 86_400
LOW = AlarmLimits(floors={"grounded": 0.9})


def alarm(
    kind: str, since: int, scorer: str = "grounded", agent: str = "support", version: str = ""
) -> Alarm:
    monitor = f"{kind} {scorer} {agent}"
    return Alarm(monitor, kind, scorer, agent, since, since, 500.0, 400.0, "", (), None, version)


def test_every_lasting_alarm_is_listed_and_the_newest_end_comes_first(store: ResultsStore) -> None:
    lasting = [alarm("missing", 1, agent=f"agent {i}") for i in range(210)]
    short = [alarm("floor", 10, agent=f"agent {i}") for i in range(210)]
    long = alarm("fall", 0)
    for now, found in enumerate(([*lasting, *short, long], [*lasting, long], lasting)):
        keep_alarms(store.database, found, now=100.0 + now)
    listed = alarms_of(store.database)
    assert (len(lasting_alarms(store.database)), len(listed)) == (210, 410)
    assert (listed[210].kind, listed[210].ended) == ("fall", 102)


def kinds(*alarms: Alarm) -> list[list[str]]:
    return [[each.kind for each in incident.alarms] for incident in incidents_of(alarms)]


def test_floor_fall_and_version_alarms_of_one_cause_are_one_incident() -> None:
    one = [alarm("floor", 3 * 3600), alarm("fall", 3600), alarm("version", 0, version="2")]
    assert kinds(*one) == [["version", "fall", "floor"]]
    (incident,) = incidents_of(one)
    assert (incident.title, incident.since) == ("support got worse with version 2", 0)


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (alarm("fall", 0, agent="concierge"), "another agent"),
        (alarm("floor", DAY + 1), "more than a day later"),
        (alarm("missing", 0), "another kind of trouble"),
    ],
)
def test_alarms_of_other_causes_are_other_incidents(other: Alarm, why: str) -> None:
    assert len(incidents_of([alarm("fall", 0), other])) == 2, why


def test_an_incident_has_one_line_for_each_scorer() -> None:
    """With before, now and floor of the most telling alarm, and the strongest evidence."""
    low = alarm("floor", 0)
    floor = replace(low, before=0.9, now=0.7, evidence=900.0)
    fall = replace(alarm("fall", 60), before=0.95, now=0.7)
    other = replace(alarm("fall", 60, scorer="polite"), before=1.0, now=0.5)
    (incident,) = incidents_of([floor, fall, other])
    lines = [(x.first.scorer_id, x.first.kind, x.first.before, x.first.now, x.floor) for x in incident.lines]
    assert lines == [("grounded", "fall", 0.95, 0.7, 0.9), ("polite", "fall", 1.0, 0.5, None)]
    assert "once in 900 weeks" in incident.lines[0].evidence_text


@pytest.fixture
def low(store: ResultsStore) -> ResultsStore:
    """A store whose mean was below 0.9 until a moment ago."""
    store.write(records(600, hours=12, mean=lambda hour: 0.7, end=time.time() - 60))
    return store


def test_a_note_stays_with_an_acknowledged_alarm(low: ResultsStore) -> None:
    page = Page(low.database, access=Access(None, "localhost"), limits=LOW)
    page.alarm_check.run_once()
    client = TestClient(page.app, base_url="http://localhost")
    (alarm,) = lasting_alarms(low.database)
    form = {"csrf": page._access.csrf, "monitors": json.dumps([alarm.monitor]), "note": "Rolled back."}
    once = ["monitor", low.database.name, "--once", "--floor", "grounded=0.9"]
    assert CliRunner().invoke(app, once).exit_code == 1
    client.post("/alarms", data=form)
    assert lasting_alarms(low.database) == []
    assert [each.note for each in alarms_of(low.database)] == ["Rolled back."]
    assert client.post("/alarms", data=form).status_code == 400, "it has ended"
    assert client.post("/alarms", data=form | {"csrf": "forged"}).status_code == 403


def test_a_command_acknowledges_with_a_note_too(low: ResultsStore) -> None:
    once = ["monitor", low.database.name, "--once", "--floor", "grounded=0.9"]
    change = ["results", "acknowledge", low.database.name, "floor grounded support", "--note", "Rolled back."]
    assert CliRunner().invoke(app, change).exit_code == 2, "no current alarm yet"
    assert CliRunner().invoke(app, once).exit_code == 1
    assert CliRunner().invoke(app, change).exit_code == 0
    assert [each.note for each in alarms_of(low.database)] == ["Rolled back."]
    assert CliRunner().invoke(app, once).exit_code == 0


def test_a_score_is_on_record_before_its_step_is_over(store: ResultsStore) -> None:
    store.write(records(1, hours=0, end=time.time()))
    done = CliRunner().invoke(app, ["monitor", store.database.name, "--once", "--floor", "grounded=0.9"])
    assert done.stderr == ""
