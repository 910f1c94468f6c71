"""The interface of destinations, which batches of scored runs are delivered to.

Destinations are found through the entry-point group `otel_evals_destination`; each entry point is a
callable (usually the class) whose keyword arguments are the destination's options.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from otel_evals.model import ScoredRun

__all__ = ["ENTRY_POINT_GROUP", "Destination"]

ENTRY_POINT_GROUP = "otel_evals_destination"


class Destination(Protocol):
    """Where scored runs go. All methods are awaited on the engine's event loop, never on the caller's thread.

    `export` is given the same batch again after a retryable failure, so it must be idempotent: every
    evaluation carries an `evaluation_id` that is the same each time.
    """

    @property
    def name(self) -> str:
        """Short name for metrics and logs, such as `phoenix`."""

    async def export(self, batch: Sequence[ScoredRun]) -> None:
        """Send a batch.

        Raises:
            DestinationError: the batch was refused; `retryable` says whether to send it again.
        """

    async def shutdown(self) -> None:
        """Free resources. Called once; nothing is exported afterwards."""
