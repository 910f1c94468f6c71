"""Attacks scoring with everything at once, for a stated time, and checks the four promises after each round.

    python benchmarks/attack.py --minutes 10               rounds that no earlier run had
    python benchmarks/attack.py --seed 4711 --rounds 1     repeats one round
    python benchmarks/attack.py --calls                    the longest call on hostile texts, for each scorer

Each round draws its scorers, texts, exporters, destinations, limits and faults from its seed: odd outcomes
and exceptions, hostile text, blocking and raising exporters, forks, threads that
cannot be started, memory ballast. Afterwards: nothing was raised into the application, the counters balance,
every run is in them and nothing pending, every span of the application has left once, no thread of it was
stopped, deadlines and memory bounds hold. Exit code 1 with the seeds of the rounds in which that was not so.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import ctypes
import gc
import json
import logging
import os
import random
import resource
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from attacks import (
    OWN_SCORERS,
    PIECES,
    Blocking,
    Down,
    Fine,
    Raising,
    hostile_text,
    odd_scorer,
    starting_fails,
)
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from otel_evals import Pipeline, Rule, sampling
from otel_evals._internal.config.loader import build_config
from otel_evals._internal.judges.fence import Fence
from otel_evals._internal.redaction.secrets import redact_secrets
from otel_evals.testing import run_of
from tests.support.pauses import LongestCall

MAX_PAUSE = 1.0
"""Seconds of this process' work that another thread may have waited for. Some twenty threads compute here,
and take turns of 5 ms in no fair order; a single call that keeps the interpreter's lock shows as more."""
MAX_MEMORY_MB = 1_200
FLUSH_SECONDS = 20.0
CHILD_SECONDS = 60.0


@dataclass
class Round:
    """A round's findings."""

    seed: int
    problems: list[str] = field(default_factory=list)
    runs: int = 0
    spans: int = 0
    forks: int = 0
    pause: float = 0.0
    outcomes: dict[str, int] = field(default_factory=dict)


class Pause:
    """The longest time that this process computed while another thread of it waited for the interpreter.

    Processor time instead of clock time, because other programs on the machine do not count.
    """

    def __enter__(self) -> Pause:
        self.longest, self._done = 0.0, False
        self._thread = threading.Thread(target=self._watch, name="watch")
        self._thread.start()
        return self

    def _watch(self) -> None:
        last, used = time.perf_counter(), time.process_time()
        while not self._done:
            time.sleep(0.002)
            now, now_used = time.perf_counter(), time.process_time()
            self.longest = max(self.longest, min(now - last - 0.002, now_used - used))
            last, used = now, now_used

    def __exit__(self, *_: object) -> None:
        self._done = True
        self._thread.join()


