"""`otel-evals score --resume` killed with -9 again and again: nothing is lost or paid again once written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_evals.destinations import read_jsonl
from tests.support.traffic import agent_run
from tests.support.waits import SECONDS, eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

RUNS, KILLS, AT_ONCE = 200, 3, 4
SCORER = """
import asyncio, os
from otel_evals import scorer

@scorer(version="1")
async def billed(run) -> float:
    with open("calls", "a") as calls:
        calls.write(run.root_span_id + "\\n")
    await asyncio.sleep(0.02)
    return int(run.root_span_id[:4], 16) / 0xFFFF
"""
COMMAND = [sys.executable, "-c", "from otel_evals._internal.cli.app import app; app()", "score", "spans"]


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def test_killed_again_and_again_it_goes_on_where_it_was(tmp_path: Path) -> None:
    exported, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exported))
    for number in range(RUNS):
        agent_run(provider.get_tracer("app"), answer=str(number))
    (tmp_path / "spans").write_bytes(encode_spans(exported.get_finished_spans()).SerializeToString())
    (tmp_path / "billing.py").write_text(SCORER)
    options = ["--scorer", "python:billing:billed", "--concurrency", str(AT_ONCE), "--json"]
    command = [*COMMAND, *options, "--resume", "--jsonl", "out.jsonl"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    calls, output = tmp_path / "calls", tmp_path / "out.jsonl"
    for _ in range(KILLS):
        before = len(lines(output))
        running = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL)
        eventually(lambda r=running, n=before: len(lines(output)) > n or r.poll() is not None)
        assert running.poll() is None, "it ended by itself"
        running.kill()
        running.wait(SECONDS)
    before, written = len(lines(calls)), len(scores(records(output)))
    assert RUNS // 10 < written < RUNS, "it was killed in the middle"
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)

    billed = Counter(lines(calls))
    assert len(billed) == RUNS
    assert billed.total() - before == RUNS - written, "what is written is not asked again"
    assert report["scorers"][0]["scored"] == RUNS
    assert report["resumed"] == written
    whole = subprocess.run(
        [*COMMAND, *options, "--jsonl", "whole.jsonl"], cwd=tmp_path, env=environment, capture_output=True
    )
    assert whole.returncode == 0
    assert scores(records(output)) == scores(records(tmp_path / "whole.jsonl"))


def records(path: Path) -> list[dict[str, object]]:
    return [*read_jsonl(path)]


def scores(records: list[dict[str, object]]) -> dict[str, float]:
    return {e["evaluation_id"]: e["value"] for r in records for e in r["evaluations"]}  # type: ignore[attr-defined]
