"""Two days of made-up history: the demo's own runs told again, and a second version that is worse."""

from __future__ import annotations

import copy
import hashlib
import json
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from otel_evals_monitor._internal.store.writer import ResultsStore

_HOURS, _RUNS, _ROLLOUT = 48.0, 1_200, 34.0
_FAULTY_BEFORE, _FAULTY_AFTER = 0.05, 0.45


def write_history(store: Path, scores: Path, *, seed: int, now: float) -> int:
    """Write a new store; returns how many runs are in it.

    Version 1 of the agent answers for 34 hours and is wrong in one run of twenty, version 2 in nine.

    Args:
        store: the file, which is replaced.
        scores: what the demo's jsonl destination wrote.
        seed: the same seed and scores make the same history.
        now: when it ends, seconds since the Unix epoch.
    """
    lines = scores.read_text(encoding="utf-8").splitlines()
    told = [json.loads(line) for line in lines if line.strip()]
    for leftover in (store, store.with_name(store.name + "-wal"), store.with_name(store.name + "-shm")):
        leftover.unlink(missing_ok=True)
    results = ResultsStore(store)
    try:
        return results.write(_history(told, random.Random(seed), now)).runs if told else 0
    finally:
        results.close()


def _history(told: Sequence[Mapping[str, Any]], rng: random.Random, now: float) -> Iterator[dict[str, Any]]:
    faulty = [record for record in told if _is_faulty(record)]
    fine = [record for record in told if not _is_faulty(record)]
    for number in range(_RUNS):
        hour = _HOURS * _when(number / _RUNS)
        version = "1" if hour < _ROLLOUT else "2"
        wrong = rng.random() < (_FAULTY_BEFORE if version == "1" else _FAULTY_AFTER)
        chosen = rng.choice((faulty if wrong else fine) or told)
        yield _again(chosen, number, version, now - 3600.0 * (_HOURS - hour))


def _when(share: float) -> float:
    """How much of the time has passed when this share of the runs is done: days are busy, nights are not."""
    return share + 0.06 * math.sin(4.0 * math.pi * share)


def _is_faulty(record: Mapping[str, Any]) -> bool:
    scores = (e["value"] for e in record["evaluations"] if e["scorer"] == "grounded_in_tools")
    return any(score is not None and score < 1.0 for score in scores)


def _again(record: Mapping[str, Any], number: int, version: str, time: float) -> dict[str, Any]:
    """The same run, as if it had happened at another time."""
    again = copy.deepcopy(dict(record))
    trace = hashlib.sha256(f"history {number}".encode()).hexdigest()[:32]
    shift = int(time * 1e9) - record["start_time"]
    again |= {"trace_id": trace, "span_id": trace[:16], "agent_version": version}
    again |= {"conversation_id": f"history-{number // 2}", "start_time": record["start_time"] + shift}
    for evaluation in again["evaluations"]:
        evaluation["evaluation_id"] = f"{trace[:16]}-{evaluation['scorer']}"
        evaluation["time"] += shift
    return again
