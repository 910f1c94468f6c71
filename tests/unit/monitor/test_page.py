"""The page's numbers, filters, times and texts."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from html import unescape
from typing import Any

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from otel_evals._internal.cli.app import app
from otel_evals_monitor._internal.page.access import Access
from otel_evals_monitor._internal.page.app import Page, pulse_of
from otel_evals_monitor._internal.report.words import Zone, number
from otel_evals_monitor._internal.store.writer import ResultsStore
from tests.support.result_records import START, record, records

END = START + 48 * 3600
SCORER = "/scorer?scorer=grounded&agent=support"


@pytest.fixture
def client(store: ResultsStore) -> TestClient:
    return TestClient(Page(store.database, access=Access(None, "localhost")).app, base_url="http://localhost")


def report(store: ResultsStore, *options: str) -> dict[str, Any]:
    done = CliRunner().invoke(app, ["report", store.database.name, "--json", *options])
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def reported(store: ResultsStore, *options: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = report(store, *options)["estimates"]
    return found


def words(html: str) -> str:
    """Return the text of a page with single spaces."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).replace("\N{MINUS SIGN}", "-").split())


def varied(store: ResultsStore) -> None:
    """Two agents, versions and tenants, weights, missing scores, and two versions of the scorer."""
    store.write(records(900, version="1", mean=lambda hour: 0.95, probability=0.5, tenant="eu"))
    store.write(records(400, version="2", hours=16, seed=2, mean=lambda hour: 0.7, tenant="us"))
    store.write(records(60, hours=20, seed=3, status="failed", reason="TimeoutError"))
    store.write(records(80, hours=30, seed=4, agent="concierge", mean=lambda hour: 0.5))
    newer = list(records(180, hours=14, seed=5, mean=lambda hour: 0.6))
    for each in newer:
        each["evaluations"][0]["version"] = "b2"
    store.write(newer)


def shown(each: dict[str, Any]) -> list[str]:
    """Return the numbers of an estimate as the page writes them."""
    change = each["change"]
    found = [number(each["mean"]), f"{number(each['low'])} to {number(each['high'])}", f"{each['n']} scored"]
    return (
        [*found, f"{change['mean']:+.3f}", f"{change['low']:+.3f} to {change['high']:+.3f}"]
        if change
        else found
    )


def test_the_overview_has_the_numbers_of_the_report(store: ResultsStore, client: TestClient) -> None:
    varied(store)
    estimates = reported(store, "--window", "24h", "--against", "previous")
    newest = [
        each for each in estimates if each["scorer_version"] == "b2" or each["agent_name"] == "concierge"
    ]
    rows = {
        row[0]: words(row[1])
        for row in re.findall(r'data-agent="(\w+)">(.*?)</tr>', client.get("/").text, re.S)
    }
    assert set(rows) == {"support", "concierge"}
    for each in newest:
        for text in shown(each):
            assert text in rows[each["agent_name"]]


@pytest.mark.parametrize(
    "window", ["24h", *(pytest.param(w, marks=pytest.mark.slow) for w in ("6h", "7d", "all"))]
)
def test_a_scorer_s_page_has_the_numbers_of_the_report(
    store: ResultsStore, client: TestClient, window: str
) -> None:
    varied(store)
    length = [] if window == "all" else ["--window", window, "--against", "previous"]
    page = words(client.get(f"{SCORER}&window={window}").text)
    only = ["--scorer", "grounded", "--agent", "support"]
    (whole,) = [each for each in reported(store, *length, *only) if each["scorer_version"] == "b2"]
    for text in (*shown(whole)[:2], f"{whole['n']} scored of {whole['sampled']} sampled", *shown(whole)[3:]):
        assert text in page
    split = reported(store, "--by", "version", *only, *length[:2])
    for each in split:
        row = f"{each['agent_version']} {each['scorer_version']} {number(each['mean'])}"
        assert f"{row} {number(each['low'])} to {number(each['high'])}" in page


NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?")
NO_NUMBERS = re.compile(
    r"<(svg|time|select|form|details|nav|header|title|style|script)\b.*?</\1>"
    r"|newest run [^<]*",
    re.S,
)


def leaves(value: Any) -> Iterator[Any]:
    match value:
        case dict():
            for each in value.values():
                yield from leaves(each)
        case list():
            for each in value:
                yield from leaves(each)
        case _:
            yield value


