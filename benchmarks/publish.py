"""Writes the tables of docs/performance.md from the results of the live-scorer harness.

    python benchmarks/publish.py RESULTS [RESULTS_WITH_THE_ENGINE_IN_A_PROCESS_OF_ITS_OWN] > tables.md

Each argument is a folder of `A.json` to `E.json`, as the harness leaves them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

NAMES = {
    "floor": "tracing alone",
    "reference": "sketch",
    "reference_proc": "sketch, process pool",
    "pydantic_evals": "pydantic-evals",
    "splunk": "splunk-evals",
    "otel_evals": "**otel-evals**",
    "otel_evals_grace": "**otel-evals**, `grace=0`",
    "process": "**otel-evals**, engine in a process",
}
COLUMNS = {
    "B": {"scored per second": "scored_per_s", "% of ideal": "pct_ideal"},
    "C": {
        "p50 µs": "p50_us",
        "p99 µs": "p99_us",
        "memory +MB": "rss_growth_mb",
        "issued": "requests",
        "scored": "scored",
        "lost": "lost",
        "log lines": "log_warnings",
    },
    "D": {"issued": "issued", "scored": "scored", "event exported": "exported", "lost": "lost"},
    "E": {
        "stall p50 ms": "stall_p50_ms",
        "stall p99 ms": "stall_p99_ms",
        "stall max ms": "stall_max_ms",
        "request p99 ms": "req_p99_ms",
        "scored": "scored_in_window",
        "requests": "requests",
    },
}
TITLES = {
    "A": "A. What a call pays",
    "B": "B. How much gets scored",
    "C": "C. Ten times more than can be scored",
    "D": "D. Leaving with work in flight",
    "E": "E. The event loop beside a scorer that computes for 50 ms",
}


def read(folders: Sequence[Path], scenario: str) -> dict[str, dict[str, Any]]:
    """Results by job and system; those of the second folder are the engine process's."""
    jobs: dict[str, dict[str, Any]] = {}
    for place, folder in enumerate(folders):
        path = folder / f"{scenario}.json"
        for job, systems in (json.loads(path.read_text()) if path.exists() else {}).items():
            for system, result in systems.items():
                if place == 0:
                    jobs.setdefault(job, {})[system] = result
                elif system == "otel_evals":
                    jobs.setdefault(job, {})["process"] = result
    return jobs


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print a Markdown table."""
    print("| " + " | ".join(head) + " |")
    print("|---|" + "---:|" * (len(head) - 1))
    for row in rows:
        print("| " + " | ".join("" if cell is None else str(cell) for cell in row) + " |")
    print()


def request_path(jobs: Mapping[str, Mapping[str, Any]]) -> None:
    """Scenario A: microseconds added to a call, per rate."""
    for job, systems in jobs.items():
        floor = systems["floor"]["variants"]["floor"]["med"]
        print(f"{job.replace('-', ', ')}; tracing alone takes {floor:.0f} µs:\n")
        rows = []
        for system, result in systems.items():
            variants = result.get("variants", {})
            for variant, added in variants.items():
                if variant not in ("none", "floor"):
                    share = f"{float(variant[1:]):.0%}"
                    cells = [f"{added[name]:+.1f}" for name in ("added_med", "added_mean", "added_cpu")]
                    ratio = added["med"] / variants["floor"]["med"]
                    rows.append([NAMES[system], share, *cells, f"{ratio:.2f}"])
        head = (
            "system",
            "sampled",
            "median µs",
            "mean µs",
            "CPU µs, scoring included",
            "times its own floor",
        )
        table(head, rows)


def main() -> None:
    """Print all tables there are results for."""
    folders = [Path(name) for name in sys.argv[1:3]]
    for scenario, title in TITLES.items():
        jobs = read(folders, scenario)
        if not jobs:
            continue
        print(f"## {title}\n")
        if scenario == "A":
            request_path(jobs)
            continue
        columns = COLUMNS[scenario]
        rows = [
            [job, NAMES[system], *("error" if "error" in r else r.get(c) for c in columns.values())]
            for job, systems in jobs.items()
            for system, r in systems.items()
        ]
        table(("job", "system", *columns), rows)


if __name__ == "__main__":
    main()
