"""`otel-evals top` against real gateways."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from otel_evals import Rule, Run, sampling, scorer
from otel_evals._internal.cli.app import app
from otel_evals.scorers import tool_error_rate
from tests.pipeline.test_gateway import body, recorded
from tests.support.gateways import GatewayThread
from tests.support.recording_server import Reply, recording_server


def run(*args: str) -> Any:
    return CliRunner().invoke(app, ["top", *args])


@scorer
def dated(run: Run) -> float:
    """Whether the answer has a date."""
    return float("2026" in (run.output or ""))


@pytest.fixture
def gateway() -> Iterator[GatewayThread]:
    """A gateway that has scored two runs, one of them badly."""
    rules = [Rule(dated), Rule(tool_error_rate(), sample=sampling.ratio(0.0))]
    with GatewayThread(*rules) as running:
        for answer in ("It arrives on 2026-11-25.", "It arrives tomorrow."):
            assert running.post("/v1/traces", body(recorded(answer=answer)))[0] == 200
        running.evaluations(2)
        yield running


def test_one_look_is_plain_text(gateway: GatewayThread) -> None:
    done = run(gateway.endpoint, "--once", "--interval", "0.1")
    assert done.exit_code == 0, done.output
    for part in ("health     ", "received", "memory: 2 delivered"):
        assert part in done.stdout
    row = next(line.split() for line in done.stdout.splitlines() if line.startswith("dated"))
    assert row[:4] == ["dated", "0.500", "2", "2"]


def test_the_page_that_it_reads_has_everything_and_no_content(gateway: GatewayThread) -> None:
    page = urllib.request.urlopen(f"{gateway.endpoint}/stats", timeout=30).read().decode()
    found = json.loads(page)
    assert found["rules"]["dated"]["scored"] == 2
    assert found["scorers"]["dated"]["mean"] == 0.5
    assert "tomorrow" not in page


def test_what_is_no_gateway_is_told() -> None:
    done = run("http://127.0.0.1:1", "--once")
    assert (done.exit_code, "no gateway answers there" in done.stderr) == (1, True)
    with recording_server() as server:
        server.reply = lambda _: Reply(body=b'{"some": "page"}')
        assert "not the counters of a gateway" in run(server.url, "--once").stderr


def test_counters_need_a_token_where_senders_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("right\n")
    with GatewayThread(Rule(dated), gateway={"tokens": tokens}) as running:

        def status(path: str) -> int:
            try:
                with urllib.request.urlopen(running.endpoint + path) as answer:
                    return int(answer.status)
            except urllib.error.HTTPError as error:
                return error.code

        assert [status(path) for path in ("/healthz", "/readyz", "/stats")] == [200, 200, 401]
        look = (running.endpoint, "--once", "--interval", "0.1")
        assert "requires a bearer token: give --token" in run(*look).stderr
        refused = run(*look, "--token", "wrong").stderr
        assert "refuses this bearer token" in refused
        assert "wrong" not in refused
        assert run(*look, "--token", "right").exit_code == 0
        monkeypatch.setenv("OTEL_EVALS_TOKEN", "right")
        assert run(*look).exit_code == 0
