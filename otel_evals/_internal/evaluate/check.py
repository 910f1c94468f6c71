"""A check of an answer: the application's thread waits for it, the engine's makes it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from typing import Literal, NamedTuple

from msgspec.structs import replace
from opentelemetry.trace import format_span_id

from otel_evals._internal.config.rules import Rule
from otel_evals._internal.model import (
    Direction,
    Dropped,
    Effect,
    Evaluation,
    NotScored,
    Outcome,
    Run,
    Score,
    ScorerFailure,
    StepRecord,
    Verdict,
)
from otel_evals.errors import ConfigError

OnFail = Literal["block", "rewrite", "allow"]
OnError = Literal["allow", "block"]
_EFFECTS: dict[str, Effect] = {"block": "blocked", "rewrite": "rewritten", "allow": "allowed"}


class Place(NamedTuple):
    """Where the run under way is looked for."""

    traces: tuple[int, ...]
    """Ids of traces, the likeliest first."""
    above: tuple[int, ...]
    """Ids of the current span and of the open spans above it; empty without one in this process."""
    since: int
    """A run that has ended began after this time, in nanoseconds since the Unix epoch."""


class Policy(NamedTuple):
    """From an outcome to a verdict and its effect."""

    threshold: float
    direction: Direction
    on_fail: OnFail
    on_error: OnError

    def verdict(self, outcome: Outcome) -> Verdict:
        match outcome:
            case Score(value=value, explanation=explanation):
                lower = self.direction is Direction.LOWER
                if value <= self.threshold if lower else value >= self.threshold:
                    return Verdict(status="pass", effect="allowed", score=outcome, explanation=explanation)
                effect = _EFFECTS[self.on_fail]
                return Verdict(status="fail", effect=effect, score=outcome, explanation=explanation)
            case NotScored(reason=reason, explanation=explanation):
                return self.undecided(reason, explanation)
            case ScorerFailure(error_type=reason, message=message):
                return self.undecided(reason, message)
            case Dropped(reason=reason):
                return self.undecided(reason)

    def undecided(self, reason: str, explanation: str | None = None) -> Verdict:
        effect = "allowed" if self.on_error == "allow" else _EFFECTS[self.on_fail]
        return Verdict(status="undecided", effect=effect, reason=reason, explanation=explanation)


def policy_of(rule: Rule, threshold: float | None, on_fail: OnFail, on_error: OnError) -> Policy:
    """Check the options of a check; by default an answer passes with the best score.

    Raises:
        ConfigError: an option is wrong.
    """
    facts = rule.facts
    if on_fail not in _EFFECTS:
        raise ConfigError("on_fail", f"must be block, rewrite or allow, not {on_fail!r:.100}")
    if on_error not in ("allow", "block"):
        raise ConfigError("on_error", f"must be allow or block, not {on_error!r:.100}")
    if threshold is None:
        if facts.scale is None:
            raise ConfigError("threshold", f"{facts.id!r} accepts every number: name the score that passes")
        threshold = 0.0 if facts.direction is Direction.LOWER else facts.scale
    if isinstance(threshold, bool) or not isinstance(threshold, int | float):
        raise ConfigError("threshold", f"must be a number, not {threshold!r:.100}")
    if not 0 <= threshold <= (threshold if facts.scale is None else facts.scale):
        raise ConfigError("threshold", f"must lie within 0..{facts.scale:g}, not {threshold!r:.100}")
    return Policy(float(threshold), facts.direction, on_fail, on_error)


@dataclass(slots=True, eq=False)
class Check:
    """One check. Its verdict is the first that the scorer or the deadline gives."""

    rule: Rule
    """The scorer; the engine replaces it by the configured rule."""
    policy: Policy
    place: Place
    answer: str | None
    """None stands for the answer that the run has recorded."""
    wake: Callable[[], object]
    """Wakes the waiting caller; called on any thread."""
    _: KW_ONLY
    partial: bool = False
    """True if more of the answer follows: then only a verdict that stops it counts as an evaluation."""
    steps: list[StepRecord] = field(default_factory=list)
    """Steps of the checks of earlier parts, which the evaluation includes."""
    verdict: Verdict | None = None
    left: bool = False
    """True if the caller was cancelled."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def span_id(self, run: Run) -> str:
        """Return the span with the evaluation's event: the current one, if it is in the run, or the root."""
        above = [format_span_id(span_id) for span_id in self.place.above]
        return above[0] if run.root_span_id in above else run.root_span_id

    def settle(self, verdict: Verdict) -> Verdict:
        """Give the verdict, unless there is one; returns the one that counts."""
        with self._lock:
            if self.verdict is not None:
                return self.verdict
            self.verdict = verdict
        with suppress(RuntimeError):  # the caller's event loop is closed
            self.wake()
        return verdict

    def expire(self, reason: str, explanation: str) -> Verdict:
        """Give an undecided verdict, unless there is a verdict."""
        return self.settle(self.policy.undecided(reason, explanation))

    def leave(self) -> None:
        """Note that the caller no longer waits."""
        self.left = self.verdict is None
        self.expire("cancelled", "the caller was cancelled")

    def note(self, evaluation: Evaluation, revision: int, earlier: Iterable[Evaluation]) -> Evaluation:
        """Return an evaluation with the verdict, and the steps of earlier parts.

        An answer that passes instead of one that was rewritten has the effect `rewritten`.
        """
        assert self.verdict is not None
        outcome = evaluation.outcome
        if self.steps and not isinstance(outcome, Dropped):
            outcome = replace(outcome, steps=(*self.steps, *outcome.steps))
        effect = None if self.left else self.verdict.effect
        same = [each for each in earlier if each.evaluation_id == evaluation.evaluation_id]
        if effect == "allowed" and any(each.effect == "rewritten" for each in same):
            effect = "rewritten"
        return replace(
            evaluation, outcome=outcome, revision=revision, verdict=self.verdict.status, effect=effect
        )
