"""Two days of made-up history: the demo's own runs repeated, with a second version that is worse."""

from __future__ import annotations

import copy
import hashlib
import json
import math
import random
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from otel_evals_monitor._internal.store.labels import add_feedback
from otel_evals_monitor._internal.store.writer import ResultsStore

_HOURS, _ROLLOUT, _RUNS, _QUIET_RUNS = 48.0, 34.0, 1_600, 60
_FAILING, _FAULTY, _PASSED_OVER = 0.35, 0.04, 0.9
_BUSY, _DROPPED = (36.0, 36.7), 0.3
_CUSTOMERS, _COMPLAINTS = 300, 0.15


def write_history(store: Path, scores: Path, *, seed: int, now: float) -> int:
    """Replace a store by a history that ends at `now` (Unix time), and return its number of runs.

    A tool fails in one of three runs of the agent `support`. Version 1 says so; version 2, after 34 hours,
    invents an answer instead. The agent `concierge` has few runs. The runs are repeated from `scores`, the
    file of the demo's jsonl destination.
    """
    # SQLite's log and its index are part of the store, and may remain after a crash.
    for leftover in (store, store.with_name(store.name + "-wal"), store.with_name(store.name + "-shm")):
        leftover.unlink(missing_ok=True)
    history = History(scores, seed)
    with closing(ResultsStore(store)) as results:
        written = list(history.runs(now)) if history.records else []
        results.write(written)
        for record in written:
            if _value(record, "owns_up") == 0.0 and history.rng.random() < _COMPLAINTS:
                add_feedback(results.database, record["trace_id"], 0, comment="That is not true.")
    return len(written)


class History:
    """Made-up runs, the same for the same scores and seed."""

    def __init__(self, scores: Path, seed: int) -> None:
        lines = scores.read_text(encoding="utf-8").splitlines()
        # Sorted by their words: ids and the order of delivery differ.
        key = lambda record: json.dumps([record["input"], record["output"]])  # noqa: E731
        self.records = sorted((json.loads(line) for line in lines if line.strip()), key=key)
        self.rng, self._number = random.Random(seed), 0
        wrong = [record for record in self.records if _value(record, "grounded_in_tools") not in (None, 1.0)]
        silent = [record for record in self.records if _value(record, "owns_up") == 0.0]
        fine = [record for record in self.records if record not in wrong and record not in silent]
        honest = [record for record in fine if _value(record, "owns_up") == 1.0]
        self._pools = {
            "passed over": silent or wrong or self.records,
            "wrong": [record for record in wrong if record not in silent] or wrong or self.records,
            "admitted": honest or fine or self.records,
            "fine": [record for record in fine if record not in honest] or fine or self.records,
        }

    def runs(self, now: float) -> Iterator[dict[str, Any]]:
        for number in range(_RUNS):
            share = number / _RUNS
            # Days are busy, nights are not.
            hour = _HOURS * (share + 0.06 * math.sin(4.0 * math.pi * share))
            yield self.run("1" if hour < _ROLLOUT else "2", hour, now)
        for number in range(_QUIET_RUNS):
            record = self.rng.choice(self._pools["wrong" if self.rng.random() < 0.15 else "fine"])
            hour = _HOURS * (number + self.rng.random()) / _QUIET_RUNS
            yield self._again(record, "concierge", "1", hour, now)

    def run(self, version: str, hour: float, now: float) -> dict[str, Any]:
        """Return a run of the agent `support`; hour 48 is `now`."""
        chance = self.rng.random()
        if chance < _FAILING:
            silent = version == "2" and self.rng.random() < _PASSED_OVER
            pool = "passed over" if silent else "admitted"
        else:
            pool = "wrong" if chance < _FAILING + _FAULTY else "fine"
        again = self._again(self.rng.choice(self._pools[pool]), "support", version, hour, now)
        if _BUSY[0] < hour < _BUSY[1] and self.rng.random() < _DROPPED:
            dropped = min(again["evaluations"], key=lambda each: each["scorer"] != "tool_call_accuracy")
            dropped |= {"status": "dropped", "reason": "queue_full", "value": None}
        return again

    def _again(
        self, record: Mapping[str, Any], agent: str, version: str, hour: float, now: float
    ) -> dict[str, Any]:
        number, self._number = self._number, self._number + 1
        again = copy.deepcopy(dict(record))
        trace = hashlib.sha256(f"history {number}".encode()).hexdigest()[:32]
        shift = int((now - 3600.0 * (_HOURS - hour)) * 1e9) - record["start_time"]
        customer = self.rng.randrange(_CUSTOMERS)
        again |= {"trace_id": trace, "span_id": trace[:16], "agent": agent, "agent_version": version}
        again |= {"user_id": f"customer-{customer}", "tenant": "eu" if customer % 5 < 3 else "us"}
        again |= {"conversation_id": f"history-{number}", "start_time": record["start_time"] + shift}
        again |= {"prompt_version": f"support-v{version}", "spans": []}
        for evaluation in again["evaluations"]:
            evaluation["evaluation_id"] = f"{trace[:16]}-{evaluation['scorer']}"
            evaluation["time"] += shift
        return again


def _value(record: Mapping[str, Any], scorer: str) -> float | None:
    return next((e["value"] for e in record["evaluations"] if e["scorer"] == scorer), None)