class Attack:
    """One round: an application with scoring, attacked.

    Args:
        seed: what everything is drawn from.
        folder: for its store.
        seconds: how long traffic lasts.
    """

    def __init__(self, seed: int, folder: Path, seconds: float) -> None:
        self.draw = random.Random(seed)
        self.found = Round(seed)
        self._folder = folder
        self._seconds = seconds
        self._journal = folder / f"{seed}" if self.draw.random() < 0.5 else None
        self._fine = Fine()
        self._provider = TracerProvider(shutdown_on_exit=False)
        self._pipeline = self._built()
        self._tracer = self._provider.get_tracer("attacked")
        self._ids: list[int] = []

    def _built(self) -> Pipeline:
        draw = self.draw
        rules: dict[str, Rule] = {}
        for number in range(draw.randint(2, 6)):
            judge = odd_scorer(draw, f"odd_{number}")
            scope = draw.choice(["run", "run", "run", "agent"])
            sample = draw.choice([sampling.always(), sampling.ratio(0.5)])
            rule = Rule(judge, scope=scope, sample=sample, timeout=0.3, concurrency=draw.choice([1, 4, 16]))
            rules.setdefault(rule.name, rule)
        options: dict[str, Any] = {
            "hold": draw.choice([0.0, 0.2, 2.0]),
            "grace": draw.choice([0.0, 0.05]),
            "limits": {
                "queue_size": draw.choice([10, 2048]),
                "max_spans_per_trace": draw.choice([2, 2000, 2000, 2000]),
                "max_bytes": draw.choice([1_000_000, 64 * 1024 * 1024]),
            },
            "evaluation_spans": draw.choice(["linked", "same_trace", "off"]),
            "capture_content": draw.random() < 0.8,
            "shutdown_timeout": 5.0,
        }
        if self._journal is not None:
            options |= {"journal": self._journal}
        places = [Down(draw, f"down_{n}") for n in range(draw.randint(0, 2))]
        config = build_config(list(rules.values()), places, **options)
        pipeline = Pipeline(config, tracer_provider=self._provider)
        self._provider.add_span_processor(pipeline.spans)
        neighbours = [Raising(draw), Blocking(draw)][: draw.randint(0, 2)]
        for exporter in (self._fine, *neighbours):
            capacity = 50_000 if exporter is self._fine else 512  # a blocked one never releases its items
            held = BatchSpanProcessor(
                pipeline.hold(exporter), max_queue_size=capacity, schedule_delay_millis=100
            )
            self._provider.add_span_processor(held)
        return pipeline

    def run(self) -> Round:
        """Carry the round out."""
        with Pause() as pause:
            self._traffic()
            self._end()
        self.found.pause = round(pause.longest, 4)
        if pause.longest > MAX_PAUSE:
            self._problem(f"another thread waited {pause.longest:.3f} s")
        return self.found

    def _traffic(self) -> None:
        end = time.monotonic() + self._seconds
        fails = self.draw.random() < 0.3
        with starting_fails(self._seconds / 3 if fails else 0.0):
            threads = [
                threading.Thread(target=self._issue, args=(random.Random(self.draw.random()), end))
                for _ in range(2)
            ]
            for thread in threads:
                thread.start()
            while time.monotonic() < end:
                time.sleep(self._seconds / 10)
                if self.draw.random() < 0.15:
                    self._fork()
            for thread in threads:
                thread.join()

    def _issue(self, draw: random.Random, end: float) -> None:
        while time.monotonic() < end:
            try:
                self._ids += agent_run(self._tracer, draw)
                self.found.runs += 1
            except BaseException as error:
                self._problem(f"raised into the application: {error!r:.200}")
            time.sleep(draw.random() / 20)

    def _fork(self) -> None:
        """Score runs in a forked child, which then exits."""
        self.found.forks += 1
        pid = os.fork()
        if pid == 0:
            self._be_a_child()
        deadline = time.monotonic() + CHILD_SECONDS
        while time.monotonic() < deadline:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                if status:
                    self._problem(f"a forked child ended with {status}")
                return
            time.sleep(0.02)
        self._problem("a forked child hangs")
        os.kill(pid, 9)
        os.waitpid(pid, 0)

    def _be_a_child(self) -> None:
        code = 1
        try:
            logging.disable()
            for _ in range(3):
                agent_run(self._tracer, self.draw)
            self._pipeline.force_flush(5_000)
            self._pipeline.shutdown(5_000)
            stats = self._pipeline.stats()
            pending = sum(rule.pending for rule in stats.rules.values())
            code = 2 if stats.check() else 3 if pending else 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)

    def _end(self) -> None:
        """Flush and leave, and compare."""
        self._within(
            "force_flush", FLUSH_SECONDS + 2, lambda: self._pipeline.force_flush(int(FLUSH_SECONDS * 1e3))
        )
        self._within("provider.force_flush", 40, lambda: self._flush_provider())
        self._within("shutdown", 5.0 + 3, self._pipeline.shutdown)
        self._within("provider.shutdown", 40, lambda: self._provider.shutdown())
        stats = self._pipeline.stats()
        for violation in stats.check():
            self._problem(f"the counters do not balance: {violation}")
        counted = stats.seen + stats.losses.get("intake_full", 0)
        # A store may have some for another process; traces that no rule can sample are not looked at.
        if self._journal is None and self._pipeline.config.ceiling == 1.0 and counted < self.found.runs:
            self._problem(f"{self.found.runs} runs were made, {counted} are in the counters")
        for name, rule in stats.rules.items():
            if rule.pending:
                self._problem(f"{name}: {rule.pending} pending after shutdown")
            ended = {"scored": rule.scored, **rule.not_scored, **rule.failed, **rule.dropped}
            for what, count in ended.items():
                self.found.outcomes[what[:60]] = self.found.outcomes.get(what[:60], 0) + count
        self.found.spans = len(self._ids)
        missing = [span for span in self._ids if self._fine.seen[span] != 1]
        if missing:
            twice = sum(self._fine.seen[span] > 1 for span in missing)
            self._problem(f"{len(missing) - twice} spans did not leave, {twice} left more than once")

    def _flush_provider(self) -> None:
        with contextlib.suppress(ConnectionError):  # the raising exporter's errors are the application's own
            self._provider.force_flush(30_000)

    def _within(self, what: str, seconds: float, work: Any) -> None:
        began = time.monotonic()
        try:
            work()
        except BaseException as error:
            self._problem(f"{what} raised {error!r:.200}")
        if (took := time.monotonic() - began) > seconds:
            self._problem(f"{what} took {took:.1f} s and not {seconds:g}")

    def _problem(self, text: str) -> None:
        self.found.problems.append(text)


