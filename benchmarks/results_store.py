"""Ingest and query rates of the results store.

    python benchmarks/results_store.py [--runs 1000000] [--batch 256] [--store results.db | postgresql://...]

Writes scored runs of two days, three scorers and two agent versions in batches of 256 (--batch), as the
destination gets them, then times a report, one with a window and a comparison, the check for alarms, and the
pages. Ingest is given by wall clock and by CPU time of this process, since other programs count in the first.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from otel_evals_monitor._internal.alarms.limits import AlarmLimits
from otel_evals_monitor._internal.alarms.monitors import check_store
from otel_evals_monitor._internal.page.access import Access
from otel_evals_monitor._internal.page.app import Page
from otel_evals_monitor._internal.report.inputs import ReportOptions, window_of
from otel_evals_monitor._internal.report.report import make_report
from otel_evals_monitor._internal.store import schema
from otel_evals_monitor._internal.store.writer import ResultsStore

SCORERS = ("grounded_in_tools", "answer_relevancy", "tool_call_accuracy")
START, HOURS = 1_790_000_000, 48


def records(count: int) -> Iterator[dict[str, Any]]:
    rng = random.Random(1)
    for number in range(count):
        trace = f"{rng.getrandbits(128):032x}"
        moment = int((START + HOURS * 3600 * number / count) * 1e9)
        scorer = SCORERS[number % 3]
        passed, probability = float(rng.random() < 0.9), rng.choice((0.05, 0.05, 0.05, 1.0))
        yield {
            "trace_id": trace,
            "span_id": trace[:16],
            "service": "shop",
            "agent": "support",
            "agent_version": "1" if number * 2 < count else "2",
            "conversation_id": f"c{number // 5}",
            "user_id": f"u{number % 10_000}",
            "start_time": moment,
            "duration": 2.0,
            "usage": {"input_tokens": 900, "output_tokens": 80},
            "input": "Where is my order 1042? It was to arrive on Monday.",
            "output": "It is on its way and arrives on Tuesday. " * 5,
            "tool_calls": [{"name": "track", "status": "ok", "result": {"day": "Tuesday"}}],
            "evaluations": [
                {
                    "evaluation_id": trace[:24] + scorer[:4],
                    "rule": scorer,
                    "scorer": scorer,
                    "version": "1",
                    "direction": "higher_is_better",
                    "scale": 1.0,
                    "status": "scored",
                    "value": passed,
                    "explanation": "every fact is in a tool's result",
                    "sampling": {"probability": probability, "rule": "ratio(0.05) | errors()"},
                    "time": moment,
                    "revision": 1,
                    "cost": 0.0002,
                    "usage": {"input_tokens": 1000, "output_tokens": 20},
                    "steps": [],
                }
            ],
        }


def timed(what: str, work: Callable[[], Any]) -> None:
    times = []
    for _ in range(3):
        before, cpu = time.perf_counter(), time.process_time()
        work()
        times.append((time.perf_counter() - before, time.process_time() - cpu))
    wall, cpu = min(times)
    print(f"{what:44} {wall:8.3f} s  (CPU {cpu:.3f} s)", flush=True)


def ingest(store: ResultsStore, count: int, at_once: int) -> None:
    given = records(count)
    wall = cpu = 0.0
    done = 0
    while batch := list(islice(given, at_once)):
        before, used = time.perf_counter(), time.process_time()
        store.write(batch)
        wall, cpu = wall + time.perf_counter() - before, cpu + time.process_time() - used
        done += len(batch)
        if done % 100_000 < at_once:
            print(f"  {done:9} runs: {done / wall:7.0f}/s, {done / cpu:7.0f} per CPU second", flush=True)
    print(f"{f'ingest of {done} scored runs':44} {done / wall:8.0f} /s ({done / cpu:.0f} per CPU second)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1_000_000)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument(
        "--copies", type=int, default=1, help="every run so many times; the others copied by SQL"
    )
    parser.add_argument("--store")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = ResultsStore(options.store or Path(folder, "results.db"))
        ingest(store, options.runs, options.batch)
        copy(store, options.copies)
        queries(store)
        store.close()
        size = sum(each.stat().st_size for each in Path(folder).iterdir())
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(
            f"{size / 1e6:.0f} MB on disk, peak memory {peak / 1024:.0f} MB, Python {sys.version.split()[0]}"
        )


def copy(store: ResultsStore, copies: int) -> None:
    """Multiply the rows without the writer, where a machine is too busy to wait for it."""
    with store.database.writing() as connection:
        for table, own in (
            ("runs", {"key": "key + {n}", "recorded": "recorded + {n}"}),
            ("evaluations", {"evaluation_id": "evaluation_id || '-{n}'", "run_key": "run_key + {n}"}),
        ):
            columns = [c.name for c in schema.metadata.tables[table].columns if c.name != "id"]
            last = connection.exec_driver_sql(f"SELECT max(id) FROM {table}").scalar_one()
            for n in range(1, copies):
                chosen = ", ".join(own.get(name, name).format(n=n) for name in columns)
                into = f"INSERT INTO {table} ({', '.join(columns)})"
                connection.exec_driver_sql(f"{into} SELECT {chosen} FROM {table} WHERE id <= {last}")
    with store.database.reading() as connection:
        count = connection.exec_driver_sql("SELECT count(*) FROM evaluations").scalar_one()
    print(f"{'in the store':44} {count:8} scored runs", flush=True)


def queries(store: ResultsStore) -> None:
    database, end = store.database, START + HOURS * 3600
    day = window_of(database, None, None, "24h")
    timed("report", lambda: make_report(database, ReportOptions()))
    by = ReportOptions(window=day, by=["version", "tenant"], against="previous")
    timed("report of 24 h by version, against the day before", lambda: make_report(database, by))
    settings = AlarmLimits(floors={SCORERS[0]: 0.8})
    timed("check for alarms", lambda: check_store(database, settings, end))
    app = Page(database, access=Access(None, "127.0.0.1")).app
    scorer = f"scorer={SCORERS[0]}&agent=support"
    for path in ("/", f"/scorer?{scorer}", f"/runs?{scorer}&order=worst", "/labels"):
        timed(f"page {path[:36]}", lambda path=path: asyncio.run(get(app, path)))


async def get(app: Any, path: str) -> None:
    """One request, without a network between."""
    place, _, query = path.partition("?")
    scope = {
        "type": "http",
        "method": "GET",
        "path": place,
        "query_string": query.encode(),
        "headers": [(b"host", b"localhost")],
        "http_version": "1.1",
        "scheme": "http",
        "server": ("localhost", 80),
    }
    status: list[int] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            status.append(message["status"])

    await app(scope, receive, send)
    assert status == [200], (path, status)


if __name__ == "__main__":
    main()
