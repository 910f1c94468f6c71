"""The interface of destinations, which batches of scored runs are delivered to.

Destinations are found through the entry-point group `otel_evals_destination`; each entry point is a
callable (usually the class) whose keyword arguments are the destination's options.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from otel_evals._internal.model import Evaluation, ScoredRun
from otel_evals.errors import DestinationError

ENTRY_POINT_GROUP = "otel_evals_destination"


@dataclass(frozen=True, slots=True)
class Unaccepted:
    """One evaluation of a batch that a destination did not accept, while it took the others."""

    evaluation: Evaluation
    """As it was given to `export`."""
    error: DestinationError
    """Why; `retryable` says whether it is sent again."""


class Destination(Protocol):
    """Where scored runs go. All methods are awaited on the engine's event loop, never on the caller's thread.

    `export` is given the same evaluations again after a retryable failure, so it must be idempotent: every
    evaluation carries an `evaluation_id` that is the same each time.
    """

    @property
    def name(self) -> str:
        """Short name for metrics and logs, such as `phoenix`."""

    async def export(self, batch: Sequence[ScoredRun]) -> Sequence[Unaccepted] | None:
        """Send a batch.

        Returns:
            The evaluations that were not accepted; None or nothing where all were.

        Raises:
            DestinationError: nothing was accepted; `retryable` says whether to send it again.
        """

    async def shutdown(self) -> None:
        """Free resources. Called once; nothing is exported afterwards."""
