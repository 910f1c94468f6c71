"""Settings of a judge for evidence that is longer than a prompt may be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from otel_evals._internal.util.options import call_with
from otel_evals._internal.util.plain import MAX_EVIDENCE
from otel_evals.errors import ConfigError

OnCut = Literal["not_scored", "score"]
"""Outcome of evidence that does not fit: no score, or a score of a part of it that is marked as such."""
MAX_PROMPT_CHARS = 120_000


@dataclass(frozen=True, kw_only=True)
class Exploration:
    """Lets a judge look around in a run before it answers: list its steps, read, search and compare them.

    At a limit, the outcome is that of evidence that does not fit, by the judge's `on_cut`.
    """

    above: int = 0
    """Explore if the evidence is longer, in characters; longer than a prompt may be, in any case."""
    calls: int = 12
    """Maximum calls of the judge per question, without the one that answers it."""
    tokens: int | None = 200_000
    """Maximum tokens of these calls."""
    usd: float | None = None
    """Maximum cost of these calls; a call of unknown price reaches it."""
    seconds: float = 60.0
    """No look begins later; the rule's `timeout` still applies."""

    def __post_init__(self) -> None:
        for name in ("calls", "tokens", "usd", "seconds"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ConfigError(f"judge.explore.{name}", f"must be positive, not {value!r}")
        if self.above < 0:
            raise ConfigError("judge.explore.above", f"must be at least 0, not {self.above!r}")


Explore = bool | int | Exploration | Mapping[str, Any]
"""False, True, the characters above which a judge explores, or an Exploration or its options."""


@dataclass(frozen=True, kw_only=True)
class Window:
    """The settings, read from a judge of any kind."""

    max_prompt_chars: int = MAX_PROMPT_CHARS
    on_cut: OnCut = "not_scored"
    explore: Exploration | None = None

    def __post_init__(self) -> None:
        if not 1_000 <= self.max_prompt_chars <= MAX_EVIDENCE:
            problem = f"must be within 1000..{MAX_EVIDENCE}, not {self.max_prompt_chars}"
            raise ConfigError("judge.max_prompt_chars", problem)
        if self.on_cut not in get_args(OnCut):
            raise ConfigError("judge.on_cut", f"must be not_scored or score, not {self.on_cut!r}")
        object.__setattr__(self, "explore", _exploration(self.explore))


_NAMES = tuple(field.name for field in fields(Window))


def window_of(judge: Any) -> Window:
    """Return a judge's settings; a CachedJudge has the settings of the judge behind it.

    Raises:
        ConfigError: a value is out of range.
    """
    judge = getattr(judge, "judge", judge)
    return Window(**{name: getattr(judge, name) for name in _NAMES if hasattr(judge, name)})


def _exploration(given: Any) -> Exploration | None:
    if isinstance(given, bool | None):
        return Exploration() if given else None
    if isinstance(given, int):
        return Exploration(above=given)
    if isinstance(given, Mapping):
        given = call_with(Exploration, given, "judge.explore")
    if not isinstance(given, Exploration):
        raise ConfigError("judge.explore", f"must be true, a number or options, not {given!r:.60}")
    return given
