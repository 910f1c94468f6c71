"""A report as JSON values."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from otel_evals.statistics import Picks
from otel_evals_monitor._internal.report.inputs import TraceLink
from otel_evals_monitor._internal.report.patterns import FailurePattern, Failures
from otel_evals_monitor._internal.report.report import ScoreReport, SliceReport
from otel_evals_monitor._internal.report.runs import RunOfSlice
from otel_evals_monitor._internal.report.sampler import SURPRISING
from otel_evals_monitor._internal.report.words import timestamp
from otel_evals_monitor._internal.store.rows import STATUSES


def as_plain(report: ScoreReport, link: TraceLink) -> dict[str, Any]:
    """Return the report as JSON values: times in ISO 8601, scores in units of the scorer."""
    since, until = report.window.since, report.window.until
    return {
        "source": report.source,
        "since": timestamp(since),
        "until": timestamp(until),
        "recorded": [timestamp(each) for each in report.recorded] if report.recorded else None,
        "notes": list(report.notes),
        "estimates": [_slice(each, link) for each in report.slices],
        "sampler_checks": [_check(rule, picks) for rule, picks in report.picks.items()],
    }


def _check(rule: str, picks: Picks) -> dict[str, Any]:
    return {
        "rule": rule,
        "runs": picks.runs,
        "picked": picks.picked,
        "expected": picks.expected,
        "z": picks.z,
        "surprising": picks.z is not None and abs(picks.z) > SURPRISING,
    }


def _slice(row: SliceReport, link: TraceLink) -> dict[str, Any]:
    known, bounds = row.estimate, row.bounds
    counts = {name: row.counts.get(name, 0) for name in STATUSES}
    return {
        **{name: value or None for name, value in row.slice.items()},
        "n": known.n,
        "n_effective": known.n_effective,
        "users_or_conversations": known.clusters,
        "mean": known.mean,
        "low": known.interval.low if known.interval else None,
        "high": known.interval.high if known.interval else None,
        "confidence": known.confidence,
        "scale": row.scale,
        "direction": "lower_is_better" if row.lower_is_better else "higher_is_better",
        "too_few": known.too_few,
        "representative": row.representative,
        "warnings": list(row.warnings),
        **counts,
        "unknown_probability": known.unknown,
        "reasons": [
            {"status": status, "reason": reason, "runs": count}
            for (status, reason), count in sorted(row.reasons.items())
        ],
        "sampled": row.sampled,
        "stands_for": row.stands_for,
        "missing_share": row.missing_share,
        "missing_low": bounds.low if bounds else None,
        "missing_high": bounds.high if bounds else None,
        "cost": row.cost,
        "change": asdict(row.change) if row.change else None,
        "worst": [_run(run, link) for run in row.worst],
        "failures": _failures(row.failures, link),
    }


def _run(run: RunOfSlice, link: TraceLink) -> dict[str, Any]:
    return {**asdict(run), "time": timestamp(run.time), "link": link.to(run)}


def _failures(failures: Failures, link: TraceLink) -> dict[str, Any]:
    return {
        **{name: getattr(failures, name) for name in ("limit", "runs", "read", "others")},
        "patterns": [_pattern(each, link) for each in failures.patterns],
    }


def _pattern(pattern: FailurePattern, link: TraceLink) -> dict[str, Any]:
    share = pattern.share
    return {
        **{name: getattr(pattern, name) for name in ("name", "template", "runs", "trend")},
        "tools": list(pattern.tools),
        "words": list(pattern.words),
        "share": share.mean,
        "low": share.interval.low if share.interval else None,
        "high": share.interval.high if share.interval else None,
        "first_seen": timestamp(pattern.first_seen),
        "example": _run(pattern.example, link),
    }
