"""A destination that keeps scored runs in memory, for tests and notebooks."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from otel_evals._internal.model import Evaluation, ScoredRun


class InMemoryDestination:
    """Keeps every scored run. Safe to read from any thread while the engine writes."""

    name = "memory"

    def __init__(self) -> None:
        self._runs: list[ScoredRun] = []
        self._changed = threading.Condition()

    @property
    def runs(self) -> tuple[ScoredRun, ...]:
        """All scored runs so far, in the order of their arrival."""
        with self._changed:
            return tuple(self._runs)

    @property
    def evaluations(self) -> tuple[Evaluation, ...]:
        """The evaluations of all scored runs so far."""
        return tuple(evaluation for scored in self.runs for evaluation in scored.evaluations)

    def wait_for(self, count: int, timeout: float = 5.0) -> tuple[ScoredRun, ...]:
        """Block the calling thread until that many scored runs have arrived, and return all of them.

        Raises:
            TimeoutError: they did not arrive within `timeout` seconds.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._runs) >= count, timeout):
                raise TimeoutError(f"{len(self._runs)} of {count} scored runs arrived in {timeout} s")
            return tuple(self._runs)

    def clear(self) -> None:
        """Remove all scored runs."""
        with self._changed:
            self._runs.clear()

    async def export(self, batch: Sequence[ScoredRun]) -> None:
        """Keep a batch."""
        with self._changed:
            self._runs.extend(batch)
            self._changed.notify_all()

    async def shutdown(self) -> None:
        """Keep the scored runs: they can still be read."""
