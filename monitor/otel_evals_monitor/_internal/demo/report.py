"""The tables that the demo prints."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from otel_evals import Direction, Evaluation, Pipeline, Run, Score, ScoredRun, Stats
from otel_evals.sdk.commands import (
    ScorerTally,
    bounds_cell,
    interval_cell,
    is_uneven,
    kin_of,
    mean_cell,
    meaning,
    tally,
)
from otel_evals_monitor._internal.demo.agent import Fault, Truth
from otel_evals_monitor._internal.report.words import one_line

_FACTS = (Fault.WRONG_NUMBER, Fault.WRONG_DATE, Fault.GLOSSED_ERROR)
MEANT_FOR: Mapping[str, tuple[Fault, ...]] = {
    "grounded_in_tools": _FACTS,
    "tool_call_accuracy": (Fault.WRONG_TOOL,),
    "owns_up": (Fault.GLOSSED_ERROR,),
}
"""Faults that each scorer should find. Answers that gloss over an error always state invented facts."""

_WORST = 3
_Judged = Sequence[tuple[Run, Evaluation]]


def alarms(evaluation: Evaluation) -> bool:
    if not isinstance(evaluation.outcome, Score):
        return False
    value = evaluation.outcome.value
    return value > 0 if evaluation.direction is Direction.LOWER else value < 1


def _is_blocked(evaluation: Evaluation) -> bool:
    return evaluation.effect == "blocked"


def print_report(
    runs: Sequence[ScoredRun], truths: Sequence[Truth], pipeline: Pipeline, files: Sequence[Path]
) -> None:
    """Print the table of scorers, the comparison with the planted faults, and the paths of the records."""
    console = Console()
    stats = pipeline.stats()
    pairs = [(scored.run, e) for scored in runs for e in scored.evaluations]
    judged = {name: [pair for pair in pairs if pair[1].scorer_id == name] for name in stats.rules}
    kin = {scored.run.trace_id: kin_of(scored.run) for scored in runs}
    console.print(_scorers(tally(pipeline.config.rules, [e for _, e in pairs], kin), stats))
    for name, its in judged.items():
        if (worst := _worst(its)).row_count:
            console.print(f"\n[bold]Worst by {name}", worst, sep="\n")
    truth_of = {truth.trace_id: truth for truth in truths}
    console.print(_comparison(judged, truth_of, "Alarms", "alarms", alarms))
    checked = {name: its for name, its in judged.items() if any(e.verdict for _, e in its)}
    if checked:
        console.print(_comparison(checked, truth_of, "Blocked answers", "blocks", _is_blocked))
    console.print(f"\nEvery run with its scores: {files[0]}\nWhat was really wrong:      {files[1]}")
    for name, sent in pipeline.destination_stats().items():
        if sent.exported < len(runs):
            why = ", ".join(f"{count} {meaning(reason)}" for reason, count in sent.losses.items())
            lost = why or f"{sent.pending} were not sent in time"
            console.print(f"[red]{name} accepted {sent.exported} of {len(runs)} scored runs: {lost}")


def print_links(runs: Sequence[ScoredRun], backends: Sequence[Any], pipeline: Pipeline) -> None:
    """Print the address of the worst run by the first scorer, at each backend that accepted runs."""
    scored = [
        (e.outcome.value, s.run) for s in runs for e in s.evaluations[:1] if isinstance(e.outcome, Score)
    ]
    if not scored:
        return
    run = min(scored, key=lambda each: each[0])[1]
    sent = pipeline.destination_stats()
    for each in backends:
        url = getattr(each, "trace_url", lambda *_: None)(run.trace_id, run.root_span_id)
        if url and (each.name not in sent or sent[each.name].exported):
            print(f"One of the worst runs in {each.name}: {url}")


def _scorers(tallies: Sequence[ScorerTally], stats: Stats) -> Table:
    table = Table(title="\nScores of live traffic", title_justify="left", title_style="bold")
    table.add_column("scorer")
    rules = stats.rules
    columns: dict[str, Callable[[ScorerTally], str]] = {
        "runs": lambda t: str(rules[t.scorer_id].eligible),
        "sampled": lambda t: f"{rules[t.scorer_id].sampled / max(rules[t.scorer_id].eligible, 1):.0%}",
        "n": lambda t: str(t.scored),
        "n eff": lambda t: f"{t.n_effective:.0f}",
        "mean": mean_cell,
        "95% interval": interval_cell,
        "with missing": bounds_cell,
    }
    if not any(map(is_uneven, tallies)):
        del columns["n eff"]
    if not any(map(bounds_cell, tallies)):
        del columns["with missing"]
    for head in columns:
        table.add_column(head, justify="right")
    for each in tallies:
        table.add_row(each.scorer_id, *(cell(each) for cell in columns.values()))
        counts = rules[each.scorer_id]
        for ends in (counts.not_scored, counts.failed, counts.dropped):
            for reason, count in ends.items():
                at_n = [str(count) if head == "n" else "" for head in columns]
                table.add_row(f"  {reason}", *at_n, style="dim")
    return table


def _worst(judged: _Judged) -> Table:
    lower = any(e.direction is Direction.LOWER for _, e in judged)
    scored = [(e.outcome, run) for run, e in judged if isinstance(e.outcome, Score)]
    worst = [pair for pair in scored if pair[0].value != (0.0 if lower else 1.0)]
    worst.sort(key=lambda pair: pair[0].value, reverse=lower)
    table = Table.grid(padding=(0, 1))
    for score, run in worst[:_WORST]:
        table.add_row(f"{score.value:.2f}", Text(one_line(run.input or "", 100), style="dim"))
        table.add_row("", Text(one_line(f"→ {run.output}", 200)))
        table.add_row("", Text(one_line(score.explanation or "", 200), style="yellow"))
    return table


def _comparison(
    judged: Mapping[str, _Judged],
    truth_of: Mapping[str, Truth],
    what: str,
    false: str,
    found: Callable[[Evaluation], bool],
) -> Table:
    """Return the table of alarms, or blocked answers, by planted fault, among sampled runs."""
    table = Table(title=f"\n{what}, compared with the truth", title_justify="left", title_style="bold")
    table.add_column("scorer")
    table.add_column("planted fault")
    for head in ("runs", what.split()[0].lower(), "share"):
        table.add_column(head, justify="right")
    for name, its in judged.items():
        meant = MEANT_FOR.get(name, ())
        rows: list[tuple[str, Sequence[Fault | None]]] = [(fault.value, [fault]) for fault in meant]
        rows += [("all of these", meant)] if len(meant) > 1 else []
        rows.append((f"none: false {false}", [None]))
        for number, (text, faults) in enumerate(rows):
            here = [found(e) for run, e in its if truth_of[run.trace_id].fault in faults]
            share = f"{sum(here) / len(here):.1%}" if here else "-"
            style = "bold" if number >= len(meant) else None
            table.add_row("" if number else name, text, str(len(here)), str(sum(here)), share, style=style)
        table.add_section()
    return table
