"""Printed report."""

from __future__ import annotations

from collections.abc import Iterator

from otel_evals_monitor._internal.report.inputs import TraceLink
from otel_evals_monitor._internal.report.report import ScoreReport, SliceReport
from otel_evals_monitor._internal.report.words import Zone, count, interval, number, one_line

_PATTERNS = 5


def print_report(report: ScoreReport, link: TraceLink) -> None:
    """Print a report: a line for each slice, notes, and the worst runs."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    # Without a terminal, Rich assumes 80 columns and folds the table.
    if not console.is_terminal:
        console.width = 200
    # Rich reads no markup in a Text: names and answers may contain brackets.
    console.print(Text(_heading(report)))
    if not report.slices:
        console.print(Text(f"Nothing on record in this window with these properties; {report.known}."))
        return
    for note in report.notes:
        console.print(Text(note))
    names = columns_of(report)
    shown: tuple[str, ...] = ("mean", "95% interval", "n", "n eff", "sampled", "missing", "cost")
    if any(row.change for row in report.slices):
        shown = (*shown[:2], "change", *shown[2:])
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in (*(n.removesuffix("_id").replace("_", " ") for n in names), *shown):
        table.add_column(name, justify="right" if name in shown else "left")
    for row in report.slices:
        cells = _cells(row)
        table.add_row(*(Text(one_line(str(row.slice[n]), 28)) for n in names), *(cells[n] for n in shown))
    console.print(table)
    for row in report.slices:
        for line in _notes(row, names, link):
            console.print(Text(line))


def columns_of(report: ScoreReport) -> list[str]:
    """Return the columns that differ between the slices of a report."""
    rows = [row.slice for row in report.slices]
    names = [name for name in rows[0] if any(row[name] for row in rows)] if rows else []
    rest = {tuple(row[name] for name in names if name != "scorer_version") for row in rows}
    # Two slices may differ only in the scorer's version: it is shown then.
    return [name for name in names if name != "scorer_version" or len(rest) < len(rows)]


def _cells(row: SliceReport) -> dict[str, str]:
    known, change = row.estimate, row.change
    return {
        "mean": row.unstated or number(known.mean),
        "95% interval": "" if row.unstated else interval(known.interval) or "-",
        "n": " of ".join(filter(None, [count(known.n), row.kin])),
        "n eff": f"{known.n_effective:.0f}",
        "sampled": f"{row.sampled / row.stands_for:.0%}" if row.stands_for else "-",
        "missing": f"{row.missing_share:.1%}" if row.missing_share is not None else "-",
        "cost": f"${row.cost:.2f}" if row.cost else "-",
        "change": f"{change.mean:+.3f} ({change.low:+.3f} to {change.high:+.3f})" if change else "-",
    }


def _notes(row: SliceReport, names: list[str], link: TraceLink) -> Iterator[str]:
    lines = [f"  ! {warning}" for warning in row.warnings]
    if row.bounds and row.missing_share:
        lines.append(f"  for any value of the missing scores, the mean is in {interval(row.bounds)}")
    others = sorted(row.reasons.items(), key=lambda each: -each[1])
    if others:
        counts = (f"{n} {status} ({one_line(why or 'no reason', 60)})" for (status, why), n in others[:6])
        lines.append(f"  without a score: {', '.join(counts)}")
    lines += _failing(row, link)
    if lines:
        yield ""
        yield " · ".join(one_line(str(row.slice[name]), 60) for name in names if row.slice[name])
        yield from lines


def _failing(row: SliceReport, link: TraceLink) -> Iterator[str]:
    """Yield the patterns of failing runs, and the worst runs with one line for all of a pattern."""
    failures, patterns = row.failures, row.failures.patterns[:_PATTERNS]
    if patterns:
        side = "above" if row.lower_is_better else "below"
        fails = count(failures.runs, "failing run")
        yield f"  {fails} (score {side} {number(failures.limit)}), by pattern, with their share of all runs:"
    for each in patterns:
        share, around = f"{each.share.mean or 0.0:.1%}", each.share.interval
        if around:
            share += f" ({around.low:.1%} to {around.high:.1%})"
        since = f"first seen {Zone().full(each.first_seen)}"
        yield f"    {share}, {each.trend}, {count(each.runs, 'run')}, {since}: {one_line(each.name, 160)}"
    others = failures.runs - sum(each.runs for each in patterns)
    if others > 0:
        yield f"    in no pattern or in smaller ones: {count(others, 'failing run')}"
    if row.worst:
        yield "  worst runs:"
    for run, name, same in failures.shared(row.worst):
        at = link.to(run) or f"trace {run.trace_id}"
        why = one_line(run.explanation or run.label or "", 120)
        if same > 1:
            alike = f"{same} of the {len(row.worst)} worst runs are the same failure"
            why = f"{alike}: {one_line(name, 160)}" + (f"; here: {why}" if why else "")
        yield f"  {number(run.value):>6}  {at}  {why}".rstrip()


def _heading(report: ScoreReport) -> str:
    if report.recorded is None:
        return "No scored runs on record."
    since, until = report.window.ends(report.recorded)
    return f"Runs from {Zone().full(since)} to {Zone().full(until)}"
