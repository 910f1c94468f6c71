"""The durable queue's interface: the pipeline calls it to keep sampled runs over a crash.

`DurableQueue` itself keeps nothing and is the default, so no stage has to test whether a store is configured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from otel_evals._internal.accounting.counters import StoreStats
from otel_evals._internal.accounting.ledger import Ledger
from otel_evals._internal.config.rules import Rule
from otel_evals._internal.deliver.fanout import FanOut
from otel_evals._internal.evaluate.job import Job, Target
from otel_evals._internal.gather.gatherer import SpanGroup
from otel_evals._internal.model import Outcome, Run, Sampled, ScoredRun, SpanRecord


@dataclass(frozen=True, slots=True)
class ConversationState:
    """The state of a conversation when one of its runs was written."""

    asked: Mapping[str, int]
    """How often each rule was evaluated for it, by the rule's name."""
    waits: tuple[str, ...]
    """Names of the rules to evaluate when it becomes idle."""


@dataclass(frozen=True, slots=True)
class Resumption:
    """A sampled evaluation from the store, to be made now."""

    rule: str
    """The rule's name."""
    run: Run
    sampled: Sampled
    revision: int


class KeptRun:
    """A handle to a run in the store."""

    __slots__ = ()


class Evaluations(Protocol):
    """The evaluations in progress, as a durable queue resumes and ends them."""

    @property
    def waiting(self) -> int:
        """Jobs that are queued."""

    def resume(self, resumptions: Sequence[Resumption]) -> list[Job]:
        """Create the jobs of evaluations from the queue."""

    def submit(self, jobs: Sequence[Job]) -> None:
        """Start jobs that `resume` created."""

    def end(self, job: Job, outcome: Outcome) -> None:
        """End a job with an outcome."""

    def withdraw(self, job: Job, reason: str) -> None:
        """End a job without an outcome: the queue will try it again."""


@dataclass(frozen=True, slots=True)
class QueueParts:
    """The steps that a durable queue works with, on the engine's thread."""

    evaluations: Evaluations
    fan_out: FanOut
    ledger: Ledger
    read: Callable[[Sequence[SpanRecord], Mapping[str, str | None]], list[Run]]
    """Assembles stored spans into runs."""
    post: Callable[[Callable[[], object]], None]
    """Calls a function on the engine's thread; may be called on any thread."""


@dataclass(slots=True)
class Recovered:
    """Work of processes that have ended, for which no rule was evaluated yet."""

    groups: list[SpanGroup] = field(default_factory=list)
    """The spans of runs that had ended."""
    conversations: list[tuple[KeptRun, list[Run], ConversationState]] = field(default_factory=list)
    """Runs whose conversation waited to become idle; the kept run is deleted once they are kept anew."""


class DurableQueue:
    """Keeps nothing. `SQLiteQueue` overrides every method."""

    keeps: bool = False
    """Whether anything is kept."""

    @property
    def open_traces(self) -> set[str]:
        """Ids of the traces with evaluations that are not delivered, as far as nothing is kept of them."""
        return set()

    def open(self, parts: QueueParts) -> None:
        """Connect the queue to the pipeline."""

    def recovered(self) -> Recovered | None:
        """Give the pipeline the work of other processes; called after each function that was posted."""
        return None

    def use_rules(self, rules: Iterable[Rule]) -> None:
        """Resume the evaluations of these rules from now on."""

    def start(self) -> None:
        """Start to resume what earlier processes left, without waiting for traffic."""

    # --- from a run's end to its delivery ---

    def root_ended(self, root: str, group: SpanGroup) -> None:
        """A run's root span has ended; its grace period begins."""

    def keep(self, group: SpanGroup, jobs: Sequence[Job]) -> None:
        """The rules have decided: keep the run with its jobs, or delete it if there are none."""

    def add(self, job: Job) -> None:
        """A cascade has decided: keep one more job of a run that may be in the store."""

    def defer(self, job: Job, outcome: Outcome) -> bool:
        """Keep a job for another attempt, if one is worthwhile.

        Returns:
            Whether it was kept; if not, the outcome stands.
        """
        return False

    def deliver(self, target: Target) -> bool:
        """Deliver the evaluations of a target, until all destinations have accepted them.

        Returns:
            False if the target is not in the store; the caller then delivers it.
        """
        return False

    def delivered(self, destination: str, batch: Sequence[ScoredRun], end: str) -> None:
        """A destination has accepted or lost scored runs: `end` is `exported` or the reason."""

    def take_late(self, span: SpanRecord, above: str | None) -> bool:
        """Take a late span, whose run is closed.

        Returns:
            Whether it was accepted; if not, the caller counts it as lost.
        """
        return False

    # --- runs that wait with their conversation ---

    def keep_for_conversation(self, run: Run, state: ConversationState) -> KeptRun:
        """Keep a run whose conversation waits."""
        return KeptRun()

    def note_conversation(self, kept: KeptRun, state: ConversationState) -> None:
        """Store the conversation's current state."""

    def forget_conversation(self, kept: Iterable[KeptRun]) -> None:
        """Delete runs that were kept for a conversation."""

    # --- the process ---

    def before_fork(self) -> None:
        """Close what must not be open while this process forks."""

    def after_fork_in_parent(self) -> None:
        """Resume after the fork."""

    def after_fork_in_child(self) -> None:
        """Leave to the parent process what is the parent's."""

    async def all_sent(self, seconds: float) -> None:
        """Wait until all scored runs are queued for their destinations."""

    async def flush(self, seconds: float) -> bool:
        """Write everything; whether that was done in time."""
        return True

    async def prepare_shutdown(self, seconds: float) -> None:
        """Find out which runs are kept; the others end as they would without a store."""

    async def close(self, seconds: float) -> None:
        """Free the runs that this process still holds."""

    def stats(self) -> StoreStats:
        """Runs written, taken over and lost so far."""
        return StoreStats()
