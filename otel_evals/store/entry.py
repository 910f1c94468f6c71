"""A run on its way through the spool, as engine and writer share it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from otel_evals.model import SpanRecord

__all__ = ["Entry", "Owed", "Status", "Task", "Turn"]


@dataclass(frozen=True, slots=True)
class Task:
    """One sampled evaluation of a run, as it was decided."""

    rule: str
    """Name of the rule."""
    target: str
    """Id of the judged span."""
    probability: float | None
    words: str
    """The sampler, in words."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What was known of a conversation when a run of it was written last."""

    asked: Mapping[str, int]
    """How often each rule was asked about it, by the rule's name."""
    waits: tuple[str, ...]
    """Names of the rules that are to be asked when it falls idle."""


@dataclass(frozen=True, slots=True)
class Owed:
    """Evaluations that are known, but that some destinations have not taken."""

    target: str
    places: tuple[str, ...]
    """The destinations."""
    evaluations: tuple[Any, ...]
    """As JSON values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """Where a run stands: everything of its row that changes. Replaced as a whole."""

    state: Literal["open", "done", "aside", "gone"] = "open"
    """To be scored, kept for late spans, set aside for people, or not to be kept at all."""
    free: bool = False
    """Whether any process may take it up."""
    due: float = 0.0
    """Not before; seconds since the Unix epoch."""
    attempts: int = 0
    """How often scoring it failed."""
    crashes: int = 0
    """How many processes ended while they scored it."""
    revision: int = 1
    reason: str = ""
    """Why it is free or aside."""
    tasks: tuple[Task, ...] | None = None
    """All its evaluations; None before the rules were asked."""
    left: tuple[int, ...] | None = None
    """Those that are still to be made, by position in `tasks`; None for all."""
    owed: tuple[Owed, ...] = ()
    turn: Turn | None = None
    """For a run that is kept for its conversation, and for nothing else."""

    def dump(self) -> str | None:
        """Tasks and what is left of them, as JSON."""
        if self.turn is not None:
            return json.dumps({"turn": [dict(self.turn.asked), self.turn.waits]}, separators=(",", ":"))
        if self.tasks is None:
            return None
        tasks = [[t.rule, t.target, t.probability, t.words] for t in self.tasks]
        owed = [[o.target, list(o.places), list(o.evaluations)] for o in self.owed]
        return json.dumps({"tasks": tasks, "left": self.left, "owed": owed}, separators=(",", ":"))


@dataclass(slots=True, eq=False)
class Entry:
    """A spooled run. The engine's thread changes it and hands it to the writer, which keeps it in step."""

    trace_id: str
    spans: tuple[SpanRecord, ...]
    links: Mapping[str, str | None]
    status: Status = field(default_factory=Status)
    row: int | None = None
    """Number in the file; the writer's."""
    grown: bool = False
    """Whether spans were added since the row was written; the writer's, once handed over."""
    kept: bool | None = None
    """Whether it is safely in the file; None while that is not known."""
    open_targets: int = 0
    """Judged spans whose evaluations are not delivered yet."""
    back: list[int] = field(default_factory=list)
    """Tasks that could not be done now."""
    owed: list[Owed] = field(default_factory=list)
    burned: bool = False
    """Whether one of them failed for a reason that counts as an attempt."""
    delay: float = 0.0
    """Seconds before the next try."""
    reason: str = ""
    failed: str = ""
    """How an evaluation failed for good."""
    limbo: list[Any] = field(default_factory=list)
    """Jobs that may go back once it is known whether the file has them."""
    late: list[SpanRecord] = field(default_factory=list)
    """Spans that came while it was scored."""
    lacking: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """After a crash, by judged span: the destinations that have no evaluations of it yet, where known."""


def load_status(jobs: str | None, **columns: Any) -> Status:
    """A row's status.

    Raises:
        ValueError: the tasks cannot be read.
    """
    if jobs is None:
        return Status(**columns)
    try:
        read = json.loads(jobs)
        if "turn" in read:
            asked, waits = read["turn"]
            return Status(turn=Turn({str(k): int(v) for k, v in asked.items()}, tuple(waits)), **columns)
        return Status(
            tasks=tuple(Task(*each) for each in read["tasks"]),
            left=None if read["left"] is None else tuple(read["left"]),
            owed=tuple(Owed(target, tuple(places), tuple(e)) for target, places, e in read["owed"]),
            **columns,
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"tasks cannot be read: {error!r}") from error


def merged(spans: Sequence[SpanRecord], late: Sequence[SpanRecord]) -> tuple[SpanRecord, ...]:
    """A run's spans with those that came late."""
    known = {span.span_id: span for span in spans}
    known.update((span.span_id, span) for span in late)
    return tuple(known.values())
