"""What `otel-evals score` says at its end: the table, what is wrong, the worst runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from otel_evals._internal.accounting.counters import Stats
from otel_evals._internal.cli.terminal import echo
from otel_evals._internal.deliver.counts import DestinationStats
from otel_evals._internal.deliver.record import plain
from otel_evals._internal.evaluate.progress import Progress
from otel_evals._internal.judges.fence import visible
from otel_evals._internal.model import Direction, Evaluation, Score, ScorerFailure
from otel_evals._internal.offline.table import as_rich, as_text
from otel_evals._internal.offline.tally import ScorerTally

_BUDGET = "BudgetExceededError"

Report = tuple[tuple[ScorerTally, ...], Stats, dict[str, DestinationStats]]


def unfinished(report: Report, progress: Progress) -> Iterator[str]:
    """Why not everything was scored, and how it will be."""
    refused = {each.scorer_id: each.failed.get(_BUDGET, 0) for each in report[0]}
    for scorer_id, count in refused.items():
        if count:
            hint = "with --resume FILE, the same command goes on from there"
            yield f"{scorer_id}: a budget was used up, and {count} runs were not scored ({_BUDGET}); {hint}"
    if progress.stopped:
        yield f"not all was scored: {progress.stopped}. The same command, later, goes on from there"
    elif progress.left:
        yield f"{progress.left} evaluations could not be made now; the same command, later, makes them"


def problems(
    place: str, report: Report, evaluations: list[Evaluation], fail_under: float | None
) -> Iterator[str]:
    """Why the command fails."""
    tallies, stats, deliveries = report
    if not stats.seen:
        yield f"{place}: no run found: there is no span of an agent or a model"
    for each in tallies:
        if each.failed and not each.scored:
            count = sum(each.failed.values())
            cause = _first_failure(each.scorer_id, evaluations)
            yield f"{each.scorer_id} failed on all its {count} runs: {cause}"
        if fail_under is not None and each.mean is not None:
            good = each.mean if each.direction is Direction.HIGHER else 1 - each.mean
            if good < fail_under:
                yield f"{each.scorer_id}: the mean {each.mean:.3f} does not pass --fail-under {fail_under:g}"
    for name, delivered in deliveries.items():
        if delivered.failed or delivered.dropped:
            yield f"{name}: {delivered.failed + delivered.dropped} scored runs were not delivered"


def _first_failure(scorer_id: str, evaluations: list[Evaluation]) -> str:
    failures = (
        e.outcome for e in evaluations if e.scorer_id == scorer_id and isinstance(e.outcome, ScorerFailure)
    )
    first = next(failures, None)
    return "" if first is None else visible(f"{first.error_type}: {first.message}"[:500])


def worst_runs(
    tallies: Sequence[ScorerTally], evaluations: Sequence[Evaluation], count: int
) -> Iterator[str]:
    """The worst runs of each scorer that are not perfect, with their reasons, as lines of text."""
    for each in tallies:
        mine = [
            (e, e.outcome)
            for e in evaluations
            if e.scorer_id == each.scorer_id and isinstance(e.outcome, Score)
        ]
        lower = each.direction is Direction.LOWER
        best = each.lowest if lower else each.highest
        ordered = sorted(mine, key=lambda pair: pair[1].value, reverse=lower)[:count]
        for evaluation, found in [pair for pair in ordered if pair[1].value != best]:
            reason = visible((found.explanation or found.label or "no reason given")[:200])
            yield f"{each.scorer_id} {found.value:g}  trace {evaluation.trace_id}  {reason}"


def show(report: Report) -> None:
    """Print the table, and what was left out."""
    from rich.console import Console

    tallies, stats, deliveries = report
    console = Console(highlight=False)
    if console.is_terminal:
        console.print(as_rich(tallies))
    else:
        echo(as_text(tallies))
    ignored = "".join(f", {count} {reason}" for reason, count in stats.ignored.items())
    echo(f"{stats.seen} runs{ignored}")
    for name, rule in stats.rules.items():
        if rule.not_sampled:
            reasons = ", ".join(f"{count} {reason}" for reason, count in rule.not_sampled.items())
            echo(f"{name}: {reasons} of {rule.eligible}")
    for name, delivered in deliveries.items():
        lost = delivered.failed + delivered.dropped
        echo(f"{name}: {delivered.exported} delivered" + (f", {lost} lost" if lost else ""))


def plain_summary(report: Report) -> dict[str, Any]:
    """The summary as JSON values."""
    tallies, stats, deliveries = report
    return {
        "scorers": [plain(each) for each in tallies],
        "runs": stats.seen,
        "ignored": plain(stats.ignored),
        "rules": plain(stats.rules),
        "destinations": plain(deliveries),
    }
