"""What the demo shows: scores while they arrive, then the tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from otel_evals import Direction, Evaluation, Score, ScoredRun, Stats
from otel_evals.demo.script import Fault
from otel_evals.demo.traffic import Truth
from otel_evals.export import InMemoryDestination

__all__ = ["Watch", "mean_and_interval", "print_report"]

MEANT_FOR: Mapping[str, frozenset[Fault]] = {
    "grounded_in_tools": frozenset(
        {Fault.WRONG_NUMBER, Fault.WRONG_DATE, Fault.WRONG_IDENTIFIER, Fault.WRONG_NAME}
    ),
    "tool_call_accuracy": frozenset({Fault.WRONG_TOOL}),
    "owns_up": frozenset({Fault.GLOSSED_ERROR}),
    "keyword_coverage": frozenset({Fault.OFF_TOPIC}),
    "hallucination": frozenset(
        {Fault.WRONG_NUMBER, Fault.WRONG_DATE, Fault.WRONG_IDENTIFIER, Fault.WRONG_NAME, Fault.GLOSSED_ERROR}
    ),
    "answer_relevancy": frozenset({Fault.OFF_TOPIC}),
}
"""The faults that each scorer is there to find."""

_ALARM_BELOW = {"keyword_coverage": 0.1, "answer_relevancy": 0.5}
_SHOWN, _WORST = 8, 3


def alarms(evaluation: Evaluation) -> bool:
    """Whether a score says that something is wrong with the run."""
    if not isinstance(evaluation.outcome, Score):
        return False
    value = evaluation.outcome.value
    if evaluation.direction is Direction.LOWER:
        return value > 0
    return value < _ALARM_BELOW.get(evaluation.scorer_id, 1)


def mean_and_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """The mean of scores between 0 and 1, and its 95% interval.

    Wilson's interval, made for shares; scores in between vary less, so it is rather too wide than too narrow.
    """
    n, z = len(values), 1.96
    mean = math.fsum(values) / n
    middle = (mean + z * z / (2 * n)) / (1 + z * z / n)
    reach = z * math.sqrt(mean * (1 - mean) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return mean, max(middle - reach, 0.0), min(middle + reach, 1.0)


class Watch:
    """Shows, as a context manager, how far the conversations are and which scores come in."""

    def __init__(self, runs: int, seen: InMemoryDestination, truths: Sequence[Truth]) -> None:
        self._seen, self._truths = seen, truths
        columns = (
            TextColumn("{task.description:14}"),
            BarColumn(40),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        self._progress = Progress(*columns)
        self._answered = self._progress.add_task("runs answered", total=runs)
        self._scored = self._progress.add_task("runs scored", total=runs)
        self._live = Live(get_renderable=self._render, refresh_per_second=8)

    def __enter__(self) -> Watch:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def _render(self) -> Group:
        runs = self._seen.runs
        self._progress.update(self._answered, completed=len(self._truths))
        self._progress.update(self._scored, completed=len(runs))
        latest = Table.grid(padding=(0, 2))
        for scored in runs[-_SHOWN:]:
            latest.add_row(Text(_one_line(scored.run.input, 50), style="dim"), _verdicts(scored))
        return Group(self._progress, latest)


def print_report(
    runs: Sequence[ScoredRun], truths: Sequence[Truth], stats: Stats, files: Sequence[Path]
) -> None:
    """Print the table of scorers, the comparison with the planted faults, and where the records lie."""
    console = Console()
    by_scorer: dict[str, list[tuple[ScoredRun, Evaluation]]] = {name: [] for name in stats.rules}
    for run in runs:
        for evaluation in run.evaluations:
            by_scorer[evaluation.scorer_id].append((run, evaluation))
    console.print(_scorers(by_scorer, stats))
    truth_of = {truth.trace_id: truth for truth in truths}
    console.print(_faults(by_scorer, truth_of))
    for line in _verdict(by_scorer, truth_of):
        console.print(line)
    console.print(f"\nEvery run with its scores: {files[0]}\nWhat was really wrong:      {files[1]}")
    for problem in stats.check():
        console.print(f"[red]The books do not balance: {problem}")


def _verdicts(scored: ScoredRun) -> Text:
    text = Text()
    for evaluation in scored.evaluations:
        if isinstance(evaluation.outcome, Score):
            style = "bold red" if alarms(evaluation) else "green"
            text.append(f"{evaluation.scorer_id} {evaluation.outcome.value:.2f}  ", style)
    return text


_Judged = Mapping[str, Sequence[tuple[ScoredRun, Evaluation]]]


def _scorers(by_scorer: _Judged, stats: Stats) -> Table:
    table = Table(title="Scores of live traffic", title_justify="left", show_lines=True)
    for name in ("scorer", "sampled", "scored", "mean [95% interval]", "worst runs, and why"):
        table.add_column(name, justify="left")
    for name, judged in by_scorer.items():
        books = stats.rules[name]
        scored = [(run, e.outcome) for run, e in judged if isinstance(e.outcome, Score)]
        lower = any(e.direction is Direction.LOWER for _, e in judged)
        worst = sorted(scored, key=lambda s: -s[1].value if lower else s[1].value)[:_WORST]
        table.add_row(
            name + ("\n(lower is better)" if lower else ""),
            f"{books.sampled} of {books.eligible}\n({books.sampled / max(books.eligible, 1):.0%})",
            "\n".join(_ends(len(scored), books.not_scored, books.failed, books.dropped)),
            "{:.3f}\n[{:.3f}, {:.3f}]".format(*mean_and_interval([s.value for _, s in scored]))
            if scored
            else "-",
            "\n".join(f"{s.value:.2f}  {_one_line(s.explanation or run.run.output, 70)}" for run, s in worst),
        )
    return table


def _ends(scored: int, *others: Mapping[str, int]) -> Iterable[str]:
    yield str(scored)
    yield from (f"{count} {reason}" for by in others for reason, count in by.items())


def _faults(by_scorer: _Judged, truth_of: Mapping[str, Truth]) -> Table:
    table = Table(title="\nAlarms, by what was really wrong", title_justify="left")
    table.add_column("planted fault")
    table.add_column("runs", justify="right")
    for name in by_scorer:
        table.add_column(name, justify="right")
    for fault in (*Fault, None):
        runs = sum(truth.fault is fault for truth in truth_of.values())
        cells = [_cell(by_scorer[name], truth_of, fault, name) for name in by_scorer]
        table.add_row(fault.value if fault else "none", str(runs), *cells)
    table.caption = "Alarms of sampled runs; in bold where the scorer is there to find this fault."
    return table


def _cell(
    judged: Sequence[tuple[ScoredRun, Evaluation]],
    truth_of: Mapping[str, Truth],
    fault: Fault | None,
    name: str,
) -> str:
    found, sampled = _count(judged, truth_of, [fault])
    text = f"{found} of {sampled}" if sampled else "-"
    return f"[bold]{text}[/bold]" if fault in MEANT_FOR.get(name, ()) else text


def _count(
    judged: Sequence[tuple[ScoredRun, Evaluation]],
    truth_of: Mapping[str, Truth],
    faults: Iterable[Fault | None],
) -> tuple[int, int]:
    """Alarms, and sampled runs, among the runs with one of these faults."""
    wanted = set(faults)
    known = [(truth_of[run.run.trace_id], e) for run, e in judged if run.run.trace_id in truth_of]
    here = [e for truth, e in known if truth.fault in wanted]
    return sum(map(alarms, here)), len(here)


def _verdict(by_scorer: _Judged, truth_of: Mapping[str, Truth]) -> Iterable[str]:
    for name, judged in by_scorer.items():
        found, planted = _count(judged, truth_of, MEANT_FOR.get(name, ()))
        false, clean = _count(judged, truth_of, [None])
        yield (
            f"[bold]{name}[/bold] found {found} of {planted} faults planted for it ({found / max(planted, 1):.1%})"
            f" and raised {false} false alarms on {clean} clean runs ({false / max(clean, 1):.1%})."
        )


def _one_line(text: str | None, width: int) -> str:
    line = " ".join((text or "").split())
    return line if len(line) <= width else line[: width - 1] + "…"
