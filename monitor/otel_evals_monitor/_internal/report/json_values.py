"""A report as JSON values: times in ISO 8601, scores in units of the scorer."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from otel_evals.statistics import Interval
from otel_evals_monitor._internal.report.inputs import TraceLink
from otel_evals_monitor._internal.report.patterns import FailurePattern
from otel_evals_monitor._internal.report.report import ScoreReport, SliceReport
from otel_evals_monitor._internal.report.runs import RunOfSlice
from otel_evals_monitor._internal.report.words import timestamp
from otel_evals_monitor._internal.store.picks import SURPRISING
from otel_evals_monitor._internal.store.rows import STATUSES

Json = dict[str, Any]
"""An object of JSON."""


def as_plain(report: ScoreReport, link: TraceLink) -> Json:
    checks = [
        {
            **_named(picks, "runs", "picked", "expected", "z"),
            "rule": rule,
            "surprising": picks.z is not None and abs(picks.z) > SURPRISING,
        }
        for rule, picks in report.picks.items()
    ]
    return {
        "source": report.source,
        "since": timestamp(report.window.since),
        "until": timestamp(report.window.until),
        "recorded": [timestamp(each) for each in report.recorded] if report.recorded else None,
        "notes": list(report.notes),
        "estimates": [_slice(each, link) for each in report.slices],
        "sampler_checks": checks,
    }


def _slice(row: SliceReport, link: TraceLink) -> Json:
    known, failures = row.estimate, row.failures
    return {
        **{name: value or None for name, value in row.slice.items()},
        **_named(known, "n", "n_effective", "confidence", "too_few"),
        "mean": known.mean,
        **_ends(known.interval, "low", "high"),
        "users_or_conversations": known.clusters,
        "unknown_probability": known.unknown,
        "direction": "lower_is_better" if row.lower_is_better else "higher_is_better",
        **_named(row, "scale", "representative", "sampled", "stands_for", "missing_share", "cost"),
        "warnings": list(row.warnings),
        **{name: row.counts.get(name, 0) for name in STATUSES},
        "reasons": [
            {"status": status, "reason": reason, "runs": count}
            for (status, reason), count in sorted(row.reasons.items())
        ],
        **_ends(row.bounds, "missing_low", "missing_high"),
        "change": asdict(row.change) if row.change else None,
        "worst": [run_values(run, link) for run in row.worst],
        "failures": {
            **_named(failures, "limit", "runs", "read", "others"),
            "patterns": [pattern_values(each, link) for each in failures.patterns],
        },
    }


def run_values(run: RunOfSlice, link: TraceLink) -> Json:
    return {**asdict(run), "time": timestamp(run.time), "link": link.to(run)}


def pattern_values(pattern: FailurePattern, link: TraceLink) -> Json:
    return {
        **_named(pattern, "name", "runs", "trend"),
        "share": pattern.share.mean,
        **_ends(pattern.share.interval, "low", "high"),
        "first_seen": timestamp(pattern.first_seen),
        "example": run_values(pattern.example, link),
    }


def _ends(interval: Interval | None, low: str, high: str) -> dict[str, float | None]:
    return {low: interval.low, high: interval.high} if interval else {low: None, high: None}


def _named(value: Any, *names: str) -> Json:
    return {name: getattr(value, name) for name in names}