def told(estimates: list[dict[str, Any]]) -> set[str]:
    """Return the numbers of estimates in every form that the page writes."""
    found: set[str] = set()
    for value in leaves(estimates):
        if isinstance(value, str):
            found |= set(NUMBER.findall(value))
        elif value is not None:
            percent = 100 * value
            forms = (number(value), f"{value:+.3f}", f"{value:,.0f}", f"{value:,.2f}")
            found |= {*forms, f"{percent:.1f}", f"{percent:.0f}"}
    found |= {f"{100 * e['sampled'] / e['stands_for']:.0f}" for e in estimates if e["stands_for"]}
    return found


@pytest.mark.parametrize("window", [pytest.param("6h", marks=pytest.mark.slow), "24h", "all"])
def test_every_number_of_the_page_is_one_of_the_report(
    store: ResultsStore, client: TestClient, window: str
) -> None:
    varied(store)
    length = [] if window == "all" else ["--window", window]
    change = [*length, "--against", "previous"] if length else []
    whole = report(store, *change)
    every, (first, last) = whole["estimates"], map(datetime.fromisoformat, whole["recorded"])
    start = max(first, datetime.fromisoformat(whole["since"] or whole["recorded"][0]))
    days = (last - start).total_seconds() / 86_400
    known = told(every)
    for agent in {each["agent_name"] for each in every}:
        represented = sum(each["stands_for"] for each in every if each["agent_name"] == agent)
        known |= {f"{represented / days:,.0f}", f"{represented / days:.1f}"}
    overview = words(NO_NUMBERS.sub(" ", client.get(f"/?window={window}").text))
    assert set(NUMBER.findall(overview)) - known <= {"0.9", "2"}, (
        "the floor to try, and the scorer's versions"
    )
    only = ["--scorer", "grounded", "--agent", "support", "--worst", "50"]
    known = told(reported(store, *change, *only))
    known |= told(reported(store, *length, "--by", "version", "--against", "1", *only))
    page = words(NO_NUMBERS.sub(" ", client.get(f"{SCORER}&window={window}").text))
    shown = set(NUMBER.findall(page))
    assert len(shown) > 20
    assert shown - known <= {"2"}, "the scorer's versions"


