"""Whoever is to hear of alarms hears of each start and end once, whichever processes check."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from otel_evals.errors import ConfigError
from otel_evals_monitor import AlarmOptions
from otel_evals_monitor._internal.alarms.check import AlarmCheck
from otel_evals_monitor._internal.alarms.limits import AlarmLimits
from otel_evals_monitor._internal.alarms.receivers import HttpReceiver
from otel_evals_monitor._internal.alarms.record import Alarm
from otel_evals_monitor._internal.store.database import Database
from otel_evals_monitor._internal.store.writer import ResultsStore
from tests.support.result_records import records


class _Hook(BaseHTTPRequestHandler):
    got: list[Any]
    status = 200

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.status == 200:
            self.got.append(json.loads(body))
        self.send_response(self.status)
        if self.status == 302:
            self.send_header("Location", "/moved")
        self.end_headers()

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def hook() -> Iterator[tuple[str, type[_Hook]]]:
    handler = type("Hook", (_Hook,), {"got": []})
    server = HTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", handler
    server.shutdown()
    server.server_close()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ResultsStore]:
    """One whose mean was below 0.9 until a moment ago."""
    opened = ResultsStore(tmp_path / "results.db")
    opened.write(records(600, hours=12, mean=lambda hour: 0.7, end=time.time() - 60))
    yield opened
    opened.close()


LOW, FINE = AlarmLimits(floors={"grounded": 0.9}), AlarmLimits(floors={"grounded": 0.1})


def test_a_webhook_hears_of_each_start_and_end_once(
    store: ResultsStore, hook: tuple[str, type[_Hook]]
) -> None:
    url, handler = hook
    plain, slack = HttpReceiver(url + "/a"), HttpReceiver(url + "/b", "slack")
    check = AlarmCheck(store.database, LOW, [plain, slack])
    handler.status = 500
    assert len(check.run()) == 2
    handler.status = 200
    for _ in range(2):
        assert check.run() == []
    (started, text) = handler.got
    assert (started["state"], started["kind"], started["scorer"]) == ("started", "floor", "grounded")
    assert (started["severity"], started["before"], started["link"]) == ("critical", 0.9, None)
    assert started["now"] == pytest.approx(0.7, abs=0.1)
    assert 0 < started["evidence"] <= 1e6
    assert datetime.fromisoformat(started["since"]) < datetime.fromisoformat(started["raised"])
    assert text["text"].startswith("floor alarm started: grounded support: the mean is 0.")
    with store.database.reading() as connection:
        stored = connection.exec_driver_sql("SELECT receiver FROM notices").scalars().all()
    assert not any(url.removeprefix("http://") in each for each in stored), "addresses are secrets"
    for _ in range(2):
        assert AlarmCheck(store.database, FINE, [plain, slack]).run() == []
    assert [each.get("state", each.get("text", "")[:17]) for each in handler.got[2:]] == [
        "ended",
        "floor alarm ended",
    ]


def test_names_cannot_make_links_or_mentions_in_slack(hook: tuple[str, type[_Hook]]) -> None:
    url, handler = hook
    alarm = Alarm("m", "floor", "a", "<!channel> & <http://x|y>", 0, 60, 1e72, 400.0, "it is <b>low</b>")
    HttpReceiver(url, "slack", "http://page/").notify(alarm)
    (body,) = handler.got
    assert "a &lt;!channel&gt; &amp; &lt;http://x|y&gt;: it is &lt;b&gt;low&lt;/b&gt;" in body["text"]
    assert (body["mrkdwn"], body["parse"]) == (False, "none"), "names are neither formatted nor made links"
    link = "http://page/scorer?scorer=a&agent=%3C%21channel%3E+%26+%3Chttp%3A%2F%2Fx%7Cy%3E"
    assert body["text"].endswith(f" <{link}|Open the page>")


def test_a_redirect_is_no_delivery_and_problems_do_not_show_the_address(
    store: ResultsStore, hook: tuple[str, type[_Hook]]
) -> None:
    url, handler = hook
    handler.status = 302
    (problem,) = AlarmCheck(store.database, LOW, [HttpReceiver(url + "/services/T0/SECRET?key=SECRET")]).run()
    assert problem == f"{url.removeprefix('http://')}: HTTP Error 302: Found"
    handler.status = 200
    assert AlarmCheck(store.database, LOW, [HttpReceiver(url + "/services/T0/SECRET?key=SECRET")]).run() == []
    assert len(handler.got) == 1


def test_a_receiver_that_is_away_is_asked_once_in_a_check(store: ResultsStore) -> None:
    store.write(records(600, seed=2, agent="other", mean=lambda hour: 0.7, end=time.time() - 60))
    (problem,) = AlarmCheck(store.database, LOW, [HttpReceiver("http://127.0.0.1:9")]).run()
    assert "refused" in problem


def test_a_claim_of_a_process_whose_clock_was_ahead_does_not_hold_notifications_back(
    store: ResultsStore, hook: tuple[str, type[_Hook]]
) -> None:
    url, handler = hook
    check = AlarmCheck(store.database, LOW, [HttpReceiver(url)])
    handler.status = 500
    check.run()
    with store.database.writing() as connection:
        connection.exec_driver_sql(f"UPDATE notices SET claimed = {int(time.time()) + 86_400}")
    handler.status = 200
    check.run()
    assert len(handler.got) == 1


def test_several_processes_tell_of_an_alarm_once(store: ResultsStore, hook: tuple[str, type[_Hook]]) -> None:
    url, handler = hook
    places = [Database(store.database.name) for _ in range(4)]
    checks = [AlarmCheck(place, LOW, [HttpReceiver(url)]) for place in places]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda check: check.run(), checks * 2)) == [[]] * 8
    assert len(handler.got) == 1
    assert checks[0].checked is not None
    late = AlarmCheck(places[0], LOW)
    late.run(every=3600.0)
    late.run(every=3600.0)
    other = AlarmCheck(places[1], LOW)
    other.run(every=3600.0)
    assert other.checked is None, "another process has looked within the hour"
    for place in places:
        place.close()


def test_alertmanager_is_sent_what_lasts_again_and_its_end_once(
    store: ResultsStore, hook: tuple[str, type[_Hook]]
) -> None:
    url, handler = hook
    manager = HttpReceiver(url + "/", "alertmanager", lasts=100.0)
    for _ in range(2):
        AlarmCheck(store.database, LOW, [manager]).run()
    for _ in range(2):
        AlarmCheck(store.database, FINE, [manager]).run()
    alerts = [alert for body in handler.got for alert in body]
    assert len(alerts) == 3
    assert alerts[0]["labels"] == {
        "alertname": "OtelEvalsFloor",
        "monitor": "floor grounded support",
        "gen_ai_evaluation_name": "grounded",
        "gen_ai_agent_name": "support",
        "severity": "critical",
    }
    assert "below the floor of 0.9" in alerts[0]["annotations"]["summary"]
    assert len({alert["startsAt"] for alert in alerts}) == 1
    assert alerts[2]["endsAt"] <= alerts[0]["endsAt"]


def test_a_receiver_added_later_is_not_told_of_what_is_long_over(
    store: ResultsStore, hook: tuple[str, type[_Hook]]
) -> None:
    url, handler = hook
    AlarmCheck(store.database, LOW).run()
    AlarmCheck(store.database, FINE).run()
    with store.database.writing() as connection:
        connection.exec_driver_sql(f"UPDATE alarms SET ended = {int(time.time()) - 90_000}")
    assert AlarmCheck(store.database, FINE, [HttpReceiver(url)]).run() == []
    assert handler.got == []


@pytest.mark.parametrize("kind", ["webhook", "alertmanager"])
@pytest.mark.parametrize("address", ["file:///etc/passwd", "http://", "https://me:hunter2@example.com/"])
def test_addresses_are_http_without_passwords(kind: str, address: str) -> None:
    wrong: Any = {kind: address}
    with pytest.raises(ConfigError, match=f"{kind}: must begin with http") as refused:
        AlarmOptions(**wrong)
    assert "hunter2" not in str(refused.value)
