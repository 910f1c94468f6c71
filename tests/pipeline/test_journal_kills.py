"""An application that is killed under load, again and again: what its journal has is scored, whole."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import pytest

from otel_evals._internal.engine.journal.segments import Segment
from otel_evals.destinations import read_jsonl
from tests.support import PYTHONPATH
from tests.support.waits import SECONDS, eventually

KILLS = int(os.environ.get("OTEL_EVALS_KILLS", "10"))
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300 + 30 * KILLS)]

_PROGRAM = """
import asyncio, json, random, sys, time
import otel_evals
from opentelemetry.sdk.trace import TracerProvider
from otel_evals import Rule, scorer

@scorer(version="1")
async def whole(run) -> bool:
    await asyncio.sleep(0.1)
    return run.input == str(len(run.operations))

folder, last = sys.argv[1], sys.argv[2] == "last"
provider = TracerProvider()
otel_evals.configure(
    rules=[Rule(whole, concurrency=50)],
    destinations=[{"jsonl": {"path": f"{folder}/scores.jsonl"}}],
    tracer_provider=provider,
    journal=f"{folder}/journal",
)
tracer = provider.get_tracer("app")

def agent(calls):
    asked = [{"role": "user", "parts": [{"type": "text", "content": str(1 + calls)}]}]
    attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.input.messages": json.dumps(asked)}
    with tracer.start_as_current_span("invoke_agent", attributes=attributes):
        for _ in range(calls):
            with tracer.start_as_current_span("chat", attributes={"gen_ai.operation.name": "chat"}):
                pass

print("started", flush=True)
while not last:
    agent(random.randint(0, 4))
    time.sleep(0.002)
sys.stdin.read()
otel_evals.shutdown()
"""


class Application:
    def __init__(self, folder: Path, how: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, str(folder), how],
            env={**os.environ, "PYTHONPATH": PYTHONPATH},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "started\n"

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


def kept(folder: Path) -> set[str]:
    """Return the traces in the journal's files, which no process uses."""
    files = (folder / "journal").rglob("*.log")
    return {key.hex() for path in files for entry in Segment(path).read() for key in entry.keys}


def test_what_was_kept_is_scored_whole_however_often_it_is_killed(tmp_path: Path) -> None:
    rng, wanted = random.Random(7), set[str]()
    for number in range(KILLS):
        application = Application(tmp_path, "one of many")
        if number % 5 == 4:  # a file of which nothing is done for minutes is set aside
            eventually(lambda: len(list((tmp_path / "journal").iterdir())) == 1)
        time.sleep(rng.uniform(0.05, 1.0))
        application.kill()
        wanted |= kept(tmp_path)
    last = Application(tmp_path, "last")
    eventually(lambda: not [*(tmp_path / "journal").rglob("*.log")])
    last.process.communicate("", timeout=SECONDS)
    assert last.process.returncode == 0
    found: dict[str, list[tuple[str, object]]] = defaultdict(list)
    for record in read_jsonl(tmp_path / "scores.jsonl"):
        found[record["trace_id"]] += [(e["evaluation_id"], e["value"]) for e in record["evaluations"]]
    assert len(wanted) > 10 * KILLS
    assert wanted <= found.keys(), "none is lost"
    assert {value for each in found.values() for _, value in each} == {1.0}, "none is judged on a part"
    assert {len(dict(each)) for each in found.values()} == {1}, "what is repeated has the same id"
