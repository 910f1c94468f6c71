"""Writes the tables of docs/performance.md from the results of the live-scorer harness.

    python benchmarks/publish.py RESULTS

The argument is a folder of `A.json` to `E.json`, as the harness leaves them. The page has a place for each
table, between marks with its letter.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
NAMES = {
    "floor": "tracing alone",
    "reference": "sketch",
    "reference_proc": "sketch, process pool",
    "pydantic_evals": "pydantic-evals",
    "splunk": "splunk-evals",
    "otel_evals": "**otel-evals**",
}
MODES = ("thread", "asyncio")

Jobs = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""Results by job and system."""


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    lines += ["| " + " | ".join("-" if cell is None else str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def by_system(jobs: Jobs, cells: Callable[[str], Sequence[Any]]) -> list[list[Any]]:
    """A row for each system that has results."""
    found = {system for systems in jobs.values() for system in systems}
    return [[NAMES[system], *cells(system)] for system in NAMES if system in found]


def request_path(jobs: Jobs) -> str:
    """A: microseconds of a bare call, and the added time of each system."""

    def added(system: str, mode: str, variant: str, name: str) -> str | None:
        variants = jobs[f"{mode}-tight"].get(system, {}).get("variants", {})
        if system == "floor":
            return f"{variants['floor']['cpu' if name == 'added_cpu' else 'med']:.0f}"
        return f"{variants[variant][name]:+.1f}" if variant in variants else None

    wanted = [("r0", "added_med"), ("r1", "added_med"), ("r1", "added_cpu")]
    rates = {name for r in jobs["thread-tight"].values() for name in r.get("variants", {})} - {
        "none",
        "floor",
    }
    named = {
        "r0": min(rates, key=lambda name: float(name[1:])),
        "r1": max(rates, key=lambda name: float(name[1:])),
    }
    head = [f"{what}, {mode}" for what in ("unsampled", "sampled", "CPU of a sampled one") for mode in MODES]
    return table(
        ("µs added to a call", *head),
        by_system(jobs, lambda s: [added(s, m, named[v], name) for v, name in wanted for m in MODES]),
    )


def throughput(jobs: Jobs) -> str:
    """B: runs scored per second, and percent of what so many calls of 200 ms at once allow."""

    def cell(system: str, job: str, name: str) -> str | None:
        value = jobs.get(job, {}).get(system, {}).get(name)
        return None if value is None else f"{value:,.0f}" + ("%" if name == "pct_ideal" else "")

    columns = [(f"{mode}-keyword", "scored_per_s") for mode in MODES]
    columns += [(f"{mode}-async200ms-c{n}", "pct_ideal") for n in (32, 256, 1000) for mode in MODES]
    head = [f"{what}, {mode}" for what in ("in code, per s", "32", "256", "1,000") for mode in MODES]
    return table(("system", *head), by_system(jobs, lambda s: [cell(s, *column) for column in columns]))


def overload(jobs: Jobs) -> str:
    """C: how long calls take when ten times more comes than can be scored."""

    def cells(system: str) -> list[Any]:
        row: list[Any] = []
        for mode in MODES:
            result, floor = jobs[mode].get(system, {}), jobs[mode]["floor"]
            row += [
                f"{result['p50_us'] / floor['p50_us']:.2f}" if "p50_us" in result else None,
                result.get("rss_growth_mb"),
                result.get("scored"),
            ]
        return row

    head = [f"{what}, {mode}" for mode in MODES for what in ("p50 / alone", "memory +MB", "scored")]
    return table(("system", *head), by_system(jobs, cells))


def endings(jobs: Jobs) -> str:
    """D: how many of 50 evaluations are lost, by how the process ends; with threads and with asyncio."""
    ways = {
        "exit": "end of the program",
        "clean": "shutdown",
        "sigterm": "SIGTERM",
        "sigterm_handler": "SIGTERM, handled",
        "kill9": "kill -9",
    }

    def cells(system: str) -> list[str]:
        return [
            " / ".join(str(jobs.get(f"{mode}-{way}", {}).get(system, {}).get("lost", "-")) for mode in MODES)
            for way in ways
        ]

    return table(("lost of 50", *ways.values()), by_system(jobs, cells))


def stalls(jobs: Jobs) -> str:
    """E: pauses of the application's event loop while a scorer computes."""
    columns = {
        "stall p99 ms": "stall_p99_ms",
        "stall max ms": "stall_max_ms",
        "request p99 ms": "req_p99_ms",
        "scored": "scored_in_window",
    }
    head = [f"{what}, {job.removesuffix('rps')}/s" for job in jobs for what in columns]
    return table(
        ("system", *head),
        by_system(
            jobs, lambda s: [jobs[job].get(s, {}).get(name) for job in jobs for name in columns.values()]
        ),
    )


TABLES: dict[str, Callable[[Jobs], str]] = {
    "A": request_path,
    "B": throughput,
    "C": overload,
    "D": endings,
    "E": stalls,
}


def main() -> None:
    """Write every table there are results for."""
    folder = Path(sys.argv[1])
    page = PAGE.read_text(encoding="utf-8")
    for scenario, made in TABLES.items():
        results = folder / f"{scenario}.json"
        if results.exists():
            text = made(json.loads(results.read_text()))
            before, mark, rest = page.partition(f"<!-- {scenario} -->")
            _, end, after = rest.partition(f"<!-- /{scenario} -->")
            page = f"{before}{mark}\n\n{text}\n\n{end}{after}"
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
