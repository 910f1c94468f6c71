"""The page answers hostile requests with 4xx, and bad records cost no others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from otel_evals._internal.cli.app import app
from otel_evals_monitor._internal.page.access import Access
from otel_evals_monitor._internal.page.app import Page
from otel_evals_monitor._internal.store.writer import ResultsStore
from tests.support.result_records import record

DIGITS = "9" * 400
FORM = {"content-type": "application/x-www-form-urlencoded"}
JSON = {"content-type": "application/json"}
DEEP = "[" * 100_000
TRACE = "1" * 32


@pytest.fixture
def client(store: ResultsStore) -> TestClient:
    """A client that raises no error of the server, which then answers 500."""
    store.write([record(1, 1.0)])
    page = Page(store.database, access=Access(None, "localhost"))
    return TestClient(page.app, base_url="http://localhost", raise_server_exceptions=False)


@pytest.mark.parametrize("host", ["[", "]", "[::1", "[]", "localhost:x", "", "a" * 5_000, "\\", "[::1]evil"])
def test_hostile_hosts_and_origins_are_refused(client: TestClient, host: str) -> None:
    assert client.get("/", headers={"host": host}).status_code in (200, 400, 403)
    assert client.post("/labels", headers={"origin": f"http://{host}"}).status_code == 403


@pytest.mark.parametrize(
    "path",
    [
        f"/runs?since={DIGITS}",
        f"/runs?until=-{DIGITS}",
        "/runs?since=nan",
        "/runs?since=1e14&until=-1e14",
        "/scorer?scorer=" + "x" * 5_000,
        "/scorer?scorer=grounded&agent=support&window=99999999999d",
        "/scorer?scorer=grounded&agent=support&by=%00",
        "/scorer?scorer=grounded&agent=support&text=%00%25_\\&label=" + "x" * 9_000,
        "/scorer?scorer=grounded&agent=support&since=2026-13-99T00:00",
        "/scorer?scorer=grounded&agent=support&since=0001-01-01T00:00&until=9999-12-31T23:59",
        "/scorer?scorer=grounded&agent=support&since=1790000000&until=1",
        "/?window=all&since=1e300",
        f"/runs?page={DIGITS}&window=x",
        "/runs?scorer=grounded&page=-1&order=%00",
        "/runs/%00",
        "/runs/" + "%F0%9F%92%A9" * 200,
        "/%ff",
    ],
)
def test_hostile_addresses_are_answered(client: TestClient, path: str) -> None:
    assert client.get(path).status_code in (200, 404)


@pytest.mark.parametrize(
    "body",
    [
        "a=1&" * 30,
        "x" * 100_000,
        f"label={DIGITS}",
        "csrf=%ff%fe&label=\ud800".encode("utf-8", "replace").decode(),
        "%" * 1_000,
    ],
)
@pytest.mark.parametrize("path", ["/labels", "/alarms"])
def test_hostile_forms_are_refused(client: TestClient, path: str, body: str) -> None:
    assert client.post(path, content=body, headers=FORM).status_code in (400, 403)


@pytest.mark.parametrize(
    "body",
    [
        DEEP,
        "[" * 500 + "]" * 500,
        f'{{"trace_id": "{TRACE}", "value": {DIGITS}}}',
        f'{{"trace_id": "{TRACE}", "value": 1e999}}',
        f'{{"trace_id": "{TRACE}", "value": NaN}}',
        f'{{"trace_id": {DEEP}, "value": 1}}',
        '{"trace_id": ["' + TRACE + '"], "value": 1}',
        f'{{"trace_id": "{TRACE}", "value": 1, "name": {{}}}}',
        "null",
        "\x00",
        "x" * 100_000,
    ],
)
def test_hostile_feedback_is_refused(client: TestClient, body: str) -> None:
    assert client.post("/feedback", content=body, headers=JSON).status_code == 400


def hostile_records() -> list[Any]:
    """Records, each of which is wrong in another way."""
    deep: Any = []
    for _ in range(900):
        deep = [deep]
    endless: dict[str, Any] = {}
    endless["itself"] = endless
    wrong = [record(n, 1.0) for n in range(100, 108)]
    wrong[0]["evaluations"][0]["sampling"]["probability"] = 1e-300
    wrong[1]["evaluations"][0]["sampling"]["probability"] = 10**400
    wrong[2]["evaluations"][0]["value"] = float("nan")
    wrong[3]["evaluations"][0]["scale"] = 10**400
    wrong[4]["start_time"] = wrong[4]["evaluations"][0]["time"] = 10**400
    wrong[5]["input"] = deep
    wrong[6]["input"] = endless
    wrong[7] |= {"trace_id": ["\ud800"], "span_id": {"a": DIGITS}, "duration": 10**400}
    return [*wrong, None, 7, [], {"trace_id": "x"}]


def with_odd_texts(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Copies of a value, each with one text that no database takes as it is."""
    match value:
        case str():
            yield path, f"a\x00b\ud800{value}"
        case dict():
            for key, each in value.items():
                yield from ((at, {**value, key: odd}) for at, odd in with_odd_texts(each, f"{path}.{key}"))
        case list():
            for index, each in enumerate(value):
                changed = with_odd_texts(each, f"{path}[{index}]")
                yield from ((at, [*value[:index], odd, *value[index + 1 :]]) for at, odd in changed)


def test_no_text_of_a_run_keeps_other_runs_from_being_stored(store: ResultsStore) -> None:
    texts = dict.fromkeys(("tenant", "prompt_version", "error_type", "system", "error"), "x")
    whole = record(1, 1.0, **texts, models=["m"], attributes={"k": "v"}, documents=[{"content": "d"}])
    whole["evaluations"][0] |= {"label": "l", "reason": "r", "message": "m", "review": "score < 1"}
    tried = list(with_odd_texts(whole))
    assert len(tried) > 30
    for number, (path, odd) in enumerate(tried):
        assert store.write([odd, record(2 + number, 1.0)]).evaluations >= 1, path


def test_a_bad_record_costs_no_other_and_no_page(store: ResultsStore, client: TestClient) -> None:
    for number, bad in enumerate(hostile_records()):
        written = store.write([record(200 + 2 * number, 1.0), bad, record(201 + 2 * number, 0.0)])
        assert written.evaluations >= 2, bad
    told = CliRunner().invoke(app, ["report", store.database.name, "--json"])
    assert told.exit_code == 0
    assert json.loads(told.stdout)["estimates"]
    for trace in (
        "/",
        "/runs?scorer=grounded&agent=support",
        "/scorer?scorer=grounded&agent=support",
    ):
        assert client.get(trace).status_code == 200
    with store.database.reading() as connection:
        traces = connection.exec_driver_sql("SELECT trace_id FROM runs").scalars().all()
    assert all(client.get(f"/runs/{trace}").status_code == 200 for trace in traces)
