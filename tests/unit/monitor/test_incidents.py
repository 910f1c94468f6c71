"""Incidents group alarms of one cause; people acknowledge and mute them."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from otel_evals._internal.cli.app import app
from otel_evals_monitor._internal.alarms.alarm_record import (
    KeptAlarm,
    alarms_of,
    keep_alarms,
    lasting_alarms,
)
from otel_evals_monitor._internal.alarms.check import AlarmCheck
from otel_evals_monitor._internal.alarms.incidents import incidents_of
from otel_evals_monitor._internal.alarms.judgements import Mute, mute
from otel_evals_monitor._internal.alarms.limits import AlarmLimits
from otel_evals_monitor._internal.alarms.monitors import Alarm
from otel_evals_monitor._internal.page.access import Access
from otel_evals_monitor._internal.page.app import Page
from otel_evals_monitor._internal.store.writer import ResultsStore
from tests.support.result_records import records

DAY = 86_400
LOW = AlarmLimits(floors={"grounded": 0.9})


def kept(
    kind: str, since: int, scorer: str = "grounded", agent: str = "support", version: str = ""
) -> KeptAlarm:
    alarm = Alarm(
        f"{kind} {scorer} {agent}", kind, scorer, agent, since, since, 500.0, 400.0, "", (), None, version
    )
    return KeptAlarm(since, alarm, None)


def test_every_lasting_alarm_is_listed_and_the_newest_end_comes_first(store: ResultsStore) -> None:
    lasting = [kept("missing", 1, agent=f"agent {i}").alarm for i in range(210)]
    short = [kept("floor", 10, agent=f"agent {i}").alarm for i in range(210)]
    long = kept("fall", 0).alarm
    for now, found in enumerate(([*lasting, *short, long], [*lasting, long], lasting)):
        keep_alarms(store.database, found, now=100.0 + now)
    listed = alarms_of(store.database)
    assert (len(lasting_alarms(store.database)), len(listed)) == (210, 410)
    assert (listed[210].alarm.kind, listed[210].ended) == ("fall", 102)


def kinds(*alarms: KeptAlarm) -> list[list[str]]:
    return [[each.alarm.kind for each in incident.alarms] for incident in incidents_of(alarms)]


def test_floor_fall_and_version_alarms_of_one_cause_are_one_incident() -> None:
    one = [kept("floor", 3 * 3600), kept("fall", 3600), kept("version", 0, version="2")]
    assert kinds(*one) == [["version", "fall", "floor"]]
    (incident,) = incidents_of(one)
    assert (incident.title, incident.since) == ("support got worse with version 2", 0)


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (kept("fall", 0, agent="concierge"), "another agent"),
        (kept("floor", DAY + 1), "more than a day later"),
        (kept("missing", 0), "another kind of trouble"),
    ],
)
def test_alarms_of_other_causes_are_other_incidents(other: KeptAlarm, why: str) -> None:
    assert len(incidents_of([kept("fall", 0), other])) == 2, why


def test_an_incident_is_muted_if_all_its_alarms_are() -> None:
    alarms = [kept("fall", 0), kept("floor", 60)]
    mutes = {alarms[0].alarm.monitor: Mute(100), alarms[1].alarm.monitor: Mute(200, "known")}
    assert [incident.mute for incident in incidents_of(alarms, mutes, 50)] == [Mute(100)]
    assert [incident.mute for incident in incidents_of(alarms, mutes, 150)] == [None]


@dataclass
class Receiver:
    """Receives notifications in memory."""

    name: str = "memory"
    repeats: bool = False
    got: list[int | None] = field(default_factory=list)

    def notify(self, kept: KeptAlarm) -> None:
        self.got.append(kept.ended)


@pytest.fixture
def low(store: ResultsStore) -> ResultsStore:
    """A store whose mean was below 0.9 until a moment ago."""
    store.write(records(600, hours=12, mean=lambda hour: 0.7, end=time.time() - 60))
    return store


@pytest.mark.parametrize("muted_first", [True, False])
def test_nobody_is_notified_of_a_muted_alarm_but_of_the_end_of_a_known_one(
    low: ResultsStore, muted_first: bool
) -> None:
    receiver = Receiver()
    check = AlarmCheck(low.database, LOW, [receiver])
    (AlarmCheck(low.database, LOW) if muted_first else check).run()
    mute(low.database, "floor grounded support", time.time() + 3600)
    check.run()
    assert len(receiver.got) == (0 if muted_first else 1)
    AlarmCheck(low.database, AlarmLimits(), [receiver]).run()
    assert len(receiver.got) == (0 if muted_first else 2)


def test_a_note_stays_with_an_acknowledged_alarm(low: ResultsStore) -> None:
    page = Page(low.database, access=Access(None, "localhost"), limits=LOW)
    page.alarm_check.run_once()
    client = TestClient(page.app, base_url="http://localhost")
    (alarm,) = lasting_alarms(low.database)
    form = {"csrf": page._access.csrf, "monitors": json.dumps([alarm.alarm.monitor]), "note": "Rolled back."}
    client.post("/alarms", data=form | {"action": "mute 1d"})
    assert "Rolled back." in client.get("/alarms").text
    assert [each.ended for each in alarms_of(low.database)] == [None]
    once = ["monitor", low.database.name, "--once", "--floor", "grounded=0.9"]
    assert CliRunner().invoke(app, once).exit_code == 0, "muted"
    client.post("/alarms", data=form | {"action": "unmute"})
    assert CliRunner().invoke(app, once).exit_code == 1
    client.post("/alarms", data=form | {"action": "acknowledge"})
    assert lasting_alarms(low.database) == []
    assert [each.note for each in alarms_of(low.database)] == ["Rolled back."]
    assert client.post("/alarms", data=form | {"action": "acknowledge"}).status_code == 400, "it has ended"
    assert client.post("/alarms", data=form | {"csrf": "forged"}).status_code == 403


def test_commands_mute_and_acknowledge_with_a_note_too(low: ResultsStore) -> None:
    page = Page(low.database, access=Access(None, "localhost"), limits=LOW)
    client = TestClient(page.app, base_url="http://localhost")

    def command(*words: str, code: int = 0) -> str:
        done = CliRunner().invoke(app, list(words))
        assert done.exit_code == code, done.output
        return done.output

    once = ["monitor", low.database.name, "--once", "--floor", "grounded=0.9"]
    change = (low.database.name, "floor grounded support", "--note", "Rolled\x1b back.")
    command("results", "mute", *change, code=2)  # no current alarm yet
    command(*once, code=1)
    command("results", "mute", *change, "--for", "2h")
    quiet = command(*once)
    assert "no alarm" in quiet
    assert "UTC: floor grounded support: Rolled  back." in quiet
    assert json.loads(command(*once, "--json"))["muted"]["floor grounded support"]["note"] == change[-1]
    assert "Rolled\x1b back." in client.get("/").text
    command("results", "mute", *change[:2], "--end")
    command(*once, code=1)
    command("results", "acknowledge", *change)
    assert [each.note for each in alarms_of(low.database)] == [change[-1]]
