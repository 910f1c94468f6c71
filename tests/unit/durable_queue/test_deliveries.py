"""What the store asks of destinations: who has taken a scored run, who will later, who holds it already."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from pathlib import Path

from otel_evals._internal.deliver.fanout import FanOut
from otel_evals._internal.durable_queue.deliveries import Deliveries
from otel_evals.destinations import JsonlDestination
from otel_evals.model import Direction, Evaluation, Sampled, Score, ScoredRun
from otel_evals.testing import InMemoryDestination
from tests.support.replacing import replace
from tests.support.runs import a_run


def scored(*ids: str, revision: int = 1) -> ScoredRun:
    evaluations = tuple(
        Evaluation(
            evaluation_id=each,
            scorer_id="s",
            scorer_version="1",
            direction=Direction.HIGHER,
            trace_id="1" * 32,
            span_id="2" * 16,
            outcome=Score(value=1.0),
            sampled=Sampled(1.0, "always()"),
            revision=revision,
        )
        for each in ids
    )
    return ScoredRun(run=a_run(), evaluations=evaluations)


def test_a_file_knows_which_evaluations_it_holds(tmp_path: Path) -> None:
    """By id and revision; a line that was cut off holds nothing."""
    path = tmp_path / "scores.jsonl"

    async def ask() -> None:
        destination = JsonlDestination(path)
        assert not await destination.holds(["a"], 1)
        await destination.export([scored("a", "b")])
        assert await destination.holds(["a", "b"], 1)
        assert not await destination.holds(["a"], 2)
        assert not await destination.holds(["a", "c"], 1)
        await destination.export([scored("a", revision=2)])
        await destination.export([scored("b", revision=3)])
        await destination.export([scored("b", revision=2)])
        assert await destination.holds(["a", "b"], 2)
        assert await destination.holds(["b"], 3)
        assert not await destination.holds(["a"], 3)
        assert await destination.holds(["a"], 1)
        await destination.export([scored("d", revision=2)])
        assert not await destination.holds(["d"], 1), "the later revision was written first"
        with path.open("ab") as file:
            file.write(b'{"evaluations": [{"evaluation_id": "c", "revision": 1')
        assert not await destination.holds(["c"], 1)
        await destination.shutdown()

    asyncio.run(ask())


def test_destinations_that_cannot_tell_lack_everything(tmp_path: Path) -> None:
    """And without any destination nobody can tell."""

    async def ask() -> None:
        file = JsonlDestination(tmp_path / "scores.jsonl")
        await file.export([scored("a")])
        both = FanOut([file, InMemoryDestination()])
        assert await both.lacking(["a"], 1) == ["memory"]
        assert await both.lacking(["b"], 1) == ["jsonl", "memory"]
        assert await FanOut([file]).lacking(["a"], 1) == []
        assert await FanOut([]).lacking(["a"], 1) is None
        await file.shutdown()

    asyncio.run(ask())


def test_a_flight_lands_when_every_destination_has_answered() -> None:
    """Those that refused for good count as answered, the others as missed; each flight lands once."""
    landings: list[list[str]] = []
    flights = Deliveries(lambda run, names, kept: sorted(names or ["a", "b", "c"]))
    run = scored("x")
    flights.start(run, None, landings.append)
    flights.answered("a", [run], "exported")
    flights.answered("b", [run], "refused")
    assert landings == []
    flights.answered("c", [run], "unavailable")
    assert landings == [["c"]]
    flights.answered("c", [run], "exported")
    assert landings == [["c"]]


def test_a_destination_may_answer_at_once() -> None:
    """A queue that is full, before all destinations are known; or no destination at all."""
    landings: list[list[str]] = []
    run = scored("x")

    def put(each: ScoredRun, names: Collection[str] | None, *, kept: bool) -> Sequence[str]:
        flights.answered("a", [each], "queue_full")
        return ["a"]

    flights = Deliveries(put)
    flights.start(run, None, landings.append)
    Deliveries(lambda each, names, kept: []).start(replace(run), None, landings.append)
    assert landings == [["a"], []]
