"""Live traffic for a long time, with faults of every kind, and the counters checked at the end.

    python benchmarks/soak.py --minutes 30 --rate 200

One run in a hundred (`--share 0.01`) meets a scorer that raises, hangs or returns a great deal; the scoring
process is killed every minute; the disk is full for a while; the wall clock steps back; the
destination is down for a sixth of the time. Ends with exit code 1 if the counters do not balance, a span is
missing, or memory grows in the last third of the time, after the faults.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import os
import random
import resource
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psutil
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from otel_evals import Pipeline, Rule, Run, Score, ScoredRun, Scorer, sampling, scorer
from otel_evals._internal.config.loader import build_config
from otel_evals.errors import DestinationError
from otel_evals.scorers import grounded_in_tools

SPANS_PER_RUN = 3
FAULTS = ("raises", "hangs", "much")
REAL_TIME, REAL_TIME_NS = time.time, time.time_ns


class Counting(SpanExporter):
    """Counts the application's spans; the mark identifies ours."""

    def __init__(self) -> None:
        self.spans = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.spans += sum("otel_evals.internal" not in (s.attributes or {}) for s in spans)
        return SpanExportResult.SUCCESS


class Unreliable:
    """A destination that can be down."""

    name = "unreliable"

    def __init__(self) -> None:
        self.down = False
        self.runs = 0

    async def export(self, batch: Sequence[ScoredRun]) -> None:
        if self.down:
            raise DestinationError("down for a while", retryable=True)
        self.runs += len(batch)

    async def shutdown(self) -> None:
        pass


def fault(run: Run, share: float) -> str | None:
    """Return the fault of a run, chosen by its trace id."""
    rng = random.Random(run.trace_id)
    return rng.choice(FAULTS) if rng.random() < share else None


def judge(share: float) -> Scorer:
    """Waits as for a model, and misbehaves on a share of the runs."""

    @scorer(version="1")
    async def judge(run: Run) -> Score:
        await asyncio.sleep(0.02)
        match fault(run, share):
            case "raises":
                raise RuntimeError("the judge broke")
            case "hangs":
                await asyncio.sleep(60)
            case "much":
                return Score(value=1.0, explanation="much " * 100_000)
        return Score(value=1.0)

    return judge


@scorer(version="1", id="counts_letters")
def counts_letters(run: Run) -> float:
    """Computes for a moment in a child process."""
    return min(1.0, sum(c.isalpha() for c in run.output or "") / 100)


def agent_run(tracer: Any, number: int) -> None:
    """One run of three spans."""

    def said(role: str, text: str) -> str:
        return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])

    attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": f"agent-{number % 5}"}
    with tracer.start_as_current_span("invoke_agent", attributes=attributes) as root:
        root.set_attribute("gen_ai.input.messages", said("user", f"Where is order A-{number}?"))
        with tracer.start_as_current_span("chat", attributes={"gen_ai.operation.name": "chat"}):
            pass
        tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "lookup"}
        with tracer.start_as_current_span("execute_tool", attributes=tool) as span:
            span.set_attribute("gen_ai.tool.call.result", json.dumps({"order": f"A-{number}", "days": 3}))
        root.set_attribute("gen_ai.output.messages", said("assistant", f"A-{number} arrives in 3 days."))


