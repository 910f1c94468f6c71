"""What real frameworks recorded is recovered, and what they did not is not invented.

The captures are not part of the repository: name their folders in OTEL_EVALS_CAPTURES.
"""

from __future__ import annotations

import collections
import importlib.util
import json
from types import ModuleType
from typing import Any

import pytest

from otel_evals._internal.cli.runs import run_as_json
from otel_evals._internal.otlp.files import read_traces
from otel_evals._internal.read.runs import find_runs
from otel_evals._internal.read.split_runs import join_split_runs
from otel_evals.conventions import load_conventions
from tests.support.captures import FOLDERS, entries, paths_of

pytestmark = pytest.mark.skipif(not FOLDERS, reason="OTEL_EVALS_CAPTURES names no folder of captures")
CLEAN = ("run", "tool_count", "not invented")


@pytest.fixture(scope="module")
def judge() -> ModuleType:
    """The captures' own comparison of what was recovered with what is true."""
    spec = importlib.util.spec_from_file_location("recovery", FOLDERS[0] / "recovery.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_content_is_recovered_and_nothing_is_invented(judge: ModuleType) -> None:
    conventions = load_conventions()
    totals: dict[str, list[int]] = collections.defaultdict(lambda: [0, 0])
    for folder, entry in entries():
        paths = paths_of(folder, entry)
        found = join_split_runs(run for trace in read_traces(paths) for run in find_runs(trace, conventions))
        runs: list[Any] = [json.loads(json.dumps(run_as_json(run), default=str)) for run in found]
        raw = judge.records(paths)
        for scenario in entry["scenarios"]:
            mine = _runs_of(scenario, runs, entry["scenarios"])
            text = "".join(raw.get(trace, "") for trace in scenario["trace_ids"])
            for field, recorded, recovered, _ in judge.check(_with_repetitions(scenario), mine, text):
                total = totals[field if recorded else "not invented"]
                total[0] += recovered
                total[1] += 1
    assert totals["not invented"][0] == totals["not invented"][1]
    content = [sum(t[n] for name, t in totals.items() if name not in CLEAN) for n in (0, 1)]
    clean = [sum(totals[name][n] for name in CLEAN) for n in (0, 1)]
    assert content[0] / content[1] >= 0.998, totals
    assert clean[0] / clean[1] >= 0.995, totals


def _runs_of(scenario: Any, runs: list[Any], scenarios: list[Any]) -> list[Any]:
    """Return the runs in a scenario's traces, and only those that asked its question if scenarios share one.

    smolagents leaves the root of a failed run open, so the next runs are in its trace.
    """
    mine = [run for run in runs if run["trace_id"] in scenario["trace_ids"]]
    sharing = sum(not set(other["trace_ids"]).isdisjoint(scenario["trace_ids"]) for other in scenarios)
    return mine if sharing < 2 else [run for run in mine if run["input"] == scenario["input"]]


def _with_repetitions(scenario: Any) -> Any:
    """Return a scenario with each call as often as it was made: an agent may try a tool again."""
    tools = scenario.get("tools") or []
    return {**scenario, "tools": [tool for tool in tools for _ in range(tool.get("times", 1))]}
