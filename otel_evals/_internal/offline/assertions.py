"""Assertions on the scores of a test's runs; the pytest fixture `scored` is a `ScoredFixture`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from otel_evals._internal.config.loader import build_config
from otel_evals._internal.deliver.record import steps_of
from otel_evals._internal.model import Evaluation, NotScored, Outcome, Run, Score, ScorerFailure
from otel_evals._internal.offline.batch import BatchScorer
from otel_evals._internal.offline.span_recorder import Recording

_HINT = (
    "the test's code left no agent spans: is the framework instrumented, and for the tracer provider of the "
    "fixture `otel_evals_tracer_provider` (the global one by default)?"
)


@dataclass(frozen=True)
class Scored:
    """One scorer's results. Assertions apply to every run, and can be chained."""

    scorer_id: str
    evaluations: tuple[Evaluation, ...]
    """One per run, in the order of their ends."""

    @property
    def values(self) -> tuple[float, ...]:
        """All scores; other outcomes are left out."""
        return tuple(e.outcome.value for e in self.evaluations if isinstance(e.outcome, Score))

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """Outcomes of all runs."""
        return tuple(e.outcome for e in self.evaluations)

    def at_least(self, minimum: float) -> Scored:
        """Assert that every run has a score of at least this."""
        __tracebackhide__ = True
        return self._all(f"at least {minimum:g}", lambda score: score.value >= minimum)

    def at_most(self, maximum: float) -> Scored:
        """Assert that every run has a score of at most this."""
        __tracebackhide__ = True
        return self._all(f"at most {maximum:g}", lambda score: score.value <= maximum)

    def labelled(self, label: str) -> Scored:
        """Assert that every run has a score with this label."""
        __tracebackhide__ = True
        return self._all(f"labelled {label!r}", lambda score: score.label == label)

    def not_scored(self, reason: str | None = None) -> Scored:
        """Assert that the scorer applies to no run, for this reason if given."""
        __tracebackhide__ = True
        wanted = f"not scored{f' ({reason})' if reason else ''}"
        return self._check(wanted, lambda o: isinstance(o, NotScored) and reason in (None, o.reason))

    def _all(self, wanted: str, holds: Callable[[Score], bool]) -> Scored:
        __tracebackhide__ = True
        return self._check(wanted, lambda outcome: isinstance(outcome, Score) and holds(outcome))

    def _check(self, wanted: str, holds: Callable[[Outcome], bool]) -> Scored:
        __tracebackhide__ = True
        wrong = [outcome for outcome in self.outcomes if not holds(outcome)]
        if wrong:
            of = f" ({len(wrong)} of {len(self.outcomes)} runs)" if len(self.outcomes) > 1 else ""
            lines = "\n".join(map(_shown, wrong))
            raise AssertionError(f"{self.scorer_id} should be {wanted}{of}\n{lines}")
        return self


class ScoredFixture:
    """Scores the runs of the test's code since the test began; call it with a scorer.

    Args:
        recording: the active recording of spans.
        noted: called with scorer id and score of each run.
        grace: seconds that open spans have to end.
    """

    def __init__(
        self,
        recording: Recording,
        noted: Callable[[str, float], object] = lambda *_: None,
        grace: float = 0.5,
    ) -> None:
        self._recording = recording
        self._noted = noted
        self._grace = grace

    @property
    def runs(self) -> tuple[Run, ...]:
        """All runs so far, in the order of their ends."""
        self._recording.wait(self._grace)
        return tuple(self._recording.runs())

    def __call__(
        self, scorer: Any, *, runs: Run | Iterable[Run] | None = None, ground_truth: Any = None
    ) -> Scored:
        """Score every run of the test, or those given.

        Args:
            scorer: a scorer, or a `Rule` with its timeout and attempts.
            runs: some of `runs`; all by default.
            ground_truth: the expected answer, for scorers that compare.

        Raises:
            AssertionError: there is nothing to score.
            ConfigError: the scorer cannot score.
        """
        __tracebackhide__ = True
        chosen = [runs] if isinstance(runs, Run) else list(self.runs if runs is None else runs)
        if not chosen:
            raise AssertionError(_HINT if runs is None else "there are no runs to score")
        config = build_config([scorer])
        with closing(BatchScorer(config)) as batch:
            futures = [batch.score(replace(r, ground_truth=ground_truth, trace_flags=1)) for r in chosen]
            found = tuple(evaluation for future in futures for evaluation in future.result())
            found += batch.end_conversations()
        scored = Scored(config.rules[0].scorer_id, found)
        for value in scored.values:
            self._noted(scored.scorer_id, value)
        return scored


def _shown(outcome: Outcome) -> str:
    """Format an outcome: status, reason, and the step that failed."""
    match outcome:
        case Score():
            label = f" ({outcome.label})" if outcome.label else ""
            return f"  it is {outcome.value:g}{label}: {outcome.explanation or 'no explanation'}"
        case NotScored():
            return f"  it is not scored: {outcome.reason} ({outcome.explanation or 'no explanation'})"
        case ScorerFailure():
            steps = [step.name for step in steps_of(outcome) if step.error]
            where = f" in step {steps[-1]}" if steps else ""
            return f"  it failed{where}: {outcome.error_type}: {outcome.message}"
    return f"  it was dropped: {outcome.reason}"
