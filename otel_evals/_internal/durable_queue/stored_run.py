"""A run in the queue's file, shared by the engine's thread and the writer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from otel_evals._internal.evaluate.job import Job
from otel_evals._internal.evaluate.queue_interface import ConversationState, KeptRun
from otel_evals._internal.gather.gatherer import SpanGroup
from otel_evals._internal.model import Outcome, SpanRecord
from otel_evals._internal.model.sizes import size_of_span


class Task(NamedTuple):
    """One sampled evaluation of a run."""

    rule: str
    target: str
    probability: float | None
    sampler: str
    """The rule's sampler, as written in configuration."""
    scope: str = "run"
    """Scope of the rule: `run`, `agent` or `conversation`."""


class Undelivered(NamedTuple):
    """Evaluations that some destinations have not accepted."""

    target: str
    destinations: tuple[str, ...]
    evaluations: tuple[Any, ...]
    """As JSON values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatus:
    """The changing part of a run's row. Replaced as a whole."""

    state: Literal["open", "done", "dead_letter", "gone"] = "open"
    """To be scored, kept for late spans, given up, or to be deleted."""
    free: bool = False
    """True if any process may claim it."""
    due: float = 0.0
    """Earliest time to claim it, in seconds since the Unix epoch."""
    attempts: int = 0
    crashes: int = 0
    """Processes that ended while they scored it."""
    revision: int = 1
    reason: str = ""
    """Why it is free or a dead letter."""
    tasks: tuple[Task, ...] | None = None
    """All its evaluations; None before the rules were evaluated."""
    left: tuple[int, ...] | None = None
    """Positions in `tasks` of the remaining evaluations; None for all."""
    undelivered: tuple[Undelivered, ...] = ()
    conversation: ConversationState | None = None
    """Set if the run is stored only as part of a conversation."""

    def dump(self) -> str | None:
        """Return the `jobs` column: tasks, remaining positions and undelivered evaluations, as JSON."""
        if (state := self.conversation) is not None:
            return json.dumps({"conversation": [dict(state.asked), state.waits]}, separators=(",", ":"))
        if self.tasks is None:
            return None
        values = {"tasks": self.tasks, "left": self.left, "undelivered": self.undelivered}
        return json.dumps(values, separators=(",", ":"))


@dataclass(slots=True, eq=False)
class StoredRun(KeptRun):
    """A run in the queue. The engine's thread changes it and hands it to the writer."""

    trace_id: str
    spans: tuple[SpanRecord, ...]
    links: Mapping[str, str | None]
    status: RunStatus = field(default_factory=RunStatus)
    row: int | None = None
    """Row id in the file; set by the writer."""
    file: int = 0
    """The `file` of the table that has the row."""
    grown: bool = False
    """True if spans were added since the row was written; cleared by the writer."""
    size: int = 0
    """Approximate bytes of the spans."""
    written: RunStatus | None = None
    """The status in the file; set by the writer."""
    counted: bool = False
    """True once it is counted as not written."""
    kept: bool | None = None
    """True if it was committed to the file; None until the writer knows."""
    awaited: set[object] = field(default_factory=set)
    """Pending deliveries: targets, and tokens for earlier evaluations of targets."""
    postponed: list[int] = field(default_factory=list)
    """Positions of the tasks to try again later."""
    undelivered: list[Undelivered] = field(default_factory=list)
    failed_attempt: bool = False
    """True if one of them failed in a way that counts as an attempt."""
    delay: float = 0.0
    reason: str = ""
    failed: str = ""
    """Error of an evaluation that is not tried again."""
    undecided: list[tuple[Job, Outcome]] = field(default_factory=list)
    """Jobs to try again if the run was committed to the file, and to end with this outcome if not."""
    late: list[SpanRecord] = field(default_factory=list)
    lacking: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """After a crash, by judged span: the destinations that lack its evaluations, if they can tell."""

    @property
    def changed(self) -> bool:
        """True if the file does not have it as it is; it may change again before a change is written."""
        return self.row is None or self.grown or self.status is not self.written

    def begin_attempt(self) -> None:
        self.postponed, self.undelivered, self.failed, self.reason = [], [], "", ""
        self.failed_attempt, self.delay = False, 0.0

    def position(self, job: Job) -> int:
        tasks = self.status.tasks or ()
        wanted = job.rule.name, job.target.span_id
        return next(place for place, task in enumerate(tasks) if (task.rule, task.target) == wanted)


def new_run(trace_id: str, group: SpanGroup, status: RunStatus) -> StoredRun:
    size = group.size or sum(map(size_of_span, group.spans))
    return StoredRun(trace_id, group.spans, group.links, status, size=size)


def load_status(jobs: str | None, **columns: Any) -> RunStatus:
    """Return the status of a row; raise ValueError if its `jobs` column is unreadable."""
    if jobs is None:
        return RunStatus(**columns)
    try:
        read = json.loads(jobs)
        if "conversation" in read:
            asked, waits = read["conversation"]
            state = ConversationState({str(k): int(v) for k, v in asked.items()}, tuple(waits))
            return RunStatus(conversation=state, **columns)
        return RunStatus(
            tasks=tuple(Task(*each) for each in read["tasks"]),
            left=None if read["left"] is None else tuple(read["left"]),
            undelivered=tuple(
                Undelivered(target, tuple(places), tuple(e)) for target, places, e in read["undelivered"]
            ),
            **columns,
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"tasks cannot be read: {error!r}") from error


def merged(spans: Sequence[SpanRecord], late: Sequence[SpanRecord]) -> tuple[SpanRecord, ...]:
    """Return a run's spans with its late spans; a late span replaces an earlier one with the same id."""
    known = {span.span_id: span for span in spans}
    known.update((span.span_id, span) for span in late)
    return tuple(known.values())
