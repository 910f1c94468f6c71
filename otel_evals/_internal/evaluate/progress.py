"""Progress of a long scoring job: which evaluations were made before. Keeps nothing by default."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from otel_evals._internal.evaluate.job import Job
from otel_evals._internal.model import Evaluation, Outcome, Run, ScoredRun

Known = tuple[str, int]
"""An evaluation by its id and revision."""


class Progress:
    """Knows nothing, and keeps nothing."""

    stopped: str | None = None
    """Why no more can be scored now; None while it can."""
    known_before: int = 0
    """Evaluations that were not made again."""
    left: int = 0
    """Evaluations that could not be made now."""

    def known(self, job: Job) -> Evaluation | None:
        """Return the evaluation that was made before and stands; else set the revision of the one to make."""
        return None

    def ended(self, evaluation: Evaluation, run: Run) -> None:
        """Keep an evaluation."""

    def leaves(self, outcome: Outcome) -> str | None:
        """Why an evaluation is left for the next time; None if its outcome stands."""
        return None

    def lacking(self, scored: ScoredRun, names: Collection[str]) -> Iterable[tuple[ScoredRun, str | None]]:
        """What of a scored run is to be delivered, and to which destination; None stands for all."""
        return [(scored, None)]

    def undelivered(self, name: str) -> Sequence[Known]:
        """The evaluations that a destination is not known to have."""
        return ()

    def delivered(self, name: str, known: Iterable[Known]) -> None:
        """A destination has evaluations."""

    def close(self) -> None:
        """Let go of the file."""
