"""Kills a process with a store again and again, right after a run has ended, and counts what that cost."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from otel_evals.destinations import read_jsonl
from tests.support import PYTHONPATH

__all__ = ["Damage", "kill_often"]

_PROGRAM = """
import asyncio, os, signal, sqlite3, sys, time
import otel_evals
from opentelemetry.sdk.trace import TracerProvider
from otel_evals import Rule
from otel_evals._internal.scorers.kit.scorer import scorer
from tests.support.traffic import agent_run

@scorer(version="1")
async def slow(run) -> float:
    await asyncio.sleep(0.1)
    return 1.0

store, scores, issued, runs, unwritten, pause, end = sys.argv[1:]
provider = TracerProvider()
otel_evals.configure(
    rules=[Rule(slow, concurrency=60)], destinations=[{"jsonl": {"path": scores}}],
    tracer_provider=provider, store=store, store_lease=0.6,
)
tracer, file = provider.get_tracer("app"), open(issued, "a", buffering=1)
time.sleep(0.2)
def wait_for_the_store(number):
    while int(unwritten) >= 0 and otel_evals.stats().store.written < number:
        time.sleep(0.005)
for number in range(int(runs)):
    if number == int(runs) - int(unwritten):
        wait_for_the_store(number)
    time.sleep(0.02)
    trace_id = agent_run(tracer)
    file.write(f"{trace_id:032x} {time.monotonic()}\\n")
if int(runs):
    if int(unwritten) == 0:
        wait_for_the_store(int(runs))
    time.sleep(float(pause))
    file.write(f"killed {time.monotonic()}\\n")
    os.kill(os.getpid(), signal.SIGKILL) if end == "kill" else os._exit(1)
connection, latest = sqlite3.connect(store), time.monotonic() + 300
while connection.execute("SELECT count(*) FROM run WHERE state = 'open'").fetchone()[0]:
    assert time.monotonic() < latest
    time.sleep(0.1)
otel_evals.shutdown()
"""


@dataclass(slots=True)
class Damage:
    """What the kills cost, once another process has taken up what was left."""

    issued: int = 0
    """Runs whose call had returned."""
    lost: list[int] = field(default_factory=list)
    """By kill: runs that were neither scored nor are in the store."""
    oldest: float = 0.0
    """How many seconds before its kill the oldest of them had ended."""
    doubled: int = 0
    """Evaluations that the destination got twice."""


def kill_often(
    folder: Path,
    kills: int,
    pause: float = 0.0,
    end: Literal["kill", "exit"] = "kill",
    unwritten: int | None = None,
) -> Damage:
    """One process after another on one store, each killed after 5 to 20 runs; one more takes up the rest.

    Args:
        folder: for the files.
        kills: how many processes are killed.
        pause: seconds between the end of the last run and the kill.
        end: how the process ends, by kill -9 or by `os._exit`.
        unwritten: how many runs end after the store has written all before; by default, nobody waits for it.
    """
    rng, damage = random.Random(kills), Damage()
    for number in range(kills):
        code = -signal.SIGKILL if end == "kill" else 1
        _process(folder, f"issued{number}", rng.randint(5, 20), unwritten, pause, end, code)
    _process(folder, "none", 0, None, 0.0, end, 0)
    found = Counter(
        (line["trace_id"], evaluation["evaluation_id"])
        for line in read_jsonl(folder / "scores.jsonl")
        for evaluation in line["evaluations"]
    )
    damage.doubled = sum(count > 1 for count in found.values())
    connection = sqlite3.connect(folder / "runs.db")
    known = {trace_id for (trace_id,) in connection.execute("SELECT trace_id FROM run")}
    connection.close()
    known |= {trace_id for trace_id, _ in found}
    for number in range(kills):
        *rows, kill = [line.split() for line in (folder / f"issued{number}").read_text().splitlines()]
        gone = [float(kill[1]) - float(ended) for trace_id, ended in rows if trace_id not in known]
        damage.issued += len(rows)
        damage.lost.append(len(gone))
        damage.oldest = max([damage.oldest, *gone])
    return damage


def _process(
    folder: Path, issued: str, runs: int, unwritten: int | None, pause: float, end: str, code: int
) -> None:
    paths = (str(folder / "runs.db"), str(folder / "scores.jsonl"), str(folder / issued))
    late = -1 if unwritten is None else unwritten
    command = [sys.executable, "-c", _PROGRAM, *paths, str(runs), str(late), str(pause), end]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": PYTHONPATH}, timeout=600, check=False)
    assert done.returncode == code, done.returncode
