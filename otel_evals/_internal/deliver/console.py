"""A destination that prints each scored run and its scores on the terminal."""

from __future__ import annotations

import os
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

_WIDTH = 100
"""Characters shown of each text."""
_BOLD, _DIM, _ITALIC, _RED, _YELLOW = "1", "2", "3", "31", "33"
_Line = list[tuple[str, str]]
"""Pieces of text, each with the terminal's code of its style."""


class ConsoleDestination:
    """Prints scored runs, in colour on a terminal unless NO_COLOR is set.

    Long texts are shortened, and control characters removed.
    """

    name = "console"

    def __init__(self, *, content: bool = True, file: TextIO | None = None) -> None:
        """Set what to show.

        Args:
            content: whether to show inputs, outputs and explanations.
            file: where to print; `sys.stdout` at the time of printing by default.
        """
        self._content = content
        self._file = file
        self._links: Sequence[Callable[[str, str], str | None]] = ()

    def link_to(self, links: Sequence[Callable[[str, str], str | None]]) -> None:
        """Show the addresses of a run's trace at other destinations."""
        self._links = links

    async def export(self, batch: Sequence[ScoredRun]) -> None:
        """Print a batch."""
        lines = [line for scored in batch for line in self._lines(scored)]
        # On a thread, because a terminal or a pipe may block.
        await in_thread(self._print, lines)

    async def shutdown(self) -> None:
        """Do nothing."""

    def _print(self, lines: Sequence[_Line]) -> None:
        file = self._file or sys.stdout
        # Terminals of older Windows print the codes.
        colored = file.isatty() and os.name != "nt" and not os.environ.get("NO_COLOR")
        encoding = getattr(file, "encoding", None) or "utf-8"
        text = "".join(_text(line, colored) for line in lines)
        # A terminal's encoding may lack characters, and `write` would raise.
        file.write(text.encode(encoding, "replace").decode(encoding))
        file.flush()

    def _lines(self, scored: ScoredRun) -> Iterator[_Line]:
        yield self._title(scored.run)
        for link in self._links:
            if address := link(scored.run.trace_id, scored.run.root_span_id):
                yield [(f"  {_printable(address)}", _DIM)]
        if self._content:
            yield [("  asked     ", _DIM), (_short(scored.run.input), "")]
            yield [("  answered  ", _DIM), (_short(scored.run.output), "")]
        for evaluation in scored.evaluations:
            yield self._result(evaluation)
            why = _why(evaluation) if self._content else None
            if why:
                yield [("      ", ""), (_short(why), _ITALIC)]
        costs = [cost for e in scored.evaluations if (cost := cost_of(e.outcome)) is not None]
        if costs:
            yield [(f"  judged for ${sum(costs):.6f}", _DIM)]
        yield [("", "")]

    def _title(self, run: Run) -> _Line:
        took = "did not end" if run.duration is None else f"{run.duration:.2f} s"
        failed = f" · {_short(run.error_type or 'error')}" if run.error or run.error_type else ""
        return [
            (_short(run.agent_name or run.root_kind.value), _BOLD),
            (f" · {took} · trace {run.trace_id}", _DIM),
            (failed, _RED),
        ]

    def _result(self, evaluation: Evaluation) -> _Line:
        name = f"{_short(evaluation.scorer_id):<24} "
        sampler, probability = evaluation.sampled.rule, evaluation.sampled.probability
        with_probability = "" if probability is None else f" (p={probability:g})"
        symbol, style, text = _summary(evaluation)
        return [
            (f"  {symbol} ", style),
            (name, ""),
            (_short(text), style),
            (f"  sampled {_short(sampler)}{with_probability}", _DIM),
        ]


def _short(text: str | None) -> str:
    if text is None:
        return "(not recorded)"
    # Cut before it is split: a text may have megabytes.
    line = _printable(" ".join(text[: _WIDTH * 8].split()))
    return line if len(line) <= _WIDTH else line[: _WIDTH - 1] + "…"


def _printable(text: str) -> str:
    return "".join(c for c in text if c.isprintable())


def _summary(evaluation: Evaluation) -> tuple[str, str, str]:
    """Return an outcome's symbol, style and text."""
    match evaluation.outcome:
        case Score(value=value, label=label):
            return "●", _style(value, evaluation.direction), f"{value:.3f}" + (f" {label}" if label else "")
        case NotScored(reason=reason):
            return "○", _DIM, f"not scored: {reason}"
        case ScorerFailure(error_type=error_type, attempts=attempts):
            return "✗", _RED, f"failed: {error_type}" + (f" ({attempts} attempts)" if attempts > 1 else "")
        case Dropped(reason=reason):
            return "✗", _YELLOW, f"dropped: {reason}"


def _style(value: float, direction: Direction) -> str:
    """Return a colour from green to red on the scale 0 to 1; bold outside it."""
    if not 0.0 <= value <= 1.0:
        return _BOLD
    good = value if direction is Direction.HIGHER else 1.0 - value
    return f"{_BOLD};{32 if good >= 0.8 else 33 if good >= 0.5 else 31}"


def _why(evaluation: Evaluation) -> str | None:
    match evaluation.outcome:
        case Score(explanation=why) | NotScored(explanation=why) | ScorerFailure(message=why):
            return why
    return None


def _text(line: _Line, colored: bool) -> str:
    if colored:
        return "".join(f"\x1b[{code}m{piece}\x1b[0m" if code else piece for piece, code in line) + "\n"
    return "".join(piece for piece, _ in line).rstrip() + "\n"
