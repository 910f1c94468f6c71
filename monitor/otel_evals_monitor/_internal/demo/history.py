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

from otel_evals_monitor._internal.store.writer import ResultsStore

_HOURS, _RUNS, _ROLLOUT = 48.0, 1_200, 34.0
_FAULTY_BEFORE, _FAULTY_AFTER = 0.05, 0.45


def write_history(store: Path, scores: Path, *, seed: int, now: float) -> int:
    """Replace a store by a history that ends at `now` (Unix time), and return its number of runs.

    Version 1 of the agent answers for 34 hours and is wrong in 1 of 20 runs, then version 2 in 9 of 20. The
    runs are repeated from `scores`, the file of the demo's jsonl destination.
    """
    lines = scores.read_text(encoding="utf-8").splitlines()
    records = sorted((json.loads(line) for line in lines if line.strip()), key=_words)
    for leftover in (store, store.with_name(store.name + "-wal"), store.with_name(store.name + "-shm")):
        leftover.unlink(missing_ok=True)
    with closing(ResultsStore(store)) as results:
        return results.write(_history(records, random.Random(seed), now)).runs if records else 0


def _history(
    records: Sequence[Mapping[str, Any]], rng: random.Random, now: float
) -> Iterator[dict[str, Any]]:
    faulty = [record for record in records if _is_faulty(record)]
    fine = [record for record in records if not _is_faulty(record)]
    for number in range(_RUNS):
        share = number / _RUNS
        hour = _HOURS * (share + 0.06 * math.sin(4.0 * math.pi * share))  # days are busy, nights are not
        version = "1" if hour < _ROLLOUT else "2"
        wrong = rng.random() < (_FAULTY_BEFORE if version == "1" else _FAULTY_AFTER)
        chosen = rng.choice((faulty if wrong else fine) or records)
        yield _again(chosen, number, version, now - 3600.0 * (_HOURS - hour))


def _words(record: Mapping[str, Any]) -> str:
    """Return a key that sorts runs alike whatever their ids and the order of their delivery."""
    return json.dumps([record["input"], record["output"]])


def _is_faulty(record: Mapping[str, Any]) -> bool:
    scores = (e["value"] for e in record["evaluations"] if e["scorer"] == "grounded_in_tools")
    return any(score is not None and score < 1.0 for score in scores)


def _again(record: Mapping[str, Any], number: int, version: str, time: float) -> dict[str, Any]:
    """Return the run, moved to another time."""
    again = copy.deepcopy(dict(record))
    trace = hashlib.sha256(f"history {number}".encode()).hexdigest()[:32]
    shift = int(time * 1e9) - record["start_time"]
    again |= {"trace_id": trace, "span_id": trace[:16], "agent_version": version}
    again |= {"conversation_id": f"history-{number // 2}", "start_time": record["start_time"] + shift}
    for evaluation in again["evaluations"]:
        evaluation["evaluation_id"] = f"{trace[:16]}-{evaluation['scorer']}"
        evaluation["time"] += shift
    return again
