"""Panels and votes: several scorers, or one several times, judge a run and give one score."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import median

import anyio
from msgspec.structs import replace

from otel_evals._internal.model import NotScored, Run, Score, ScorerFailure, StepRecord
from otel_evals._internal.scorers.kit.fingerprint import fingerprint
from otel_evals._internal.scorers.kit.outcome import root_cause
from otel_evals._internal.scorers.kit.prompt import vote
from otel_evals._internal.scorers.kit.scorer import Scorer, StepFailure, to_outcome
from otel_evals._internal.util.calls import must_propagate
from otel_evals.errors import ConfigError

Outcome = Score | NotScored | ScorerFailure


class Panel(Scorer):
    """A scorer that combines scorers: all judge concurrently, and the median is the score."""

    def __init__(self, members: Sequence[Scorer], *, id: str, tolerance: float = 0.1) -> None:
        if len(members) < 2:
            raise ConfigError(f"{id}.members", "a panel needs at least two")
        if len({member.direction for member in members}) > 1:
            raise ConfigError(f"{id}.members", "their scores must be good in the same direction")
        if not tolerance >= 0:
            raise ConfigError(f"{id}.tolerance", f"must be at least 0, not {tolerance}")
        self.id = id
        self.direction = members[0].direction
        self.version = fingerprint(id, tolerance, [member.version for member in members])
        self._members = tuple(members)
        self._tolerance = tolerance

    def check(self) -> None:
        """Check that every member can score."""
        for member in self._members:
            member.check()

    def prepare(self) -> None:
        """Prepare every member."""
        for member in self._members:
            member.prepare()

    async def score(self, run: Run) -> Score | NotScored:
        """Ask all members; raise StepFailure if most fail or none can judge."""
        answers: list[object] = [None] * len(self._members)
        try:
            await self._ask_all(run, answers)
        except BaseException as error:
            error.steps = _steps([to_outcome(a) for a in answers])  # type: ignore[attr-defined]  # their cost
            raise
        outcomes = [to_outcome(answer) for answer in answers]
        steps = _steps(outcomes)
        scores = [o for o in outcomes if isinstance(o, Score)]
        refusals = [o for o in outcomes if isinstance(o, NotScored)]
        failures = [o for o in outcomes if isinstance(o, ScorerFailure)]
        if refusals and len(refusals) >= len(scores):
            return replace(refusals[0], steps=steps)
        if len(failures) * 2 <= len(outcomes) and scores:
            return replace(self._settle(scores, outcomes), steps=steps)
        first, raised = failures[0], answers[outcomes.index(failures[0])]
        message = f"{len(failures)} of {len(outcomes)} members failed: {first.error_type}: {first.message}"
        cause = root_cause(raised) if isinstance(raised, BaseException) else TypeError(first.message)
        raise StepFailure(message, steps=steps) from cause

    async def _ask_all(self, run: Run, answers: list[object]) -> None:
        """Note what each member returned or raised, in order."""

        async def ask(index: int, member: Scorer) -> None:
            with vote(index):
                # A member that raises must not cancel the others, as an exception in a task group does.
                try:
                    answers[index] = await member.score(run)
                except BaseException as error:
                    answers[index] = error
                    if must_propagate(error):
                        raise

        async with anyio.create_task_group() as group:
            for index, member in enumerate(self._members):
                group.start_soon(ask, index, member)

    def _settle(self, scores: list[Score], outcomes: Sequence[Outcome]) -> Score:
        """Return the majority's label, the median of its values, and the share of members that agree."""
        labels = Counter(score.label for score in scores if score.label is not None)
        if len(labels) > 1:
            ((label, _),) = labels.most_common(1)
            agreeing = [score for score in scores if score.label == label]
            value = median(score.value for score in agreeing)
        else:
            value = median(score.value for score in scores)
            agreeing = [score for score in scores if abs(score.value - value) <= self._tolerance]
        # Of equally near scores, one with an explanation: False comes before True.
        nearest = min(scores, key=lambda score: (abs(score.value - value), score.explanation is None))
        said = ", ".join(map(_vote, outcomes))
        return replace(
            nearest,
            value=value,
            explanation=f"votes {said}. {nearest.explanation or ''}".strip(),
            agreement=len(agreeing) / len(scores),
        )


def panel(members: Sequence[Scorer], *, id: str, tolerance: float = 0.1) -> Panel:
    """Combine several scorers, usually the same one with judges of different models.

    The value is the median of the members' values (with labels, of the members with the most frequent one).
    The agreement is the share of members with that label, or within `tolerance` of that value. Members that
    fail are left out; the panel fails if more than half fail. It is not scored if at least as many members
    say that it does not apply as score it.

    Raises:
        ConfigError: there are fewer than two members, or their directions differ.
    """
    return Panel(members, id=id, tolerance=tolerance)


def votes(scorer: Scorer, count: int = 3, *, tolerance: float = 0.1) -> Panel:
    """Ask one scorer several times, under its own id; its judge's temperature should not be 0.

    Raises:
        ConfigError: `count` is less than two.
    """
    return Panel([scorer] * count, id=scorer.id, tolerance=tolerance)


def _vote(outcome: Outcome) -> str:
    """Return a member's vote in words: its value, or why it has none."""
    if isinstance(outcome, Score):
        return f"{outcome.value:g}"
    return outcome.reason if isinstance(outcome, NotScored) else outcome.error_type


def _steps(outcomes: Sequence[Outcome]) -> tuple[StepRecord, ...]:
    """Collect the members' steps, prefixed with the member's number."""
    return tuple(
        replace(step, name=f"{number}.{step.name}")
        for number, outcome in enumerate(outcomes, 1)
        for step in outcome.steps
    )
