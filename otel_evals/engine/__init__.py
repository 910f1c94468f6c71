"""Runs scorers off the request path: one thread, bounded, counted."""

from otel_evals.engine.accounts import Accounts, RuleStats, Stats
from otel_evals.engine.health import Health
from otel_evals.engine.lane import Job, Lane
from otel_evals.engine.loop import EngineLoop, gather_seconds
from otel_evals.engine.losses import LossLog
from otel_evals.engine.stories import Stories

__all__ = [
    "Accounts",
    "EngineLoop",
    "Health",
    "Job",
    "Lane",
    "LossLog",
    "RuleStats",
    "Stats",
    "Stories",
    "gather_seconds",
]
