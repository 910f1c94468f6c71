"""Writes the tables of docs/performance.md from the results of the live-scorer harness.

    python benchmarks/publish.py RESULTS [OTHER]

The arguments are folders of `A.json` to `E.json`, as the harness leaves them; those of another Python come
second. The page has a place for each table, between marks with its letter. Prints the tables too.
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


def shares(results: Mapping[str, Jobs]) -> str:
    """S: rates and CPU as parts of the sketch's, from A and B."""
    paths, rates = results["A"], results["B"]
    columns = [(f"{mode}-{job}", "scored_per_s") for job in _JOBS for mode in MODES]

    def share(system: str, job: str, name: str) -> str | None:
        value = rates[job].get(system, {}).get(name)
        return None if value is None else f"{100 * value / rates[job]['reference'][name]:.0f}%"

    def cpu(system: str, mode: str) -> str | None:
        variants = [paths[f"{mode}-tight"].get(s, {}).get("variants", {}) for s in (system, "reference")]
        added = [v[max(v, key=_rate)]["added_cpu"] if v else None for v in variants]
        return None if None in added else f"{added[0] / added[1]:.1f}x"

    head = [f"{what}, {mode}" for what in _JOBS.values() for mode in MODES]
    head += [f"CPU, {mode}" for mode in MODES]
    systems = [s for s in NAMES if s in rates["thread-keyword"] and s != "reference"]
    rows = [
        [NAMES[s], *(share(s, *column) for column in columns), *(cpu(s, mode) for mode in MODES)]
        for s in systems
    ]
    return table(("share of the sketch", *head), rows)


_JOBS = {
    "keyword": "in code",
    "async200ms-c32": "32",
    "async200ms-c256": "256",
    "async200ms-c1000": "1,000",
}


def _rate(variant: str) -> float:
    return float(variant[1:]) if variant not in ("none", "floor") else -1.0


TABLES: dict[str, Callable[[Jobs], str]] = {
    "A": request_path,
    "B": throughput,
    "C": overload,
    "D": endings,
    "E": stalls,
}


def results_in(folder: str) -> dict[str, Jobs]:
    """The results of a folder by scenario."""
    found = {letter: Path(folder, f"{letter}.json") for letter in TABLES}
    return {letter: json.loads(path.read_text()) for letter, path in found.items() if path.exists()}


def main() -> None:
    """Write every table there are results for."""
    page = PAGE.read_text(encoding="utf-8")
    for number, folder in enumerate(sys.argv[1:]):
        results = results_in(folder)
        made = {letter: TABLES[letter](jobs) for letter, jobs in results.items() if not number}
        if {"A", "B"} <= results.keys():
            made[f"S{number + 1}"] = shares(results)
        for mark, text in made.items():
            print(f"\n{mark} {folder}\n\n{text}")
            before, begin, rest = page.partition(f"<!-- {mark} -->")
            _, end, after = rest.partition(f"<!-- /{mark} -->")
            page = f"{before}{begin}\n\n{text}\n\n{end}{after}" if begin else page
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
