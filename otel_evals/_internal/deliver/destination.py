"""The interface of destinations, which batches of scored runs are delivered to.

Destinations are found through the entry-point group `otel_evals_destination`; each entry point is a
callable (usually the class) whose keyword arguments are the destination's options.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Protocol

from otel_evals._internal.accounting.counters import counted_as
from otel_evals._internal.model import Evaluation, Run, ScoredRun
from otel_evals.errors import DestinationError

ENTRY_POINT_GROUP = "otel_evals_destination"
NEVER_SENT = ("queue_full", "shutdown")

SpansTo = tuple[str, Mapping[str, str]] | None
"""Address and headers for spans by OTLP over HTTP."""


@dataclass(frozen=True, slots=True)
class Unaccepted:
    """One evaluation that a destination did not accept, while it accepted others of the batch."""

    evaluation: Evaluation
    """As it was given to `export`."""
    error: DestinationError
    """Why; `retryable` says whether it is sent again."""


class Destination(Protocol):
    """A receiver of scored runs. Its methods are awaited on the engine's event loop.

    `export` is given the same evaluations again after a retryable failure, so it must be idempotent: every
    evaluation carries an `evaluation_id` that is the same each time.
    """

    @property
    def name(self) -> str:
        """Short name for metrics and logs, such as `phoenix`."""

    async def export(self, batch: Sequence[ScoredRun]) -> Sequence[Unaccepted] | None:
        """Send a batch; returns the evaluations that were not accepted, if any.

        Raises:
            DestinationError: nothing was accepted; `retryable` says whether to send it again.
        """

    async def shutdown(self) -> None:
        """Free resources. Called once; nothing is exported afterwards."""


class EventPreset(ABC):
    """Adds attributes to evaluation events, which your own exporters send to the backend.

    It sends nothing itself, so it has no destination counts.
    """

    name: str
    """As in configuration."""
    kind: ClassVar[Literal["api", "otel"]] = "otel"
    needs: ClassVar[tuple[str, ...]] = ()
    """Environment variables, or options, without which it cannot be used."""

    @abstractmethod
    def event_attributes(self, run: Run, evaluation: Evaluation) -> Mapping[str, Any]:
        """Return attributes for the event of an evaluation."""

    def trace_url(self, trace_id: str, span_id: str) -> str | None:
        """Return the web address of a span's trace; None if it is unknown."""
        return None

    def spans_to(self) -> SpansTo:
        """Return address and headers for telemetry by OTLP over HTTP; None if that is not possible."""
        return None

    async def export(self, batch: Sequence[ScoredRun]) -> None:
        """Send nothing."""
        return

    async def shutdown(self) -> None:
        """Free nothing."""
        return


@dataclass(frozen=True, slots=True, kw_only=True)
class DestinationStats:
    """Counts of the scored runs for one destination.

    Every run is in exactly one of `exported`, `failed`, `dropped` and `pending` at every moment, except those
    that wait in the store, or in Kafka, to be queued again.
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

    def ended(self, end: str, runs: int, lost: Mapping[str, int], *, left: int) -> DestinationStats:
        """Return the counts after runs ended, `exported` or for a reason, with lost evaluations.

        `left` runs are no longer pending: also those that are queued again later, which end another time.
        """
        pending = self.pending - left
        if end == "exported" or not runs:
            return replace(self, pending=pending, exported=self.exported + runs)
        column = "dropped" if end in NEVER_SENT else "failed"
        end = counted_as(end, self.losses)
        kept = Counter(self.lost_evaluations)
        for reason, count in lost.items():
            kept[counted_as(reason, kept)] += count
        return replace(
            self,
            pending=pending,
            **{column: getattr(self, column) + runs},
            losses={**self.losses, end: self.losses.get(end, 0) + runs},
            # The sign drops reasons with a count of zero.
            lost_evaluations=dict(+kept),
        )
