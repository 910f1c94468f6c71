"""Checks of answers before they leave: the application's thread waits for a check, the engine's makes it.

A check is an evaluation of a run that has not ended. It is delivered by itself, and the rule of the same
scorer then skips the run.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

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
    Sampled,
    Score,
    ScorerFailure,
    Verdict,
)
from otel_evals._internal.sampling.algebra import Earlier, inclusion_probability
from otel_evals._internal.sampling.decide import CHECKED, RunDecisions
from otel_evals._internal.util.plain import is_number
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
    lowest, highest = (-sys.float_info.max, sys.float_info.max) if facts.scale is None else (0.0, facts.scale)
    if not (is_number(threshold) and lowest <= threshold <= highest):
        problem = f"must be a number within {lowest:g}..{highest:g}, not {threshold!r:.100}"
        raise ConfigError("threshold", problem)
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
    left: bool = False
    """True if the caller was cancelled."""
    _verdicts: list[Verdict] = field(default_factory=list)

    @property
    def verdict(self) -> Verdict | None:
        # Appending is atomic: a lock could be held by the frame that a signal handler interrupts.
        return next(iter(self._verdicts), None)

    def span_id(self, run: Run) -> str:
        """Return the span with the evaluation's event: the current one, if it is in the run, or the root."""
        above = [format_span_id(span_id) for span_id in self.place.above]
        return above[0] if run.root_span_id in above else run.root_span_id

    def settle(self, verdict: Verdict) -> Verdict:
        """Give the verdict, unless there is one; returns the one that counts."""
        # Appended even if late: whichever thread is first, all agree on the first verdict.
        self._verdicts.append(verdict)
        with suppress(RuntimeError):  # the caller's event loop is closed
            self.wake()
        return self._verdicts[0]

    def expire(self, reason: str, explanation: str) -> Verdict:
        """Give an undecided verdict, unless there is a verdict."""
        return self.settle(self.policy.undecided(reason, explanation))

    def leave(self) -> None:
        """Record that the caller no longer waits."""
        # Read before `expire` gives a verdict: one that came before the cancellation was in time.
        self.left = self.verdict is None
        self.expire("cancelled", "the caller was cancelled")


@dataclass(slots=True, eq=False)
class CheckedRun:
    """A run that was checked before its end, with the decisions that its checks have made."""

    decisions: RunDecisions
    counts: dict[str, int] = field(default_factory=dict)
    """Number of checks, by scorer id."""
    open: int = 0
    """Number of checks without an outcome."""
    closing: Any = None
    """The target that waits for these checks, once the run has closed: its span is held for them."""
    newest: dict[str, Evaluation] = field(default_factory=dict)
    """The evaluation of the latest check that has ended, by evaluation id."""

    def begin(self, run: Run, rule: Rule) -> int:
        """Record the begin of a check; returns its number."""
        self.open += 1
        self.decisions.run = run
        # As if sampling had picked it: the rule of the same scorer then skips the run.
        self.decisions.sampled[rule.scorer_id] = CHECKED
        self.decisions.on_record[rule.scorer_id] = Sampled(inclusion_probability(CHECKED, run), "check")
        count = self.counts[rule.scorer_id] = self.counts.get(rule.scorer_id, 0) + 1
        return count

    def end(self, check: Check, evaluation: Evaluation) -> Evaluation:
        """Give a check's verdict; returns its evaluation with the verdict.

        An answer that passes instead of one that was rewritten has the effect `rewritten`.
        """
        self.open -= 1
        verdict = check.settle(check.policy.verdict(evaluation.outcome))
        earlier = self.newest.get(evaluation.evaluation_id)
        # After a cancellation, the verdict had no effect on the answer.
        effect = None if check.left else verdict.effect
        if effect == "allowed" and earlier is not None and earlier.effect == "rewritten":
            effect = "rewritten"
        evaluation = replace(evaluation, verdict=verdict.status, effect=effect)
        # The checks of a run may end in another order than they began.
        if earlier is None or earlier.revision < evaluation.revision:
            self.newest[evaluation.evaluation_id] = evaluation
        self.decisions.outcomes[evaluation.scorer_id] = Earlier(CHECKED, evaluation.outcome)
        return evaluation


class CheckedRuns:
    """The checked runs that have not closed, by the span id of their root. Engine's thread only."""

    def __init__(self, limit: int = 10_000) -> None:
        self._limit = limit
        self.runs: OrderedDict[str, CheckedRun] = OrderedDict()
        """The least recently checked first."""

    def of(self, run: Run) -> CheckedRun:
        """Return the entry of a run, added for its first check."""
        checked = self.runs.setdefault(run.root_span_id, CheckedRun(RunDecisions(run)))
        self.runs.move_to_end(run.root_span_id)
        if len(self.runs) > self._limit:
            # Its open checks still end; at its close, the rules decide as if it had not been checked.
            self.runs.popitem(last=False)
        return checked

    def close(self, run: Run) -> CheckedRun | None:
        """Return the entry of a run that has closed; None if it was not checked."""
        checked = self.runs.pop(run.root_span_id, None)
        if checked is not None:
            checked.decisions.run = run
        return checked
