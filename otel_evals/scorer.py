"""The socket for scorers: a run in, a score out."""

from __future__ import annotations

from abc import ABC, abstractmethod

from otel_evals.model import Direction, NotScored, Run, Score

__all__ = ["Scorer"]


class Scorer(ABC):
    """Turns a run into a score. Stateless: one scorer judges many runs at once."""

    id: str
    """Unique among the configured rules; becomes `gen_ai.evaluation.name`."""
    version: str
    """Changes whenever the scorer could judge differently: a fingerprint of its configuration unless given."""
    direction: Direction = Direction.HIGHER
    inline: bool = False
    """True runs it on the engine's own thread: only for code that never waits and takes microseconds."""

    @abstractmethod
    async def score(self, run: Run) -> Score | NotScored:
        """Judge a run. Whatever this raises becomes a counted ScorerFailure."""
