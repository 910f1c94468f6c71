"""Progress of a long scoring job: the evaluations made before. Keeps nothing by default."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from otel_evals._internal.evaluate.job import Job
from otel_evals._internal.model import Evaluation, Outcome, Run, ScoredRun

Known = tuple[str, int]
"""An evaluation by its id and revision."""


class Progress:
    """No progress is kept; subclasses override every method."""

    stopped: str | None = None
    """The reason for stopping; None while scoring continues."""
    known_before: int = 0
    """Number of evaluations that were made before."""
    left: int = 0
    """Number of evaluations that could not be made."""

    def known(self, job: Job) -> Evaluation | None:
        """Return the earlier evaluation if it is final; otherwise set the job's revision."""
        return None

    def ended(self, evaluation: Evaluation, run: Run) -> None:
        """Keep an evaluation."""

    def leaves(self, outcome: Outcome) -> str | None:
        """Return the reason to repeat an evaluation later; None if its outcome is final."""
        return None

    def lacking(self, scored: ScoredRun, names: Collection[str]) -> Iterable[tuple[ScoredRun, str | None]]:
        """Return the undelivered parts of a scored run, each with its destination; None for all."""
        return [(scored, None)]

    def undelivered(self, name: str) -> Sequence[Known]:
        """Return the evaluations that a destination has not confirmed."""
        return ()

    def delivered(self, name: str, known: Iterable[Known]) -> None:
        """Record evaluations confirmed by a destination."""

    def close(self) -> None:
        """Close the file."""