def memory_mb() -> float:
    """Resident memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def slope(samples: list[tuple[float, float]]) -> float:
    """Least-squares growth in MB per ten minutes, in the last third: by then, all faults are over."""
    tail = samples[-len(samples) // 3 :]
    n, mx = len(tail), sum(x for x, _ in tail) / len(tail)
    my = sum(y for _, y in tail) / n
    spread = sum((x - mx) ** 2 for x, _ in tail)
    return 600 * sum((x - mx) * (y - my) for x, y in tail) / spread if spread else 0.0


def faults_over_time(done: threading.Event, seconds: float, place: Unreliable, killed: list[int]) -> None:
    """Kills, fills, turns back and switches off, each in its part of the time."""
    began = time.monotonic()
    last_kill = began
    while not done.wait(0.2):
        passed = (time.monotonic() - began) / seconds
        place.down = 0.3 < passed < 0.3 + 1 / 6
        back = 3600 if 0.5 < passed < 0.55 else 0
        time.time = lambda back=back: REAL_TIME() - back
        time.time_ns = lambda back=back: REAL_TIME_NS() - back * 10**9
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096 if 0.6 < passed < 0.65 else -1, -1))
        if time.monotonic() - last_kill > min(60, seconds / 4):
            last_kill = time.monotonic()
            killed += kill_children()
    time.time, time.time_ns = REAL_TIME, REAL_TIME_NS
    resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))


def kill_children() -> list[int]:
    """kill -9 for every process of ours below this one; returns their ids."""
    ours = [c.pid for c in psutil.Process().children() if "anyio.to_process" in " ".join(c.cmdline())]
    for child in ours:
        os.kill(child, signal.SIGKILL)
    return ours


def soak(seconds: float, rate: float, share: float, folder: Path) -> dict[str, Any]:
    """Run the traffic; return the findings."""
    place, exporter, killed = Unreliable(), Counting(), list[int]()
    rules = [
        Rule(grounded_in_tools()),
        Rule(judge(share), sample=sampling.ratio(0.5), timeout=1.0, concurrency=64),
        Rule(counts_letters, sample=sampling.ratio(0.1), isolation="process"),
    ]
    provider = TracerProvider()
    pipeline = Pipeline(
        build_config(rules, [place], journal=folder / "journal", hold=2.0), tracer_provider=provider
    )
    provider.add_span_processor(pipeline.spans)
    provider.add_span_processor(BatchSpanProcessor(pipeline.hold(exporter), max_queue_size=20_000))
    tracer = provider.get_tracer("soak")
    done = threading.Event()
    chaos = threading.Thread(target=faults_over_time, args=(done, seconds, place, killed))
    chaos.start()
    samples, began, issued = [], time.monotonic(), 0
    while (now := time.monotonic() - began) < seconds:
        agent_run(tracer, issued)
        issued += 1
        if issued % max(1, int(rate)) == 0:
            gc.collect()
            samples.append((now, memory_mb()))
        time.sleep(max(0.0, issued / rate - (time.monotonic() - began)))
    done.set()
    chaos.join()
    flushed = pipeline.force_flush(60_000)
    stats = pipeline.stats()
    pipeline.shutdown(20_000)
    provider.shutdown()
    return {
        "runs": issued,
        "seconds": round(time.monotonic() - began, 1),
        "flushed": flushed,
        "pending_after_flush": sum(rule.pending for rule in stats.rules.values()),
        "violations": pipeline.stats().check(),
        "seen": stats.seen,
        "rules": {name: asdict(rule) for name, rule in pipeline.stats().rules.items()},
        "journal_left": [str(each) for each in (folder / "journal").rglob("*.log")],
        "killed": len(killed),
        "destinations": {n: asdict(s) for n, s in pipeline.destination_stats().items()},
        "spans_missing": issued * SPANS_PER_RUN - exporter.spans,
        "memory_mb": [round(memory, 1) for _, memory in samples[:: max(1, len(samples) // 30)]],
        "memory_slope_mb_per_10min": round(slope(samples), 2),
    }


def main() -> int:
    """Run, print, judge."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--rate", type=float, default=200, help="runs per second")
    parser.add_argument("--share", type=float, default=0.01, help="runs that meet a fault")
    options = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(message).200s")
    with tempfile.TemporaryDirectory() as folder:
        found = soak(options.minutes * 60, options.rate, options.share, Path(folder))
    print(json.dumps(found, indent=1))
    grows = options.minutes >= 10 and found["memory_slope_mb_per_10min"] > 1
    return int(
        bool(found["violations"]) or found["seen"] != found["runs"] or found["spans_missing"] != 0 or grows
    )


if __name__ == "__main__":
    sys.exit(main())
