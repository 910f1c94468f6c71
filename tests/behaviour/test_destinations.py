"""Scored runs reach every destination once accepted; one that fails or is slow costs the others nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from otel_evals import Run, Score, ScoredRun, scorer
from otel_evals.destinations import (
    InMemoryDestination,
    JsonlDestination,
    Unaccepted,
    read_jsonl,
)
from otel_evals.errors import DestinationError
from tests.behaviour.app import App
from tests.behaviour.commands import otel_evals_command
from tests.support.destinations import BY_NAME, KEY, accept, destination
from tests.support.recording_server import RecordingServer, recording_server
from tests.support.servers import free_ports
from tests.support.waits import eventually


@scorer(version="3", inline=True)
def half(run: Run) -> Score:
    return Score(value=0.5, label="medium", explanation=f"it says {run.output}")


@pytest.fixture
def server() -> Iterator[RecordingServer]:
    with recording_server() as running:
        running.reply = accept
        yield running


class Own:
    """A destination as the page says to write one."""

    name = "own"

    def __init__(self) -> None:
        self.batches: list[list[ScoredRun]] = []
        self.errors: list[DestinationError | None] = []
        """What the next calls end in."""
        self.over = False

    async def export(self, batch: Sequence[ScoredRun]) -> Sequence[Unaccepted] | None:
        self.batches.append(list(batch))
        if self.errors and (error := self.errors.pop(0)) is not None:
            raise error
        return None

    async def shutdown(self) -> None:
        self.over = True


def test_jsonl_and_results_have_the_same_runs_and_the_report_their_mean(tmp_path: Path) -> None:
    """The command reads both; several applications may append to one file."""
    jsonl, results = tmp_path / "scores.jsonl", tmp_path / "results.db"
    for _ in range(2):
        app = App(half, destinations=[{"jsonl": {"path": jsonl}}, {"results": {"path": results}}])
        for _ in range(5):
            app.run()
        app.settle()
        app.pipeline.shutdown()
    assert len(list(read_jsonl(jsonl))) == 10
    means = []
    for source in (jsonl, results):
        code, printed = otel_evals_command("report", source, "--json")
        assert code == 0, printed
        (estimate,) = json.loads(printed)["estimates"]
        means.append({name: estimate[name] for name in ("scorer_id", "n", "mean", "low", "high", "scored")})
    assert means[0] == means[1]
    assert (means[0]["scored"], means[0]["mean"]) == (10, 0.5)


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_every_backend_gets_the_score_under_its_id(name: str, server: RecordingServer) -> None:
    """The key is in no body."""
    app = App(half, destinations=[destination(name, server.url)])
    app.run()
    app.settle()
    assert app.pipeline.destination_stats()[name].exported == 1
    sent = b"".join(request.raw for request in server.requests)
    assert b"half" in sent
    assert b"0.5" in sent
    assert KEY.encode() not in sent


def test_what_may_pass_later_is_sent_again_and_what_is_refused_is_counted() -> None:
    own = Own()
    own.errors = [DestinationError("503", retryable=True, retry_after=0.01)]
    app = App(half, destinations=[own, app_memory := InMemoryDestination()])
    app.run()
    app.pipeline.force_flush()
    eventually(lambda: app.pipeline.destination_stats()["own"].exported == 1)
    assert len(own.batches) == 2
    assert own.batches[0][0].evaluations == own.batches[1][0].evaluations
    own.errors = [DestinationError("400", retryable=False)]
    trace = app.run()
    app.pipeline.force_flush()
    stats = eventually(lambda: app.pipeline.destination_stats()["own"], lambda found: found.failed)
    assert (stats.exported, stats.failed, dict(stats.losses)) == (1, 1, {"refused": 1})
    assert dict(app.pipeline.explain(trace).deliveries) == {"own": "refused", "memory": "exported"}
    assert len(app_memory.runs) == 2
    app.pipeline.shutdown()
    assert own.over


def test_one_that_is_down_and_one_that_hangs_cost_the_others_nothing(server: RecordingServer) -> None:
    """Neither the application, which ends in time, nor the other destinations."""

    class Hanging(Own):
        name = "hanging"

        async def export(self, batch: Sequence[ScoredRun]) -> None:
            await asyncio.sleep(60)

    (closed,) = free_ports(1)
    down = destination("mlflow", f"http://127.0.0.1:{closed}")
    fine = [destination("datadog", server.url), InMemoryDestination()]
    app = App(half, destinations=[Hanging(), down, *fine], shutdown_timeout=0.5)
    for _ in range(30):
        app.run()
    eventually(lambda: app.pipeline.destination_stats()["datadog"].exported == 30)
    app.pipeline.shutdown()
    stats = app.pipeline.destination_stats()
    assert {name: s.exported for name, s in stats.items()} == {
        "hanging": 0,
        "mlflow": 0,
        "datadog": 30,
        "memory": 30,
    }
    for name in ("hanging", "mlflow"):
        assert stats[name].failed + stats[name].dropped == 30
        assert stats[name].pending == 0


def test_a_relative_file_stays_in_its_place_after_a_change_of_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An application that becomes a daemon changes its directory after it has configured scoring."""
    monkeypatch.chdir(tmp_path)
    app = App(half, destinations=[JsonlDestination("scores.jsonl")])
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    app.run()
    assert app.pipeline.force_flush(10_000)
    assert len((tmp_path / "scores.jsonl").read_text().splitlines()) == 1
    assert not list((tmp_path / "elsewhere").iterdir())
