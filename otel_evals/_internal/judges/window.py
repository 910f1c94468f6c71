"""Settings of a judge for evidence that is longer than a prompt may be."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from otel_evals._internal.util.plain import MAX_EVIDENCE
from otel_evals.errors import ConfigError

OnCut = Literal["not_scored", "score"]
"""Outcome of evidence that does not fit: no score, or a score of a part of it that is marked as such."""
MAX_PROMPT_CHARS = 120_000


@dataclass(frozen=True)
class Window:
    """The settings, read from a judge of any kind."""

    max_prompt_chars: int = MAX_PROMPT_CHARS
    on_cut: OnCut = "not_scored"

    def __post_init__(self) -> None:
        if not 1_000 <= self.max_prompt_chars <= MAX_EVIDENCE:
            problem = f"must be within 1000..{MAX_EVIDENCE}, not {self.max_prompt_chars}"
            raise ConfigError("judge.max_prompt_chars", problem)
        if self.on_cut not in get_args(OnCut):
            raise ConfigError("judge.on_cut", f"must be not_scored or score, not {self.on_cut!r}")


_NAMES = tuple(field.name for field in fields(Window))


def window_of(judge: Any) -> Window:
    """Return the settings of a judge; a CachedJudge has those of the judge behind it.

    Raises:
        ConfigError: a value is out of range.
    """
    judge = getattr(judge, "judge", judge)
    return Window(**{name: getattr(judge, name) for name in _NAMES if hasattr(judge, name)})
