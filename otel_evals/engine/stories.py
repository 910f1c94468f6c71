"""What happened to each of the last traces, so that anyone can ask why one was not scored.

Written on the engine's thread, a few microseconds per run; read from anywhere. Bounded by traces and bytes:
the oldest are forgotten first. What was said in a run is not kept.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from otel_evals.model import Evaluation, Run, Score, ScoredRun
from otel_evals.sampling import Chance

__all__ = ["Entry", "Stories", "Story"]

# Measured with two short rules; ids and shared texts included.
_STORY_BYTES = 400
_ENTRY_BYTES = 250
_MAX_ENTRIES = 500


@dataclass(slots=True, eq=False)
class Entry:
    """One rule's dealings with one target."""

    name: str
    """Under which the rule is counted."""
    span_id: str
    status: str
    """`waiting`, `gathered`, `not_sampled`, `queued`, `running`, `spooled`, or how it ended: `scored`,
    `not_scored`, `failed`, `dropped`."""
    reason: str | None = None
    chance: Chance | None = None
    value: float | None = None
    attempts: int = 0
    duration: float = 0.0
    """Seconds."""
    conversation_id: str | None = None
    """Of the conversation that is the target; its runs' stories share one entry."""
    until: float = 0.0
    """When the conversation is idle for long enough, in seconds since the Unix epoch; while `gathered`."""


@dataclass(slots=True, eq=False)
class Story:
    """One trace."""

    spans: int = 0
    """Captured and assembled."""
    runs: int = 0
    dialects: tuple[str, ...] = ()
    trace_state: str = ""
    ignored: Counter[str] | None = None
    """Runs, spans and log records given up, by reason."""
    entries: list[Entry] = field(default_factory=list)
    more: int = 0
    """Entries beyond those kept."""
    deliveries: tuple[tuple[str, str], ...] = ()
    """Destination and end of each scored run."""

    def entry(self, name: str, span_id: str) -> Entry | None:
        """What a rule did with a target."""
        for entry in self.entries:
            if entry.name == name and entry.span_id == span_id:
                return entry
        return None


class Stories:
    """The last traces' stories, by trace id.

    Args:
        limit: how many traces are remembered.
        max_bytes: how much memory they may take, roughly.
    """

    def __init__(self, limit: int = 10_000, max_bytes: int = 24 * 1024 * 1024) -> None:
        self._limit = limit
        self._max_bytes = max_bytes
        self._stories: OrderedDict[str, Story] = OrderedDict()
        self._bytes = 0
        self._deliveries: dict[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]] = {}
        self._dialects: dict[frozenset[str], tuple[str, ...]] = {}

    def __len__(self) -> int:
        return len(self._stories)

    def get(self, trace_id: str) -> Story | None:
        """The story of a trace; None when nothing of it was seen, or it is forgotten."""
        return self._stories.get(trace_id)

    def assembled(self, trace_id: str, spans: int, runs: Iterable[Run]) -> None:
        """Spans of a trace became runs."""
        story = self._story(trace_id)
        story.spans += spans
        for run in runs:
            story.runs += 1
            story.trace_state = run.trace_state
            names = frozenset([*story.dialects, *[operation.dialect for operation in run.operations]])
            dialects = self._dialects.get(names)
            if dialects is None:
                dialects = self._dialects[names] = tuple(sorted(names))
            story.dialects = dialects

    def ignored(self, trace_id: str, reason: str, count: int = 1) -> None:
        """Runs, spans or log records of a trace were given up."""
        story = self._story(trace_id)
        if story.ignored is None:
            story.ignored = Counter()
        story.ignored[reason] += count

    def waits(self, run: Run, name: str) -> None:
        """A rule waits for another's outcome."""
        self._enter(run, name, "waiting")

    def gathered(self, run: Run, entry: Entry) -> None:
        """A run belongs to a conversation, whose entry this is, and which is to be judged as a whole."""
        story = self._story(run.trace_id)
        if entry not in story.entries:
            self._add(story, entry)

    def skipped(self, run: Run, name: str, reason: str, chance: Chance | None) -> None:
        """A rule does not sample a run."""
        self._enter(run, name, "not_sampled", reason, chance)

    def sampled(self, run: Run, name: str, chance: Chance) -> None:
        """A rule samples a run."""
        self._enter(run, name, "queued", None, chance)

    def begun(self, run: Run, name: str) -> None:
        """A scorer looks at a run."""
        entry = self._story(run.trace_id).entry(name, run.root_span_id)
        if entry is not None:
            entry.status = "running"

    def ended(self, name: str, evaluation: Evaluation) -> None:
        """A sampled run's end."""
        entry = self._story(evaluation.trace_id).entry(name, evaluation.span_id)
        if entry is not None:
            outcome = evaluation.outcome
            entry.reason, entry.value = (
                evaluation.reason,
                outcome.value if isinstance(outcome, Score) else None,
            )
            entry.attempts, entry.duration = evaluation.attempts, evaluation.duration
            entry.status = evaluation.status

    def spooled(self, run: Run, name: str, reason: str) -> None:
        """A sampled run went back into the store."""
        entry = self._story(run.trace_id).entry(name, run.root_span_id)
        if entry is not None:
            entry.status, entry.reason = "spooled", reason

    def delivered(self, destination: str, batch: Sequence[ScoredRun], end: str) -> None:
        """What became of scored runs at a destination: `exported`, or the reason of their loss."""
        for scored in batch:
            story = self._stories.get(scored.run.trace_id)
            if story is not None and len(story.deliveries) < _MAX_ENTRIES:
                story.deliveries = self._shared((*story.deliveries, (destination, end)))

    def _shared(self, deliveries: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
        """One tuple for all traces that fared alike."""
        if len(self._deliveries) < _MAX_ENTRIES:
            return self._deliveries.setdefault(deliveries, deliveries)
        return self._deliveries.get(deliveries, deliveries)

    def _enter(
        self, run: Run, name: str, status: str, reason: str | None = None, chance: Chance | None = None
    ) -> None:
        story = self._stories.get(run.trace_id) or self._story(run.trace_id)
        entry = story.entry(name, run.root_span_id)
        if entry is not None:
            entry.status, entry.reason, entry.chance = status, reason, chance
        else:
            self._add(story, Entry(name, run.root_span_id, status, reason, chance))

    def _add(self, story: Story, entry: Entry) -> None:
        if len(story.entries) < _MAX_ENTRIES:
            story.entries.append(entry)
            self._bytes += _ENTRY_BYTES
        else:
            story.more += 1

    def _story(self, trace_id: str) -> Story:
        story = self._stories.get(trace_id)
        if story is None:
            story = self._stories[trace_id] = Story()
            self._bytes += _STORY_BYTES
            while len(self._stories) > 1 and (
                len(self._stories) > self._limit or self._bytes > self._max_bytes
            ):
                self._forget()
        return story

    def _forget(self) -> None:
        _, story = self._stories.popitem(last=False)
        self._bytes -= _STORY_BYTES + _ENTRY_BYTES * len(story.entries)
