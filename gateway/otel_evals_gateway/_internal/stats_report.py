"""All counters of a gateway as plain values, for `/stats` and `otel-evals top`."""

from __future__ import annotations

import time
from typing import Any

from otel_evals.destinations import plain
from otel_evals_gateway._internal.scoring_engine import Scoring
from otel_evals_gateway._internal.traffic_counters import Traffic

__all__ = ["report"]


def report(traffic: Traffic, scoring: Scoring) -> dict[str, Any]:
    """What came in, what became of it, and what waits. Holds no content."""
    stats = scoring.stats()
    return {
        "time": time.time(),
        "health": scoring.health().status,
        **traffic.snapshot(),
        "queue": scoring.engine.queue_size,
        "open_traces": scoring.gatherer.size[0],
        "runs": {"seen": stats.seen, "eligible": stats.eligible, "ignored": plain(stats.ignored)},
        "rules": plain(stats.rules),
        "losses": plain(scoring.engine.losses()),
        "destinations": plain(scoring.destination_stats()),
        "store": plain(stats.store),
        **plain(scoring.recent.snapshot()),
    }
