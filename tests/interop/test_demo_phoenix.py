"""The demo with a real Phoenix: its spans and its scores arrive there, all of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.phoenix_server import phoenix_program, phoenix_server

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]
RUNS = 25


def test_the_demo_s_spans_and_scores_stand_in_phoenix(tmp_path: Path) -> None:
    program = phoenix_program()
    if program is None:
        pytest.skip("run tests/interop/setup.sh first: it installs Phoenix")
    with phoenix_server(program) as url:
        command = ["demo", "--runs", str(RUNS), "--out", str(tmp_path), "--to", f"phoenix={url}"]
        done = subprocess.run(
            [sys.executable, "-c", "from otel_evals._internal.cli import main; main()", *command],
            env={name: value for name, value in os.environ.items() if not name.startswith("OTEL_")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        wanted = written_scores(tmp_path / "scores.jsonl")
        project = f"{url}/v1/projects/otel-evals-demo"
        assert read_scores(project, sorted({span for span, _ in wanted}), len(wanted)) == wanted
        roots = [s for s in all_of(f"{project}/spans", limit=1000) if s["parent_id"] is None]
        agents = [s for s in roots if s["name"] == "invoke_agent support"]
        assert len(agents) == RUNS
        for span in agents:
            ids = (span["context"]["span_id"], "tool_call_accuracy")
            assert span["attributes"]["otel_evals.score.tool_call_accuracy"] == wanted[ids]


def written_scores(path: Path) -> dict[tuple[str, str], float]:
    """The scores in the demo's own records, by span and scorer."""
    evaluations = [e for line in path.read_text().splitlines() for e in json.loads(line)["evaluations"]]
    return {(e["span_id"], e["scorer"]): e["value"] for e in evaluations if e["status"] == "scored"}


def read_scores(project: str, spans: list[str], count: int) -> dict[tuple[str, str], float]:
    """The annotations of these spans in Phoenix, as soon as there are enough."""
    found: list[dict[str, Any]] = []
    end = time.monotonic() + 60
    while len(found) < count and time.monotonic() < end:
        found = all_of(f"{project}/span_annotations", span_ids=spans, limit=1000)
        time.sleep(0.3)
    return {(a["span_id"], a["name"]): a["result"]["score"] for a in found}


def all_of(url: str, **query: Any) -> list[dict[str, Any]]:
    """Every item of a listing."""
    items: list[dict[str, Any]] = []
    cursor: dict[str, Any] = {}
    while True:
        answer = httpx.get(url, params=query | cursor)
        if not answer.is_success:
            return items
        items += answer.json()["data"]
        if not answer.json().get("next_cursor"):
            return items
        cursor = {"cursor": answer.json()["next_cursor"]}
