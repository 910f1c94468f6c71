"""A destination that prints each scored run and its scores on the terminal."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from typing import TextIO

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
from otel_evals._internal.model.evaluations import judges_cost
from otel_evals._internal.util.calls import in_thread

_WIDTH = 100
"""Characters shown of each text."""
_BOLD, _DIM, _ITALIC, _RED, _YELLOW = "1", "2", "3", "31", "33"
_CODES = re.compile("\x1b\\[[0-9;]*m")


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

    async def export(self, batch: Sequence[ScoredRun]) -> None:
        """Print a batch."""
        text = "".join(self._text(scored) for scored in batch)
        # On a thread, because a terminal or a pipe may block.
        await in_thread(self._print, text)

    async def shutdown(self) -> None:
        """Do nothing."""

    def _print(self, text: str) -> None:
        file = self._file or sys.stdout
        # Terminals of older Windows print the codes.
        if not file.isatty() or os.name == "nt" or os.environ.get("NO_COLOR"):
            text = _CODES.sub("", text)
        encoding = getattr(file, "encoding", None) or "utf-8"
        # A terminal's encoding may lack characters, and `write` would raise.
        file.write(text.encode(encoding, "replace").decode(encoding))
        file.flush()

    def _text(self, scored: ScoredRun) -> str:
        run = scored.run
        lines = [_title(run)]
        if self._content:
            lines.append(_styled("  asked     ", _DIM) + _short(run.input))
            lines.append(_styled("  answered  ", _DIM) + _short(run.output))
        for evaluation in scored.evaluations:
            lines.append(_result(evaluation))
            why = _why(evaluation) if self._content else None
            if why:
                lines.append("      " + _styled(_short(why), _ITALIC))
        costs = [cost for e in scored.evaluations if (cost := judges_cost([e.outcome])) is not None]
        if costs:
            lines.append(_styled(f"  judged for ${sum(costs):.6f}", _DIM))
        return "\n".join([*lines, "", ""])


def _title(run: Run) -> str:
    took = "did not end" if run.duration is None else f"{run.duration:.2f} s"
    title = _styled(_short(run.agent_name or run.root_kind.value), _BOLD)
    title += _styled(f" · {took} · trace {run.trace_id}", _DIM)
    if run.error or run.error_type:
        title += _styled(f" · {_short(run.error_type or 'error')}", _RED)
    return title


def _result(evaluation: Evaluation) -> str:
    probability = evaluation.sampled.probability
    sampled = f"  sampled {_short(evaluation.sampled.rule)}"
    sampled += "" if probability is None else f" (p={probability:g})"
    symbol, style, text = _summary(evaluation)
    name = f"{_short(evaluation.scorer_id):<24} "
    return _styled(f"  {symbol} ", style) + name + _styled(_short(text), style) + _styled(sampled, _DIM)


def _styled(text: str, code: str) -> str:
    return f"\x1b[{code}m{text}\x1b[0m"


def _short(text: str | None) -> str:
    if text is None:
        return "(not recorded)"
    # Cut before it is split: a text may have megabytes.
    line = "".join(filter(str.isprintable, " ".join(text[: _WIDTH * 8].split())))
    return line if len(line) <= _WIDTH else line[: _WIDTH - 1] + "…"


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
