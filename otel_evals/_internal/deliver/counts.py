"""What became of the scored runs for one destination."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

_NEVER_SENT = ("queue_full", "shutdown")


@dataclass(frozen=True, slots=True, kw_only=True)
class DestinationStats:
    """Counts of the scored runs for one destination.

    Every run is in exactly one of `exported`, `failed`, `dropped` and `pending` at every moment.
    """

    exported: int = 0
    """Accepted by the destination, with all evaluations."""
    failed: int = 0
    """Some or all evaluations were refused permanently, or given up after the last attempt."""
    dropped: int = 0
    """Not sent: the queue was full, or the shutdown timeout expired."""
    pending: int = 0
    """Queued, being sent, or waiting for another attempt."""
    losses: Mapping[str, int] = field(default_factory=dict)
    """Failed and dropped runs by reason: `queue_full`, `shutdown`, `refused`, or an exception's name. A run
    of which several evaluations failed counts under the reason of the first."""
    lost_evaluations: Mapping[str, int] = field(default_factory=dict)
    """Evaluations of these runs that were not accepted, by reason."""

    def ended(self, end: str, runs: int, lost: Mapping[str, int], *, pending: bool) -> DestinationStats:
        """These counts after runs ended.

        Args:
            end: `exported`, or the reason why they were not.
            runs: how many.
            lost: their evaluations that were not accepted, by reason.
            pending: whether they had been counted as pending.
        """
        left = replace(self, pending=self.pending - (runs if pending else 0))
        if end == "exported":
            return replace(left, exported=left.exported + runs)
        dropped = end in _NEVER_SENT
        return replace(
            left,
            failed=left.failed + (0 if dropped else runs),
            dropped=left.dropped + (runs if dropped else 0),
            losses={**left.losses, end: left.losses.get(end, 0) + runs},
            lost_evaluations=dict(Counter(left.lost_evaluations) + Counter(lost)),
        )
