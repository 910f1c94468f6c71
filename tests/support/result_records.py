"""Records of scored runs, as the JSONL destination writes them, for tests of the results store."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["START", "record", "records"]

START = 1_790_000_400
"""Seconds since the Unix epoch at which `records` begins; a full ten minutes."""


def record(
    number: int,
    value: float | None,
    *,
    scorer: str = "grounded",
    probability: float | None = 1.0,
    time: float = START,
    status: str = "scored",
    reason: str | None = None,
    version: str = "1",
    direction: str = "higher_is_better",
    revision: int = 1,
    conversation: str | None = None,
    **run: Any,
) -> dict[str, Any]:
    """One run with one evaluation."""
    trace = hashlib.md5(str(number).encode()).hexdigest()
    evaluation = {
        "evaluation_id": f"{trace[:16]}-{scorer}",
        "rule": scorer,
        "scorer": scorer,
        "version": "a1",
        "direction": direction,
        "scale": 1.0,
        "status": status,
        "reason": reason,
        "value": value if status == "scored" else None,
        "label": None,
        "explanation": f"explained {number}",
        "sampling": {"probability": probability, "rule": "ratio"},
        "attempts": 1,
        "revision": revision,
        "time": int(time * 1e9),
        "cost": 0.001,
        "usage": {"input_tokens": 10, "output_tokens": 2},
        "steps": [{"name": "analyze", "prompt": "Is it so?", "result": "no", "model": "judge-1"}],
    }
    return {
        "trace_id": trace,
        "span_id": trace[:16],
        "service": "shop",
        "agent": "support",
        "agent_version": version,
        "conversation_id": conversation,
        "user_id": f"user-{number % 7}",
        "start_time": int(time * 1e9) - 10**9,
        "duration": 1.0,
        "usage": {"input_tokens": 100, "output_tokens": 20},
        "input": "Where is my order?",
        "output": f"It ships on day {number}.",
        "tool_calls": [{"name": "track", "status": "ok", "arguments": {"id": number}, "result": {"day": 3}}],
        "evaluations": [evaluation],
        **run,
    }


def records(
    count: int,
    *,
    hours: float = 48.0,
    mean: Callable[[float], float] = lambda hour: 0.9,
    seed: int = 1,
    end: float = START + 48 * 3600,
    **fields: Any,
) -> Iterator[dict[str, Any]]:
    """Runs at an even pace that end at a time, each passing with the probability of its hour."""
    rng = random.Random(seed)
    for number in range(count):
        hour = hours * number / count
        passed = float(rng.random() < mean(hour))
        yield record(
            seed * 1_000_000 + number, passed, time=end - 3600 * (hours - hour), **{"version": "1", **fields}
        )
