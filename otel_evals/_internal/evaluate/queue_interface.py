"""The durable queue's interface: the pipeline calls it to keep sampled runs over a crash.

`DurableQueue` itself keeps nothing and is the default, so no step has to test whether a store is configured.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
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
    """A conversation's state when a run was written."""

    asked: Mapping[str, int]
    """Number of evaluations, by the rule's name."""
    waits: tuple[str, ...]
    """Names of the rules to evaluate once it is idle."""


@dataclass(frozen=True, slots=True)
class Resumption:
    """A sampled evaluation from the store; `rule` is the rule's name."""

    rule: str
    run: Run
    sampled: Sampled
    revision: int


@dataclass(frozen=True, slots=True)
class PassedRun:
    """A run that another process passed on, because this one gathers its conversation."""

    conversation: str
    """The `conversation_digest`."""
    spans: Sequence[SpanRecord]
    links: Mapping[str, str | None]
    ids: Run | None
    """The run's ids, instead of spans, if no rule can sample its conversation."""
    source: Hashable
    """The source of the run; the reader of a source gathers its conversations."""
    judged: bool
    """True if an earlier reader of the source judged the conversation with this run."""
    read_before: bool
    """True if an earlier reader may have judged it."""


class KeptRun:
    """A handle to a run in the store."""

    __slots__ = ()


class Evaluations(Protocol):
    """Evaluations in progress, for a durable queue to resume and end."""

    @property
    def waiting(self) -> int:
        """Number of queued jobs."""

    @property
    def waiting_bytes(self) -> int:
        """Approximate bytes of the runs of queued and running jobs."""

    def resume(self, resumptions: Sequence[Resumption]) -> list[Job]:
        """Create the jobs of evaluations from the queue."""

    def submit(self, jobs: Sequence[Job]) -> None:
        """Start jobs that `resume` created."""

    def end(self, job: Job, outcome: Outcome) -> None:
        """End a job with an outcome."""

    def withdraw(self, job: Job, reason: str) -> None:
        """End a job without an outcome: the queue retries it later."""


@dataclass(frozen=True, slots=True)
class QueueParts:
    """Steps used by a durable queue, on the engine's thread."""

    evaluations: Evaluations
    fan_out: FanOut
    ledger: Ledger
    read: Callable[[Sequence[SpanRecord], Mapping[str, str | None]], list[Run]]
    """Assembles stored spans into runs."""
    post: Callable[[Callable[[], object]], None]
    """Calls a function on the engine's thread; may be called on any thread."""


@dataclass(slots=True)
class Recovered:
    """Work of ended processes for which no rule was evaluated yet."""

    groups: list[SpanGroup] = field(default_factory=list)
    """The spans of runs that had ended."""
    conversations: list[tuple[KeptRun, list[Run], ConversationState]] = field(default_factory=list)
    """Runs of conversations that were not idle; the kept run is deleted once they are kept again."""


class DurableQueue:
    """Keeps nothing. `SQLiteQueue` overrides every method."""

    keeps: bool = False

    @property
    def open_traces(self) -> set[str]:
        """Ids of traces with undelivered evaluations that are not stored."""
        return set()

    def open(self, parts: QueueParts) -> None:
        """Connect the queue to the pipeline."""

    def recovered(self) -> Recovered | None:
        """Return the work of other processes; called after each posted function."""
        return None

    def use_rules(self, rules: Iterable[Rule]) -> None:
        """Resume evaluations of these rules only."""

    def start(self) -> None:
        """Resume the work of earlier processes, without waiting for traffic."""

    # --- from a run's end to its delivery ---

    def root_ended(self, root: str, group: SpanGroup) -> None:
        """Record that a run's root span has ended and its grace period begins."""

    def keep(self, group: SpanGroup, jobs: Sequence[Job]) -> None:
        """Keep a decided run with its jobs, or delete it if there are none."""

    def add(self, job: Job) -> None:
        """Keep a job that a cascade sampled later, if its run is in the store."""

    def defer(self, job: Job, outcome: Outcome) -> bool:
        """Keep a job for a later attempt; returns False if the outcome is final."""
        return False

    def deliver(self, target: Target) -> bool:
        """Deliver a target until all destinations have accepted it; returns False if it is not stored."""
        return False

    def delivered(self, destination: str, batch: Sequence[ScoredRun], end: str) -> None:
        """Record that a destination accepted or lost scored runs: `end` is `exported` or the reason."""

    def take_late(self, span: SpanRecord, above: str | None) -> bool:
        """Add a span to its closed run; returns False if the span is lost."""
        return False

    # --- runs that wait with their conversation ---

    def pass_on(self, run: Run, *, ruled_out: bool) -> bool:
        """Send a run to the process that gathers its conversation; returns False if this process does."""
        return False

    def keep_for_conversation(self, run: Run, state: ConversationState) -> KeptRun:
        """Keep a run of a waiting conversation."""
        return KeptRun()

    def note_conversation(self, kept: KeptRun, state: ConversationState) -> None:
        """Store the conversation's current state."""

    def forget_conversation(self, kept: Iterable[KeptRun]) -> None:
        """Delete runs of a conversation."""

    # --- the process ---

    def before_fork(self) -> None:
        """Close files that must not be open during a fork."""

    def after_fork_in_parent(self) -> None:
        """Resume after the fork."""

    def after_fork_in_child(self) -> None:
        """Leave the parent's runs to the parent process."""

    async def all_sent(self, seconds: float) -> None:
        """Wait until all scored runs are queued for delivery."""

    async def flush(self, seconds: float) -> bool:
        """Write everything; returns False after a timeout."""
        return True

    async def prepare_shutdown(self, seconds: float) -> None:
        """Determine the stored runs; the others end as without a store."""

    async def close(self, seconds: float) -> None:
        """Release the leases of this process."""

    def stats(self) -> StoreStats:
        """Return the counts of runs written, taken over and lost."""
        return StoreStats()