def agent_run(tracer: Any, draw: random.Random) -> list[int]:
    """Emit one run of an agent, nested in another agent if asked; return the ids of its spans."""
    ids = []

    def said(role: str) -> str:
        return json.dumps([{"role": role, "parts": [{"type": "text", "content": hostile_text(draw)}]}])

    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": hostile_text(draw, 100)}
    with tracer.start_as_current_span("invoke_agent", attributes=agent) as root:
        ids.append(root.get_span_context().span_id)
        root.set_attribute("gen_ai.input.messages", said("user"))
        for _ in range(draw.choice([1, 1, 3, 20])):
            operation = draw.choice(["chat", "execute_tool", "invoke_agent"])
            with tracer.start_as_current_span(
                operation, attributes={"gen_ai.operation.name": operation}
            ) as span:
                ids.append(span.get_span_context().span_id)
                span.set_attribute("gen_ai.tool.call.result", hostile_text(draw))
                if draw.random() < 0.1:
                    span.set_attribute("ballast", [hostile_text(draw, 1_000)] * 500)
                    span.add_event("ballast", {"text": "x" * 1_000_000})
        root.set_attribute("gen_ai.output.messages", said("assistant"))
    return ids


def longest_calls() -> dict[str, str]:
    """The longest call that kept the interpreter's lock, for each routine, on hostile texts."""
    gc.collect()
    gc.disable()
    found = {}
    for name, routine in ROUTINES.items():
        worst = 0.0, ""
        for piece in PIECES:
            text = piece * (200_000 // len(piece))
            shortest = min((_call(routine, text) for _ in range(2)), default=worst)
            worst = max(worst, shortest)
        found[name] = f"{1000 * worst[0]:.1f} ms in {worst[1]}"
    gc.enable()
    return found


def _call(routine: Callable[[str], Any], text: str) -> tuple[float, str]:
    with LongestCall() as call:
        routine(text)
    return call.seconds, call.name


def _scored(make: Callable[[], Any]) -> Callable[[str], Any]:
    return lambda text: asyncio.run(
        make().score(run_of({"input": text, "output": text, "tools": [{"name": "a", "result": text}]}))
    )


ROUTINES: dict[str, Callable[[str], Any]] = {
    "redaction": redact_secrets,
    "a fence": lambda text: Fence().wrap("x", text),
    **{make.__name__: _scored(make) for make in OWN_SCORERS},
}


def memory_mb() -> float:
    """Resident memory of this process, after the allocator has returned free memory."""
    with contextlib.suppress(AttributeError, OSError):  # glibc's; others give it back by themselves, or never
        ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def attack(seconds: float, seed: int, rounds: int | None, length: float) -> dict[str, Any]:
    """Run rounds until the time is over; return their findings."""
    began, found, memory = time.monotonic(), list[Round](), list[float]()
    with tempfile.TemporaryDirectory() as folder:
        while (rounds is None or len(found) < rounds) and time.monotonic() - began < seconds:
            found.append(Attack(seed + len(found), Path(folder), length).run())
            gc.collect()
            memory.append(memory_mb())
            if found[-1].problems:
                print(json.dumps({"seed": found[-1].seed, "problems": found[-1].problems[:10]}), flush=True)
    outcomes: dict[str, int] = {}
    for each in found:
        for what, count in each.outcomes.items():
            outcomes[what] = outcomes.get(what, 0) + count
    failed = [each.seed for each in found if each.problems]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024  # within a round, with its own texts
    return {
        "seconds": round(time.monotonic() - began, 1),
        "seed": seed,
        "rounds": len(found),
        "failed_seeds": failed,
        **{name: sum(getattr(each, name) for each in found) for name in ("runs", "spans", "forks")},
        "longest_pause_s": max((each.pause for each in found), default=0.0),
        "memory_mb": {
            "first": round(memory[0]),
            "most": round(max(memory)),
            "last": round(memory[-1]),
            "peak": peak,
        },
        "outcomes": dict(sorted(outcomes.items(), key=lambda item: -item[1])),
    }


def main() -> int:
    """Attack, print, judge."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--rounds", type=int, help="stop after so many")
    parser.add_argument("--seed", type=int, help="of the first round, by default the time; the next add one")
    parser.add_argument("--length", type=float, default=3.0, help="seconds of traffic in a round")
    parser.add_argument("--verbose", action="store_true", help="log what scoring logs")
    parser.add_argument("--calls", action="store_true", help="measure the longest call on hostile texts only")
    options = parser.parse_args()
    if options.calls:
        print(json.dumps(longest_calls(), indent=1))
        return 0
    if not options.verbose:
        logging.disable()
    seed = int(time.time()) if options.seed is None else options.seed
    found = attack(options.minutes * 60, seed, options.rounds, options.length)
    print(json.dumps(found, indent=1))
    return int(bool(found["failed_seeds"]) or found["memory_mb"]["most"] > MAX_MEMORY_MB)


if __name__ == "__main__":
    sys.exit(main())
