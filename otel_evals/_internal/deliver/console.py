"""A destination that prints each scored run and its scores on the terminal."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TextIO

from otel_evals._internal.deliver.record import cost_of
from otel_evals._internal.model import (
    Direction,
    Dropped,
    Evaluation,
    NotScored,
    Run,
    Score,
    ScoredRun,
    ScorerFailure,
)
from otel_evals._internal.util.calls import in_thread
from otel_evals._internal.util.installed import install_hint
from otel_evals.errors import ConfigError

_Line = list[tuple[str, str]]
"""Pieces of text, each with a rich style."""


class ConsoleDestination:
    """Prints scored runs: in colour on a terminal if rich is installed, as plain text otherwise.

    Long texts are shortened, and control characters removed.
    """

    name = "console"

    def __init__(
        self, *, content: bool = True, width: int = 100, file: TextIO | None = None, color: bool | None = None
    ) -> None:
        """Set what to show.

        Args:
            content: whether to show inputs, outputs and explanations.
            width: characters shown of each text.
            file: where to print; `sys.stdout` at the time of printing by default.
            color: None uses colour on a terminal only.

        Raises:
            ConfigError: `width` is too small, or colour is wanted and rich is not installed.
        """
        if width < 20:
            raise ConfigError("width", "must be at least 20")
        if color and not _has_rich():
            raise ConfigError("color", f"needs rich: {install_hint('cli')}")
        self._content = content
        self._width = width
        self._file = file
        self._color = color
        self._links: Sequence[Callable[[str, str], str | None]] = ()

    def link_to(self, links: Sequence[Callable[[str, str], str | None]]) -> None:
        """Show the addresses of a run's trace at other destinations."""
        self._links = links

    async def export(self, batch: Sequence[ScoredRun]) -> None:
        """Print a batch."""
        lines = [line for scored in batch for line in self._lines(scored)]
        await in_thread(self._print, lines)

    async def shutdown(self) -> None:
        """Do nothing."""

    def _print(self, lines: Sequence[_Line]) -> None:
        file = self._file or sys.stdout
        color = _has_rich() and file.isatty() if self._color is None else self._color
        if color:
            _print_rich(lines, file)
        else:
            encoding = getattr(file, "encoding", None) or "utf-8"
            text = "".join("".join(piece for piece, _ in line).rstrip() + "\n" for line in lines)
            file.write(text.encode(encoding, "replace").decode(encoding))
        file.flush()

    def _lines(self, scored: ScoredRun) -> Iterator[_Line]:
        yield self._title(scored.run)
        for link in self._links:
            if address := link(scored.run.trace_id, scored.run.root_span_id):
                yield [(f"  {_printable(address)}", "dim")]
        if self._content:
            yield [("  asked     ", "dim"), (self._short(scored.run.input), "")]
            yield [("  answered  ", "dim"), (self._short(scored.run.output), "")]
        for evaluation in scored.evaluations:
            yield self._result(evaluation)
            why = _why(evaluation) if self._content else None
            if why:
                yield [("      ", ""), (self._short(why), "italic")]
        costs = [cost for e in scored.evaluations if (cost := cost_of(e.outcome)) is not None]
        if costs:
            yield [(f"  judged for ${sum(costs):.6f}", "dim")]
        yield [("", "")]

    def _title(self, run: Run) -> _Line:
        took = "did not end" if run.duration is None else f"{run.duration:.2f} s"
        failed = f" · {run.error_type or 'error'}" if run.error or run.error_type else ""
        return [
            (self._short(run.agent_name or run.root_kind.value), "bold"),
            (f" · {took} · trace {run.trace_id}", "dim"),
            (self._short(failed) if failed else "", "red"),
        ]

    def _result(self, evaluation: Evaluation) -> _Line:
        name = f"{self._short(evaluation.scorer_id):<24} "
        sampler, probability = evaluation.sampled.rule, evaluation.sampled.probability
        with_probability = "" if probability is None else f" (p={probability:g})"
        symbol, style, text = _summary(evaluation)
        return [
            (f"  {symbol} ", style),
            (name, ""),
            (self._short(text), style),
            (f"  sampled {self._short(sampler)}{with_probability}", "dim"),
        ]

    def _short(self, text: str | None) -> str:
        if text is None:
            return "(not recorded)"
        words = " ".join(text[: self._width * 8].split())
        line = _printable(words)
        return line if len(line) <= self._width else line[: self._width - 1] + "…"


def _printable(text: str) -> str:
    return "".join(c for c in text if c.isprintable())


def _summary(evaluation: Evaluation) -> tuple[str, str, str]:
    """Return an outcome's symbol, style and text."""
    match evaluation.outcome:
        case Score(value=value, label=label):
            return "●", _style(value, evaluation.direction), f"{value:.3f}" + (f" {label}" if label else "")
        case NotScored(reason=reason):
            return "○", "dim", f"not scored: {reason}"
        case ScorerFailure(error_type=error_type, attempts=attempts):
            return "✗", "red", f"failed: {error_type}" + (f" ({attempts} attempts)" if attempts > 1 else "")
        case Dropped(reason=reason):
            return "✗", "yellow", f"dropped: {reason}"


def _style(value: float, direction: Direction) -> str:
    """Return a colour from green to red on the scale 0 to 1; bold outside it."""
    if not 0.0 <= value <= 1.0:
        return "bold"
    good = value if direction is Direction.HIGHER else 1.0 - value
    return "bold green" if good >= 0.8 else "bold yellow" if good >= 0.5 else "bold red"


def _why(evaluation: Evaluation) -> str | None:
    match evaluation.outcome:
        case Score(explanation=why) | NotScored(explanation=why) | ScorerFailure(message=why):
            return why
    return None


def _has_rich() -> bool:
    return importlib.util.find_spec("rich") is not None


def _print_rich(lines: Sequence[_Line], file: TextIO) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(file=file, force_terminal=True, soft_wrap=True, highlight=False)
    for line in lines:
        console.print(Text.assemble(*line))
