"""The share of the expected steps that the agent took. Code only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from otel_evals._internal.model import NotScored, Run, Score
from otel_evals._internal.scorers import trajectory
from otel_evals._internal.scorers.bounds import round_half_up
from otel_evals._internal.scorers.trajectory import Ordering
from otel_evals._internal.scoring.scorer import FunctionScorer, scorer

Steps = Sequence[Any] | Callable[[Run], Sequence[Any] | None]
"""Names, mappings or ExpectedSteps; or a function from a run to these, None for any steps."""


def trajectory_accuracy(
    *, expected: Steps, ordering: Ordering = "relaxed", allow_repeats: bool = True
) -> FunctionScorer:
    """The share of an expected trajectory that an agent followed: tool calls, retrievals, other agents' runs.

    A step matches by name and, if given, by kind, arguments and result. `relaxed` finds the expected steps
    in order with others between, `strict` at their exact places, `unordered` anywhere, each step used once.

    Range: 0..1, higher is better, two decimals.
    Formula: matched / expected; with `strict` less 0.5 * extra / expected if more steps were taken; without
    `allow_repeats` less 0.1 for each name that occurs more than once. If no step is expected: 1 if none was
    taken, else 0.
    Source: the code trajectory-accuracy scorer of Mastra's evals.
    Needs: nothing; a run without steps scores 0.
    Not scored: `no_expectation` if the function returns None.
    Cost: none; microseconds.

    Raises:
        ConfigError: an unknown ordering, or an invalid step.
    """
    trajectory.check_ordering("trajectory_accuracy.ordering", ordering)
    fixed = (
        None if callable(expected) else trajectory.expected_steps("trajectory_accuracy.expected", expected)
    )

    @scorer(id="trajectory_accuracy", inline=True)
    def trajectory_accuracy(run: Run) -> Score | NotScored:
        wanted = fixed
        if callable(expected):
            given = expected(run)
            wanted = (
                None if given is None else trajectory.expected_steps("trajectory_accuracy.expected", given)
            )
        if wanted is None:
            return NotScored(reason="no_expectation", explanation="no steps are expected of this run")
        found = trajectory.compare(wanted, trajectory.steps_of(run), ordering, allow_repeats)
        missing = f"; missing: {', '.join(found.missing)}" if found.missing else ""
        explanation = f"{found.matched} of {len(wanted)} expected steps taken{missing}"
        return Score(value=round_half_up(found.score), explanation=explanation)

    return trajectory_accuracy