def test_the_plot_has_the_means_of_the_report(store: ResultsStore, client: TestClient) -> None:
    varied(store)
    page = client.get(f"{SCORER}&window=24h&version=2").text
    rows = re.findall(r"since=(\d+)&amp;until=(\d+).*?>([\d.]+|too few)</td>.*?Scored\">(\d+)<", page, re.S)
    assert len(rows) > 10
    for since, until, mean, scored in rows[:: len(rows) // 5]:
        inside = [datetime.fromtimestamp(int(each), UTC).isoformat() for each in (since, until)]
        found = reported(store, "--since", inside[0], "--until", inside[1], "--by", "version")
        (row,) = [e for e in found if (e["agent_version"], e["agent_name"]) == ("2", "support")]
        assert (mean, int(scored)) == ("too few" if row["too_few"] else number(row["mean"]), row["n"])


def test_failure_patterns_are_those_of_the_report(store: ResultsStore, client: TestClient) -> None:
    store.write(records(200, mean=lambda hour: 0.7, tool_calls=[{"name": "track", "status": "error"}]))
    (row,) = reported(store, "--window", "24h")
    page = words(client.get(SCORER).text)
    assert f"{row['failures']['runs']} failing runs" in page
    assert row["failures"]["patterns"]
    for each in row["failures"]["patterns"]:
        assert f"{' '.join(each['name'].split())} {each['runs']} run" in page
    assert "more of the worst" in page, "equal failures are one line"


def test_filters_of_runs_change_every_number(store: ResultsStore, client: TestClient) -> None:
    store.write(records(100, hours=5))
    store.write(records(30, hours=5, seed=2, mean=lambda hour: 0.0, output='He said "Ä 100%_\\n".'))
    assert "100 scored" not in words(client.get(SCORER).text)
    for text in ('said "Ä', "100%_", "HE SAID", "\\n"):
        page = words(client.get(SCORER, params={"scorer": "grounded", "agent": "support", "text": text}).text)
        assert "0.000 mean" in page
        assert "30 scored of 30 sampled" in page
    assert "No runs match" in client.get(f"{SCORER}&text=100%25x").text
    assert "No runs match" in client.get(f"{SCORER}&label=none").text
    found = client.get("/runs", params={"text": "he said", "scorer": "grounded", "agent": "support"}).text
    assert "Runs 1 to 30" in found


def test_runs_are_on_pages_and_none_is_on_two(store: ResultsStore, client: TestClient) -> None:
    store.write(records(120, mean=lambda hour: 0.5))
    for order in ("", "worst"):
        seen: list[str] = []
        for page in (1, 2, 3):
            text = client.get(f"/runs?scorer=grounded&agent=support&order={order}&page={page}").text
            seen += re.findall(r'href="/runs/([0-9a-f]{32})', text)
        assert len(seen) == len(set(seen))
        assert len(seen) == 120 if not order else 40 < len(seen) < 80


def test_all_runs_have_their_scores(store: ResultsStore, client: TestClient) -> None:
    store.write(records(60, hours=2, tenant="eu"))
    both = record(99, 0.25, time=END + 60, agent="concierge")
    both["evaluations"] += record(99, 1.0, scorer="polite")["evaluations"]
    store.write([both])
    page = client.get("/runs").text
    assert "Runs 1 to 50" in page
    assert re.search(r'grounded <b class="bad">0.250</b>.*polite <b>1.000</b>', page, re.S)
    assert "Runs 51 to 61" in client.get("/runs?page=2").text
    for query, count in (("agent=concierge", 1), ("tenant=eu&page=2", 10), ("text=day+99", 1)):
        assert client.get(f"/runs?{query}").text.count("<tr><td>") == count
    assert "No runs match" in client.get("/runs?status=failed").text


def test_times_are_in_the_zone_of_the_browser_which_is_named(store: ResultsStore, client: TestClient) -> None:
    store.write(records(60, hours=2))
    path = "/runs?scorer=grounded&agent=support"
    assert ">UTC<" in client.get(path).text
    client.cookies.set("otel_evals_zone", "Asia/Tokyo")
    page = client.get(path).text
    assert "Asia/Tokyo" in page
    assert Zone.named("Asia/Tokyo").short(END - 120) in page
    # A time of a form is local: 60 runs in two hours, one every two minutes.
    hour = Zone.named("Asia/Tokyo").at(END - 3600).strftime("%Y-%m-%dT%H:%M")
    assert "Runs 1 to 30" in client.get(f"{path}&since={hour}").text


def test_days_of_a_plot_begin_at_midnight_after_clocks_change(
    store: ResultsStore, client: TestClient
) -> None:
    store.write(records(240, hours=240, end=START + 39 * 86_400))  # until 30 October
    client.cookies.set("otel_evals_zone", "Europe/Berlin")
    page = client.get("/scorer?scorer=grounded&agent=support&window=all").text
    assert page.count(">25 Oct</text>") == 1


@pytest.mark.parametrize(
    "zone", ["../../etc/passwd", "/etc/passwd", "Nowhere/Land", "x" * 9_000, "\x00", "America"]
)
def test_an_unknown_zone_is_utc(zone: str) -> None:
    assert Zone.named(zone).name == "UTC"


def test_empty_pages_say_what_to_do_next(client: TestClient, store: ResultsStore) -> None:
    page = client.get("/").text
    for text in (
        "Nothing is on record yet",
        store.database.name,
        "otel-evals doctor",
        "otel-evals demo --monitor",
    ):
        assert text in page
    store.write(records(60, hours=1))
    assert "Show all" in client.get(f"/?since={START}&until={START + 60}").text
    assert client.get("/runs?status=failed").text.count("Clear all filters") == 1


def test_a_blocked_answer_and_cut_evidence_are_marked(store: ResultsStore, client: TestClient) -> None:
    run = record(1, 0.0)
    run["evaluations"][0] |= {"effect": "blocked", "evidence_cut": True}
    store.write([run, record(2, 0.0), record(3, 0.0) | {"evaluations": [_odd(record(3, 0.0))]}])
    for path in ("/runs", "/runs?scorer=grounded&agent=support"):
        page = words(client.get(path).text)
        assert (page.count("0.000 blocked evidence cut"), page.count(" blocked ")) == (1, 1)
    page = words(client.get(f"/runs/{run['trace_id']}").text)
    assert "The application blocked this answer." in page
    assert "The judge saw only a part of the evidence" in page
    (row,) = reported(store, "--worst", "9")
    effects = {each["trace_id"]: (each["effect"], each["evidence_cut"]) for each in row["worst"]}
    assert effects.pop(run["trace_id"]) == ("blocked", True)
    assert set(effects.values()) == {(None, False)}


def _odd(run: dict[str, Any]) -> dict[str, Any]:
    evaluation: dict[str, Any] = run["evaluations"][0] | {"effect": ["blocked"], "evidence_cut": "no"}
    return evaluation


def test_one_label_form_follows_the_selected_score(store: ResultsStore, client: TestClient) -> None:
    both = record(1, 1.0, output="<b onclick=x>day</b> & night")
    both["evaluations"] += record(1, 0.0, scorer="polite")["evaluations"]
    facts = [{"kind": "number", "text": "day", "found": False}, {"kind": "name", "text": "It", "found": True}]
    both["evaluations"][1]["steps"] = [{"name": "analyze", "result": facts}]
    store.write([both])
    worst = client.get(f"/runs/{both['trace_id']}").text
    assert worst.count('action="/labels"') == 1
    assert "polite: 0.000" in worst, "the worst score is selected"
    assert "Checked 2 facts: 1 found nowhere" in worst
    assert "&lt;b onclick=x&gt;<mark>day</mark>&lt;/b&gt; &amp; night" in worst
    chosen = client.get(f"/runs/{both['trace_id']}?score={both['evaluations'][0]['evaluation_id']}").text
    assert "grounded: 1.000" in chosen
    assert "Asked judge-1 to analyse the run" in chosen


def test_an_open_page_hears_of_new_runs_and_of_no_backfill_as_live(
    store: ResultsStore, client: TestClient
) -> None:
    now = time.time()
    store.write([record(1, 1.0, time=now - 60)])
    old = record(2, 1.0, time=now - 5 * 86_400)
    old["evaluations"][0]["time"] = int(now * 1e9)
    store.write([old])
    pulse = client.get("/pulse").json()
    assert (pulse["hour"], pulse["alarms"]) == (1, [])
    assert pulse == pulse_of(store.database)
    assert "1 score in this range is of a backfill" in words(client.get("/?window=7d").text)
    assert "backfill" not in client.get("/?window=24h").text


def test_a_scorer_without_floor_or_reference_is_not_called_ok(store: ResultsStore) -> None:
    rows = list(records(200, hours=10, end=time.time() - 60))
    for each in rows:
        each["evaluations"][0] |= {"scale": None}
    store.write(rows)
    page = Page(store.database, access=Access(None, "localhost"))
    page.alarm_check.run_once()
    assert "Not watched" in TestClient(page.app, base_url="http://localhost").get("/").text


def test_a_name_may_look_like_a_time_that_not_every_zone_has(store: ResultsStore) -> None:
    store.write(records(60, hours=2, end=time.time() - 60, agent="0001-01-01 00:00 UTC"))
    page = Page(store.database, access=Access(None, "localhost"))
    page.alarm_check.run_once()
    client = TestClient(
        page.app, base_url="http://localhost", cookies={"otel_evals_zone": "America/New_York"}
    )
    assert client.get("/scorer?scorer=grounded&agent=0001-01-01+00:00+UTC").text.count("0001-01-01") > 2


@pytest.mark.parametrize("path", ["/", "/runs", "/runs?scorer=grounded", SCORER])
@pytest.mark.parametrize("asked", ["since=250000000000", "until=9300000000", "since=2400-01-01T00:00"])
def test_times_beyond_a_databases_numbers_are_refused(
    store: ResultsStore, client: TestClient, path: str, asked: str
) -> None:
    store.write(records(20))
    answer = client.get(f"{path}{'&' if '?' in path else '?'}{asked}")
    assert (answer.status_code, "must be a time between" in answer.text) == (404, True)


def test_a_record_of_a_clock_that_is_years_ahead_is_not_the_end_of_the_window(
    store: ResultsStore, client: TestClient
) -> None:
    now = time.time()
    store.write(records(300, end=now - 60, mean=lambda hour: 1.0))
    before = words(client.get(SCORER).text)
    store.write([record(9_999, 0.0, time=now + 10 * 365 * 86_400)])
    assert (
        words(client.get(SCORER).text).partition("The plot as a table")[0]
        == (before.partition("The plot as a table")[0])
    )
    assert re.search(r'class="value">1.000<', client.get("/").text)
    (found,) = reported(store, "--window", "24h")
    assert found["mean"] == 1.0
    (every,) = reported(store)
    assert every["n"] == 301
