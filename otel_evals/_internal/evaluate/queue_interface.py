"""The durable queue's interface: the pipeline calls it to keep sampled runs over a crash.

`DurableQueue` itself keeps nothing and is the default, so no stage has to test whether a store is configured.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from otel_evals._internal.accounting.counters import StoreStats
from otel_evals._internal.config.rules import Rule
from otel_evals._internal.evaluate.job import Job, Target
from otel_evals._internal.gather.gatherer import SpanGroup
from otel_evals._internal.model import Outcome, Run, Sampled, ScoredRun, SpanRecord

__all__ = ["ConversationState", "DurableQueue", "KeptRun", "Resumption", "StoreClient"]


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


class StoreClient(Protocol):
    """What a store calls in the stages: `post` from any thread, everything else on the engine's thread."""

    def post(self, function: Callable[[], object]) -> None:
        """Have a function called on the engine's thread."""

    def read(self, spans: Sequence[SpanRecord], links: Mapping[str, str | None]) -> list[Run]:
        """Assemble spans into runs."""

    def score_group(self, group: SpanGroup) -> None:
        """Evaluate the rules for the runs of a group of spans, as if these had just ended."""

    def resume(self, resumptions: Sequence[Resumption]) -> list[Job]:
        """Create the jobs of evaluations from the store."""

    def submit(self, jobs: Sequence[Job]) -> None:
        """Queue jobs that `resume` created."""

    def finish(self, job: Job, outcome: Outcome) -> None:
        """End a job with an outcome."""

    def withdraw(self, job: Job, reason: str) -> None:
        """End a job without an outcome: the store will try it again."""

    def take_back(self, run: Run, state: ConversationState) -> None:
        """Add a run to its conversation, which waited to become idle in a process that has ended."""

    def lose_late(self, trace_id: str, count: int) -> None:
        """Count late spans whose run is not in the store."""

    def put(self, scored: ScoredRun, destinations: Collection[str] | None) -> Collection[str]:
        """Queue a scored run for destinations, all or those named; returns their names."""

    def lacking(self, evaluation_ids: Sequence[str], revision: int) -> Awaitable[Sequence[str] | None]:
        """Names of the destinations that lack evaluations of a revision; None where none of them can tell."""

    @property
    def waiting(self) -> int:
        """Jobs that are queued."""


class DurableQueue:
    """Keeps nothing. `SQLiteQueue` overrides every method."""

    keeps: bool = False
    """Whether anything is kept."""

    @property
    def open_traces(self) -> set[str]:
        """Ids of the traces with evaluations that are not delivered, as far as nothing is kept of them."""
        return set()

    def open(self, client: StoreClient) -> None:
        """Connect the store to the stages."""

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
