"""Two days of made-up history: the demo's own runs repeated, with a second version that is worse."""

from __future__ import annotations

import copy
import hashlib
import json
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from otel_evals_monitor._internal.store.labels import add_feedback
from otel_evals_monitor._internal.store.writer import ResultsStore

_HOURS, _ROLLOUT, _RUNS, _QUIET_RUNS = 48.0, 34.0, 1_600, 60
_FAILING, _FAULTY, _PASSED_OVER = 0.35, 0.04, 0.9
_CUSTOMERS, _COMPLAINTS = 300, 0.15
_Record = dict[str, Any]


def write_history(store: Path, scores: Path, *, seed: int, now: float) -> int:
    """Replace a store by a history that ends at `now` (Unix time), and return its number of runs.

    A tool fails in one of three runs of the agent `support`. Version 1 says so; version 2, after 34 hours,
    invents an answer instead. The agent `concierge` has few runs. The runs are repeated from `scores`, the
    file of the demo's jsonl destination. The same scores and seed give the same history.
    """
    # SQLite's log and its index are part of the store, and may remain after a crash.
    for leftover in (store, store.with_name(store.name + "-wal"), store.with_name(store.name + "-shm")):
        leftover.unlink(missing_ok=True)
    records = [json.loads(line) for line in scores.read_text(encoding="utf-8").splitlines() if line.strip()]
    # Sorted by their words: ids and the order of delivery differ.
    records.sort(key=lambda record: json.dumps([record["input"], record["output"]]))
    rng = random.Random(seed)
    with closing(ResultsStore(store)) as results:
        written = list(_runs(_pools(records), rng, now)) if records else []
        results.write(written)
        for record in written:
            if _value(record, "owns_up") == 0.0 and rng.random() < _COMPLAINTS:
                add_feedback(results.database, record["trace_id"], 0, comment="That is not true.")
    return len(written)


def _pools(records: Sequence[_Record]) -> Mapping[str, Sequence[_Record]]:
    """Return the records by kind of outcome; similar ones if there are none."""
    pools: dict[str, list[_Record]] = {"passed over": [], "wrong": [], "admitted": [], "fine": []}
    for record in records:
        admitted = _value(record, "owns_up")
        kind = "admitted" if admitted else "fine"
        if _value(record, "grounded_in_tools") not in (None, 1.0):
            kind = "wrong"
        pools["passed over" if admitted == 0.0 else kind].append(record)
    alike = {"passed over": "wrong", "admitted": "fine"}
    return {kind: found or pools[alike.get(kind, kind)] or records for kind, found in pools.items()}


def _runs(pools: Mapping[str, Sequence[_Record]], rng: random.Random, now: float) -> Iterator[_Record]:
    for number in range(_RUNS):
        share = number / _RUNS
        # Days are busy, nights are not.
        hour = _HOURS * (share + 0.06 * math.sin(4.0 * math.pi * share))
        version, chance = "1" if hour < _ROLLOUT else "2", rng.random()
        kind = "wrong" if chance < _FAILING + _FAULTY else "fine"
        if chance < _FAILING:
            kind = "passed over" if version == "2" and rng.random() < _PASSED_OVER else "admitted"
        time = now - 3600.0 * (_HOURS - hour)
        yield _again(rng.choice(pools[kind]), number, time, rng, agent="support", agent_version=version)
    for number in range(_QUIET_RUNS):
        record = rng.choice(pools["wrong" if rng.random() < 0.15 else "fine"])
        time = now - 3600.0 * _HOURS * (1.0 - (number + rng.random()) / _QUIET_RUNS)
        yield _again(record, _RUNS + number, time, rng, agent="concierge", agent_version="1")


def _again(record: _Record, number: int, time: float, rng: random.Random, **changed: str) -> _Record:
    again = copy.deepcopy(record) | changed
    trace = hashlib.sha256(f"history {number}".encode()).hexdigest()[:32]
    customer = rng.randrange(_CUSTOMERS)
    shift = int(time * 1e9) - record["start_time"]
    again |= {"trace_id": trace, "span_id": trace[:16], "start_time": int(time * 1e9), "spans": []}
    again |= {"user_id": f"customer-{customer}", "tenant": "eu" if customer % 5 < 3 else "us"}
    again |= {"conversation_id": f"history-{number}"}
    for evaluation in again["evaluations"]:
        evaluation["evaluation_id"] = f"{trace[:16]}-{evaluation['scorer']}"
        evaluation["time"] += shift
    return again


def _value(record: Mapping[str, Any], scorer: str) -> float | None:
    return next((e["value"] for e in record["evaluations"] if e["scorer"] == scorer), None)
