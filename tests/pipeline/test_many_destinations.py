"""Eight destinations at once, 200 runs a second: one is down, one is slow, the others miss nothing."""

from __future__ import annotations

import resource
import time
from collections import deque
from contextlib import ExitStack
from pathlib import Path

import anyio
import pytest

from otel_evals._internal.deliver.fanout import FanOut
from otel_evals.destinations import Destination, JsonlDestination, read_jsonl
from otel_evals.model import Outcome, Score, ScoredRun
from tests.support.destinations import accept, destination
from tests.support.recording_server import RecordedRequest, RecordingServer, Reply, recording_server
from tests.support.replacing import replace
from tests.support.scored import scored_run
from tests.support.servers import free_ports

RUNS, PER_SECOND, QUEUE = 3_000, 200, 1_024
FINE = ("arize", "braintrust", "datadog", "phoenix", "posthog")
TWO: dict[str, Outcome] = {"tone": Score(value=0.5), "facts": Score(value=1.0, explanation="x" * 500)}


class Tally:
    """Counts the scores that reach a server; keeps nothing else."""

    def __init__(self, server: RecordingServer, delay: float) -> None:
        self.scores, self._delay = 0, delay
        server.requests = deque(maxlen=1)  # type: ignore[assignment]  # to be bounded too
        server.reply = self

    def __call__(self, request: RecordedRequest) -> Reply:
        self.scores += request.raw.count(b'"tone"') + request.raw.count(b'"facts"')
        reply = accept(request)
        reply.delay = self._delay
        return reply


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_one_down_and_one_slow_cost_the_others_nothing(tmp_path: Path) -> None:
    with ExitStack() as servers:
        tallies: dict[str, Tally] = {}

        def backend(name: str, delay: float = 0.0) -> Destination:
            server = servers.enter_context(recording_server())
            tallies[name] = Tally(server, delay)
            return destination(name, server.url)

        slow, (closed,) = backend("langfuse", delay=1.0), free_ports(1)
        down = destination("mlflow", f"http://127.0.0.1:{closed}")
        jsonl = JsonlDestination(tmp_path / "scores.jsonl")
        fan_out = FanOut([*map(backend, FINE), jsonl, slow, down], queue_size=QUEUE)
        grown = anyio.run(feed, fan_out)
        stats = fan_out.stats()
    for name in FINE:
        assert (stats[name].exported, stats[name].losses) == (RUNS, {}), name
        places = 2 if name == "phoenix" else 1  # the span, and its trace
        assert tallies[name].scores == 2 * RUNS * places, name
    assert stats["jsonl"].exported == len(list(read_jsonl(tmp_path / "scores.jsonl"))) == RUNS
    assert stats["mlflow"].exported == 0
    assert stats["mlflow"].losses["queue_full"] > 0
    for each in stats.values():
        assert each.exported + each.failed + each.dropped + each.pending == RUNS
    assert grown < 150, "MiB"


async def feed(fan_out: FanOut) -> float:
    """Put the runs in at their rate; returns by how many MiB memory grew after a quarter of them."""
    async with anyio.create_task_group() as group:
        group.start_soon(fan_out.run)
        start, after_a_quarter = time.monotonic(), 0.0
        for number in range(RUNS):
            fan_out.put(own_span(scored_run(number, TWO), f"{number + 1:016x}"))
            if number == RUNS // 4:
                after_a_quarter = peak()
            ahead = number / PER_SECOND - (time.monotonic() - start)
            await anyio.sleep(max(0.0, ahead))
            start += max(0.0, -ahead - 0.5)  # a busy machine makes the traffic slower, not denser
            pending = fan_out.stats()["mlflow"].pending
            assert pending <= 5 * QUEUE + 64, "queued and parked, both bounded"
        grown = peak() - after_a_quarter
        with anyio.move_on_after(60):
            while any(fan_out.stats()[name].pending for name in FINE):  # noqa: ASYNC110 (nobody tells)
                await anyio.sleep(0.1)
        await fan_out.shutdown(0.5)
    return grown


def own_span(scored: ScoredRun, span_id: str) -> ScoredRun:
    return ScoredRun(
        run=replace(scored.run, root_span_id=span_id),
        evaluations=tuple(replace(each, span_id=span_id) for each in scored.evaluations),
    )


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
