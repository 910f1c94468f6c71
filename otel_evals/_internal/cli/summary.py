"""Summary of `otel-evals score`: the table, problems, and the worst runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from otel_evals._internal.accounting.counters import Stats
from otel_evals._internal.cli.terminal import echo
from otel_evals._internal.deliver.destination import DestinationStats
from otel_evals._internal.deliver.record import plain
from otel_evals._internal.evaluate.progress import Progress
from otel_evals._internal.judges.fence import visible
from otel_evals._internal.model import Direction, Evaluation, Score, ScorerFailure
from otel_evals._internal.offline.table import as_rich, as_text
from otel_evals._internal.offline.tally import ScorerTally

_BUDGET = "BudgetExceededError"

Report = tuple[tuple[ScorerTally, ...], Stats, dict[str, DestinationStats]]


def unfinished(report: Report, progress: Progress) -> Iterator[str]:
    """Explain why runs were left unscored, and how to continue."""
    refused = {each.scorer_id: each.failed.get(_BUDGET, 0) for each in report[0]}
    for scorer_id, count in refused.items():
        if count:
            hint = "fix: run the same command again with --resume FILE"
            yield f"{scorer_id}: the budget is used up; {count} runs were not scored ({_BUDGET}); {hint}"
    if progress.stopped:
        yield f"stopped early: {progress.stopped}; run the same command again to continue"
    elif progress.left:
        yield f"{progress.left} evaluations are left; run the same command again to continue"


def problems(
    place: str, report: Report, evaluations: list[Evaluation], fail_under: float | None
) -> Iterator[str]:
    """Yield the reasons to exit with 1."""
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
    for each in evaluations:
        if each.scorer_id == scorer_id and isinstance(each.outcome, ScorerFailure):
            return visible(f"{each.outcome.error_type}: {each.outcome.message}"[:500])
    return ""


def worst_runs(
    tallies: Sequence[ScorerTally], evaluations: Sequence[Evaluation], count: int
) -> Iterator[str]:
    """Yield a line for each of the worst runs per scorer, with its reason; perfect runs are left out."""
    for each in tallies:
        own = (e for e in evaluations if e.scorer_id == each.scorer_id)
        mine = [(e, e.outcome) for e in own if isinstance(e.outcome, Score)]
        lower = each.direction is Direction.LOWER
        best = each.lowest if lower else each.highest
        ordered = sorted(mine, key=lambda pair: pair[1].value, reverse=lower)[:count]
        for evaluation, found in [pair for pair in ordered if pair[1].value != best]:
            reason = visible((found.explanation or found.label or "no reason given")[:200])
            yield f"{each.scorer_id} {found.value:g}  trace {evaluation.trace_id}  {reason}"


def show(report: Report) -> None:
    """Print the table, and counts of ignored and lost runs."""
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
    """Return the summary as JSON values."""
    tallies, stats, deliveries = report
    return {
        "scorers": [plain(each) for each in tallies],
        "runs": stats.seen,
        "ignored": plain(stats.ignored),
        "rules": plain(stats.rules),
        "destinations": plain(deliveries),
    }
