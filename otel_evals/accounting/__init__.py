"""What happened to every run: counters, trace log, loss log, health, and explanations of single traces."""

from __future__ import annotations

from otel_evals.accounting.counters import Counters, RuleStats, Stats
from otel_evals.accounting.explanation import Explanation
from otel_evals.accounting.health import Health
from otel_evals.accounting.loss_log import LossLog
from otel_evals.accounting.trace_log import TraceLog

__all__ = ["Counters", "Explanation", "Health", "LossLog", "RuleStats", "Stats", "TraceLog"]
