"""The page in a real browser: every view, both themes, a phone's width, hostile content, and a label."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from otel_evals_monitor._internal.alarms.check import AlarmCheck
from otel_evals_monitor._internal.alarms.limits import AlarmLimits
from otel_evals_monitor._internal.alarms.record import acknowledge
from otel_evals_monitor._internal.store.database import Database
from otel_evals_monitor._internal.store.labels import add_feedback
from otel_evals_monitor._internal.store.writer import ResultsStore
from tests.support.browser import CHROMIUM, browser_page, picture
from tests.support.result_records import record, records
from tests.support.waits import SECONDS

pytestmark = [pytest.mark.interop, pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")]

COMMAND = [sys.executable, "-c", "from otel_evals._internal.cli import main; main()"]
UNBUFFERED = {**os.environ, "PYTHONUNBUFFERED": "1"}
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
"""One pixel."""
LONG = "unbreakable" * 20
HOSTILE = "<script>document.title='stolen'</script><img src=x onerror=\"document.title='stolen'\">\x1b[31m"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "results.db"
    opened = ResultsStore(path)
    old = records(1_500, version="1", hours=48, mean=lambda hour: 0.95)
    new = records(900, version="2", hours=16, seed=2, mean=lambda hour: 0.6)
    opened.write([*old, *new, record(7, 0.0) | {"output": HOSTILE, "agent": HOSTILE, "input": HOSTILE}])
    opened.write([record(8, 0.0, scorer=HOSTILE)])
    elsewhere = {"side": "input", "kind": "image", "uri": "https://cdn.example/a.png", "name": HOSTILE}
    image = {"side": "input", "kind": "image", "mime_type": "text/html", "size": 70, "base64": PNG}
    opened.write([record(9, 0.0) | {"media": [image, elsewhere, {"side": "output"}, 7]}])
    opened.write([_long(number) for number in range(10, 30)])
    add_feedback(opened.database, record(10, 0.0)["trace_id"], 0, name=LONG[:200], comment=LONG * 9)
    opened.close()
    database = Database(path)
    check = AlarmCheck(database, AlarmLimits(floors={"grounded": 0.9}))
    check.run()
    acknowledge(database, "silence shop", time.time(), LONG)
    check.run()
    database.close()
    return path


def _long(number: int) -> dict[str, Any]:
    """A run whose names and texts have no place to break a line."""
    texts = dict.fromkeys(("output", "input", "user_id", "tenant", "agent"), LONG)
    run = record(number, number % 3 / 2, scorer=LONG, version=LONG, conversation=LONG) | texts
    call = {"name": LONG, "status": "error", "error": LONG, "arguments": {LONG: LONG}, "result": None}
    run |= {"tool_calls": [call], "documents": [{"id": LONG, "content": LONG}]}
    facts = [{"kind": LONG, "text": LONG, "found": False, "where": LONG}]
    step = {"name": "analyze", "model": LONG, "prompt": LONG, "result": facts}
    marks = {"effect": "rewritten", "evidence_cut": True, "label": LONG, "version": LONG, "explanation": LONG}
    run["evaluations"][0] |= {"steps": [step], "review": LONG, **marks}
    failed = {"status": "failed", "reason": LONG, "value": None}
    run["evaluations"].append(record(number, 0.0)["evaluations"][0] | failed)
    return run


@pytest.fixture(scope="module")
def address(store: Path) -> Iterator[str]:
    """The command, as a process of its own."""
    yield from served(store, "--floor", "grounded=0.9", "--link", "jaeger=http://localhost:16686")


def served(store: Path, *options: str) -> Iterator[str]:
    command = [*COMMAND, "monitor", str(store), "--port", "0", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=UNBUFFERED)
    try:
        assert process.stdout is not None
        found = re.search(r"http://\S+", process.stdout.readline())
        assert found is not None
        yield found[0].rstrip("/")
    finally:
        process.terminate()
        process.wait(SECONDS)


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with browser_page() as opened:
        yield opened


VIEWS = {
    "scorers": "/",
    "long-scorers": "/?window=all",
    "scorer": "/scorer?scorer=grounded&agent=support&window=all",
    "scorer-few": "/scorer?scorer=grounded&agent=support&by=tenant&since=1790170000&until=1790171000",
    "scorer-filtered": "/scorer?scorer=grounded&agent=support&window=2d&version=2&text=day+2000",
    "nothing": "/scorer?scorer=grounded&agent=support&version=none",
    "runs": "/runs?scorer=grounded&agent=support&order=worst",
    "run": f"/runs/{record(2_000_000, 0.0)['trace_id']}",
    "hostile": f"/runs/{record(7, 0.0)['trace_id']}",
    "media": f"/runs/{record(9, 0.0)['trace_id']}",
    "long-run": f"/runs/{record(10, 0.0)['trace_id']}",
    "long-runs": f"/runs?scorer={LONG}&agent={LONG}&order=worst",
    "long-scorer": f"/scorer?scorer={LONG}&agent={LONG}&window=all",
    "all-runs": "/runs",
    "labels": "/labels",
    "missing": "/runs/none",
}


CLIPPED = """() => [...document.querySelectorAll("main *, header *")].filter(each => {
    if (!each.checkVisibility() || each.closest(".tip, .sr") || !each.textContent.trim()) return false;
    const box = each.getBoundingClientRect();
    if (each instanceof SVGTextElement) {
        const plot = each.ownerSVGElement.getBoundingClientRect();
        return box.left < plot.left - 1 || box.right > plot.right + 1 || box.bottom > plot.bottom + 1;
    }
    const wide = each.scrollWidth > each.clientWidth + 1, high = each.scrollHeight > each.clientHeight + 1;
    if (box.right > innerWidth + 1 || wide && each.matches(".scroll, pre")) return true;
    const hidden = getComputedStyle(each).overflowX !== "visible";
    return hidden && (wide || high) && !each.matches(".scroll, pre, select, input");
}).map(each => each.outerHTML.slice(0, 200))"""
"""Finds texts that are cut at the edge of their box, plot or screen, or have to be scrolled sideways."""
OPEN_ALL = "document.querySelectorAll('main details').forEach(each => { each.open = true })"


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_is_whole_and_accessible_at_every_width(
    name: str, scheme: Any, address: str, page: Page, tmp_path: Path
) -> None:
    """No text is cut, and axe finds nothing: WCAG 2.2 to level AA, and its best practices."""
    problems: list[str] = []

    def note(message: Any) -> None:
        if message.type == "error" and name != "missing":
            problems.append(message.text)

    page.on("console", note)
    page.emulate_media(color_scheme=scheme)
    for width in (390, 1280, 1920):
        page.set_viewport_size({"width": width, "height": 800})
        answer = page.goto(address + VIEWS[name])
        assert answer is not None
        assert answer.status == (404 if name == "missing" else 200)
        assert "stolen" not in page.title()
        assert page.locator("h1").count() == 1
        if "OTEL_EVALS_SCREENSHOTS" in os.environ:
            page.screenshot(path=picture(tmp_path, f"monitor-{name}-{scheme}-{width}.png"), full_page=True)
        for plot in page.locator("svg.plot.wide:visible").all()[:1]:
            box = plot.bounding_box()
            assert box is not None
            assert box["y"] + box["height"] <= 800, "the plot is above the fold"
        page.evaluate(OPEN_ALL)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(CLIPPED) == []
        if width == 1280 or (width, scheme) == (390, "light"):
            found = Axe().run(page).response["violations"]
            assert {each["id"]: [node["target"] for node in each["nodes"]] for each in found} == {}
    page.remove_listener("console", note)
    assert problems == []


def test_from_an_alarm_to_a_run_to_a_label(address: str, page: Page, store: Path) -> None:
    page.goto(address + "/")
    worse = page.locator(".incident", has_text="got worse with version 2")
    assert worse.count() == 1, "one cause is one incident"
    assert worse.locator("tbody tr").count() == 1, "one line for each scorer"
    page.get_by_role("link", name="Worst runs since then").click()
    page.locator("tbody a").first.click()
    expect(page.locator(".said.answer")).to_contain_text("It ships on day")
    assert page.get_by_role("link", name="open the trace").get_attribute("href") is not None
    page.get_by_label("Pass").check()
    page.get_by_role("button", name="Save the label").click()
    assert page.get_by_role("status").inner_text() == "The label is saved."
    assert page.get_by_label("What should the score be?").input_value() == "1.0"


def test_new_runs_appear_without_a_reload(page: Page, tmp_path: Path) -> None:
    opened = ResultsStore(tmp_path / "live.db")
    opened.write([record(76, 1.0)])
    for address in served(tmp_path / "live.db"):
        page.goto(address + "/runs?scorer=grounded&agent=support")
        page.evaluate("window.same = true")
        page.get_by_text("0 runs in the last hour").wait_for(timeout=20_000)
        assert page.get_by_text("It ships on day 77.").count() == 0
        opened.write([record(77, 1.0, time=time.time() - 5)])
        page.get_by_text("It ships on day 77.").wait_for(timeout=20_000)
        page.get_by_text("1 run in the last hour").wait_for(timeout=20_000)
        page.get_by_label("Text").fill("half a wo")
        opened.write([record(78, 1.0, time=time.time() - 5)])
        page.get_by_text("2 runs in the last hour").wait_for(timeout=20_000)
        page.wait_for_timeout(1_000)
        assert page.get_by_label("Text").input_value() == "half a wo", "nobody is interrupted"
        assert page.evaluate("window.same") is True
    opened.close()


def test_new_alarms_appear_without_a_reload(page: Page, tmp_path: Path) -> None:
    opened = ResultsStore(tmp_path / "live.db")
    opened.write([record(1, 1.0, time=time.time() - 86_400)])
    for address in served(tmp_path / "live.db", "--floor", "grounded=0.9"):
        page.goto(address + "/")
        page.evaluate("window.same = true")
        page.locator("#live.on").wait_for(timeout=20_000)
        assert page.locator(".incident").count() == 0
        opened.write(records(600, hours=12, mean=lambda hour: 0.6, end=time.time() - 60))
        AlarmCheck(opened.database, AlarmLimits(floors={"grounded": 0.9})).run()
        page.locator(".incident", has_text="floor 0.9").wait_for(timeout=20_000)
        assert page.locator("nav .count").inner_text() == "1"
        assert page.evaluate("window.same") is True
    opened.close()


def test_an_incident_is_acknowledged_with_a_note(address: str, page: Page) -> None:
    page.goto(address)
    worse = page.locator(".incident", has_text="support got worse").first
    number = page.locator(".incident").count()
    worse.get_by_text("Acknowledge").first.click()
    worse.get_by_label("Note").fill("Rolled back.")
    worse.get_by_role("button", name="Known: tell me if it begins again").click()
    expect(page.locator(".incident")).to_have_count(number - 1)
    page.get_by_text("ended alarm").click()
    expect(page.get_by_role("cell", name="Rolled back.").first).to_be_visible()


def test_times_are_the_browser_s(address: str, page: Page) -> None:
    browser = page.context.browser
    assert browser is not None
    with browser.new_context(timezone_id="Asia/Tokyo") as context:
        local = context.new_page()
        local.goto(address + VIEWS["scorer"])
        local.get_by_text("Asia/Tokyo").wait_for()
        shown = local.locator("main td time").first
        assert (shown.get_attribute("title") or "").endswith("JST")
        assert (shown.get_attribute("datetime") or "").endswith("+00:00")


def test_recorded_images_are_shown_and_nothing_is_loaded_from_elsewhere(address: str, page: Page) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address + VIEWS["media"])
    (image,) = page.locator("figure img").all()
    assert (image.get_attribute("src") or "").startswith("data:image/png;base64,")
    assert image.evaluate("each => each.naturalWidth") == 1
    assert "cdn.example" in page.locator("figcaption").last.inner_text()
    assert all(url.startswith((address, "data:")) for url in asked), asked
    assert "stolen" not in page.title()


def test_from_a_point_of_the_plot_to_its_runs(address: str, page: Page) -> None:
    page.set_viewport_size({"width": 1200, "height": 900})
    page.goto(address + VIEWS["scorer"])
    page.locator("svg.plot.wide a .hit").nth(5).click()
    page.wait_for_url("**/runs?**")
    assert page.locator("tbody tr").count() > 3


def test_tables_stand_beside_plots_and_the_keyboard_reaches_everything(address: str, page: Page) -> None:
    page.goto(address + VIEWS["scorer"])
    assert page.locator("svg[role=group][aria-label]:visible").count() == 1
    page.get_by_text("The plot as a table").press("Enter")
    assert page.get_by_role("region", name="The plot as a table").locator("tbody a").count() > 10
    unnamed = "els => els.filter(e => !(e.textContent || e.getAttribute('aria-label') || '').trim()).length"
    assert page.eval_on_selector_all("a:not([tabindex]), button", unnamed) == 0
    assert (
        page.eval_on_selector_all(
            "input:not([type=hidden]), select", "els => els.filter(e => !e.labels.length).length"
        )
        == 0
    )


def fetch(url: str, data: bytes | None = None, **headers: str) -> tuple[int, str, Any]:
    request = urllib.request.Request(url, data, {k.replace("_", "-"): v for k, v in headers.items()})
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.read().decode(), answer.headers
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(), error.headers


def test_other_sites_can_neither_read_nor_write(address: str, page: Page) -> None:
    _, _, headers = fetch(address + "/")
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "unsafe-inline" not in headers["Content-Security-Policy"]
    assert fetch(address + "/", Host="evil.example")[0] == 403
    form = b"evaluation_id=x&label=1"
    assert fetch(address + "/labels", form)[0] == 403
    page.goto(address + VIEWS["run"])
    token = page.locator("input[name=csrf]").first.get_attribute("value") or ""
    with_token = form + b"&csrf=" + token.encode()
    assert fetch(address + "/labels", with_token, Origin="http://evil.example")[0] == 403
    assert fetch(address + "/labels", with_token)[0] == 400
    feedback = json.dumps({"trace_id": "ab" * 16, "value": True}).encode()
    assert fetch(address + "/feedback", feedback, Content_Type="text/plain")[0] == 415
    assert fetch(address + "/feedback", feedback, Content_Type="application/json")[0] == 201
    for wrong in (b"[]", b"{", b'{"trace_id": 1}', b'{"trace_id": "x", "value": 1}', b'{"value": NaN}'):
        assert fetch(address + "/feedback", wrong, Content_Type="application/json")[0] == 400


@pytest.mark.parametrize(
    "path",
    [
        "/runs/none",
        "/runs/%00",
        "/scorer?scorer=no",
        "/runs?since=x",
        "/scorer?scorer=grounded&agent=support&by=color",
    ],
)
def test_what_is_not_there_is_said(address: str, path: str) -> None:
    status, text, _ = fetch(address + path)
    assert status == 404
    assert "Not found" in text


def test_elsewhere_a_token_is_needed(store: Path, page: Page) -> None:
    code = "from otel_evals._internal.cli import main; main()"
    refused = [sys.executable, "-c", code, "monitor", str(store), "--host", "0.0.0.0"]
    done = subprocess.run(refused, capture_output=True, text=True, check=False, timeout=SECONDS)
    assert (done.returncode, "--token" in done.stderr) == (2, True)
    for address in served(store, "--token", "a-long-enough-token"):
        assert fetch(address + "/")[0] == 401
        assert fetch(address + "/?token=wrong-wrong-wrong")[0] == 401
        assert fetch(address + "/", Authorization="Bearer a-long-enough-token")[0] == 200
        page.goto(address + "/?token=a-long-enough-token")
        assert "token" not in page.url
        assert page.locator("h1").inner_text() == "Overview"


@pytest.mark.timeout(300)
def test_from_the_demo_s_alarm_to_a_failing_test(
    tmp_path: Path, page: Page, record_property: Callable[[str, object], None]
) -> None:
    """The way of somebody who reads no documentation: only what is on the page is clicked and run."""
    began = time.monotonic()
    demo = [*COMMAND, "demo", "--monitor", "--port", "0", "--no-browser"]
    with subprocess.Popen(demo, cwd=tmp_path, stdout=subprocess.PIPE, text=True, env=UNBUFFERED) as process:
        try:
            assert process.stdout is not None
            address = next(m[0] for line in process.stdout if (m := re.search(r"http://[\d.:]+", line)))
            served = time.monotonic()
            page.goto(address)
            clicks = (
                page.get_by_role("link", name="Worst runs since then"),
                page.locator("tbody a[href^='/runs/']").first,
            )
            for each in clicks:
                each.click()
            assert len(clicks) <= 3
            # The cause: a tool failed, and the answer is made up.
            expect(page.locator(".call.error").first).to_be_visible()
            expect(page.locator(".said.answer mark").first).to_be_visible()
            page.get_by_role("radio", name="Fail").check()
            page.get_by_label("Failure type").fill("invented answer")
            page.get_by_label("Expected answer").first.fill("The refund is not there yet.")
            page.get_by_role("button", name="Save the label").first.click()
            assert page.get_by_role("status").inner_text() == "The label is saved."
            shown = page.get_by_role("heading", name="Turn it into a test").locator("xpath=following::pre[1]")
            words = shlex.split(shown.inner_text())
        finally:
            process.terminate()
    assert words[:2] == ["otel-evals", "export"]
    told = subprocess.run([*COMMAND, *words[1:]], cwd=tmp_path, check=True, capture_output=True, text=True)
    (run_it,) = re.findall(r"run it: (pytest .+)", told.stdout)
    tried = subprocess.run(
        [sys.executable, "-m", *run_it.split(), "-p", "no:cacheprovider"],
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
    )
    assert tried.returncode == 1, tried.stdout
    assert "1 failed" in tried.stdout
    record_property("seconds_from_the_page", round(time.monotonic() - served, 1))
    record_property("seconds_from_the_command", round(time.monotonic() - began, 1))
