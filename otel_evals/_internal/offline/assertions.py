"""Assertions on the scores of what a test's code did; pytest's fixture `scored` is a `ScoredFixture`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from otel_evals._internal.config.loader import build_config
from otel_evals._internal.deliver.record import steps_of
from otel_evals._internal.model import Evaluation, NotScored, Outcome, Run, Score, ScorerFailure
from otel_evals._internal.offline.batch import BatchScorer
from otel_evals._internal.offline.span_recorder import Recording

_HINT = (
    "the test's code left no agent spans: is the framework instrumented, and for the tracer provider that "
    "the fixture `otel_evals_tracer_provider` gives (the global one by default)?"
)


@dataclass(frozen=True)
class Scored:
    """One scorer's results for the runs. Assertions hold for every run, and can be chained."""

    scorer_id: str
    evaluations: tuple[Evaluation, ...]
    """One for each run, by the time the runs ended."""

    @property
    def values(self) -> tuple[float, ...]:
        """The scores; other outcomes are left out."""
        return tuple(e.outcome.value for e in self.evaluations if isinstance(e.outcome, Score))

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """The outcome of every run."""
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
        """Assert that the scorer does not apply to any run, for this reason if given."""
        __tracebackhide__ = True
        wrong = [
            outcome
            for outcome in self.outcomes
            if not isinstance(outcome, NotScored) or reason not in (None, outcome.reason)
        ]
        if wrong:
            raise AssertionError(self._told(f"not scored{f' ({reason})' if reason else ''}", wrong))
        return self

    def _all(self, wanted: str, holds: Callable[[Score], bool]) -> Scored:
        __tracebackhide__ = True
        wrong = [o for o in self.outcomes if not isinstance(o, Score) or not holds(o)]
        if wrong:
            raise AssertionError(self._told(wanted, wrong))
        return self

    def _told(self, wanted: str, wrong: Sequence[Outcome]) -> str:
        of = f" ({len(wrong)} of {len(self.outcomes)} runs)" if len(self.outcomes) > 1 else ""
        return f"{self.scorer_id} should be {wanted}{of}\n" + "\n".join(map(_shown, wrong))


class ScoredFixture:
    """Scores the runs of the test's code since the test began; call it with a scorer.

    Args:
        recording: what is being captured.
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
        """The runs so far, by the time they ended."""
        self._recording.wait(self._grace)
        return tuple(self._recording.runs())

    def __call__(
        self, scorer: Any, *, runs: Run | Iterable[Run] | None = None, ground_truth: Any = None
    ) -> Scored:
        """Score every run of the test, or those given.

        Args:
            scorer: a scorer, or a `Rule` with its timeout and attempts.
            runs: from `runs`, to leave others out.
            ground_truth: what the answer should have been, for scorers that compare.

        Raises:
            AssertionError: there is nothing to score.
            ConfigError: the scorer cannot score.
        """
        __tracebackhide__ = True
        chosen = [runs] if isinstance(runs, Run) else list(self.runs if runs is None else runs)
        if not chosen:
            raise AssertionError(_HINT if runs is None else "there are no runs to score")
        config = build_config([scorer])
        with BatchScorer(config) as batch:
            futures = [batch.score(replace(r, ground_truth=ground_truth, trace_flags=1)) for r in chosen]
            found = tuple(evaluation for future in futures for evaluation in future.result())
            found += batch.end_conversations()
        scored = Scored(config.rules[0].scorer.id, found)
        for value in scored.values:
            self._noted(scored.scorer_id, value)
        return scored


def _shown(outcome: Outcome) -> str:
    """An outcome in a few lines: status, reason, and the step that failed."""
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
