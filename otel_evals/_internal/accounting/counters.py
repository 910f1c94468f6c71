"""Counters: what happened to every run, for every rule; and the entries of the trace log.

They balance at every moment, which `Stats.check` verifies:

    runs seen             = eligible + ignored (by reason)
    eligible, for a rule  = sampled + not sampled (by reason)
    sampled, for a rule   = scored + not scored (by reason) + failed (by type) + dropped (by reason) + pending

Further checks of a run are counted as `resumed`, on the left of the last line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from otel_evals._internal.sampling.algebra import Chance

OTHER = "_OTHER"
"""OpenTelemetry's word for values beyond a limit."""
MOST_NAMES = 100
"""Number of distinct names in a counter or a metric's attribute: strangers and plug-ins can make up more."""


def counted_as(name: str, counts: Collection[str]) -> str:
    """Return the name to count something under: one beyond the first hundred counts as `_OTHER`."""
    return name if name in counts or len(counts) < MOST_NAMES else OTHER


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleStats:
    """A rule's counters.

    The unit depends on the rule's scope: runs for `run`, agent operations for `agent`. For `conversation` it
    is a conversation, counted each time it became idle, and a run without a conversation id.
    """

    eligible: int = 0
    sampled: int = 0
    not_sampled: Mapping[str, int] = field(default_factory=dict)
    """By reason: `sampled_out`, `not_applicable` (the rule's `when`), `predicate_failed`, `cascade_...`."""
    scored: int = 0
    not_scored: Mapping[str, int] = field(default_factory=dict)
    """By the scorer's reason."""
    failed: Mapping[str, int] = field(default_factory=dict)
    """By error type."""
    dropped: Mapping[str, int] = field(default_factory=dict)
    """By reason, such as `queue_full` or `shutdown`."""
    resumed: int = 0
    """Scored again for a further check of the same run."""
    pending: int = 0
    """Queued or being scored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationStats:
    """Conversations that wait until they are idle."""

    waiting: int = 0
    """At this moment."""
    lost: Mapping[str, int] = field(default_factory=dict)
    """While they waited; by reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """A consistent snapshot of the counters."""

    seen: int = 0
    """Runs that were assembled or ignored."""
    eligible: int = 0
    ignored: Mapping[str, int] = field(default_factory=dict)
    """Runs for which no rule was evaluated, by reason."""
    rules: Mapping[str, RuleStats] = field(default_factory=dict)
    """By scorer id."""
    losses: Mapping[str, int] = field(default_factory=dict)
    """Spans and log records that did not reach a run, by reason."""
    repeated: int = 0
    """Spans that arrived again, and changed nothing."""
    not_kept: int = 0
    """Sampled runs that the journal could not keep: they are scored, but a crash would lose them."""
    conversations: ConversationStats = ConversationStats()
    """Conversations that wait, for rules of scope `conversation`."""
    remote: Mapping[str, int] = field(default_factory=dict)
    """Requests from other services. `marked`: not scored, as this deployment's evaluations sent them.
    `mark_not_signed`: scored, although they say that. `threshold_not_trusted`: their sampling threshold was
    ignored."""

    def check(self, *, ended: bool = False) -> list[str]:
        """Return the sums that do not balance, in words; empty if all do.

        With `ended`, also the rules with pending evaluations: after a shutdown there are none.
        """
        wrong = [
            f"{name}: {rule.pending} pending" for name, rule in self.rules.items() if ended and rule.pending
        ]
        if self.seen != self.eligible + sum(self.ignored.values()):
            wrong.append(f"{self.seen} runs seen, {self.eligible} eligible, {dict(self.ignored)} ignored")
        for name, rule in self.rules.items():
            if rule.eligible != rule.sampled + sum(rule.not_sampled.values()):
                wrong.append(f"{name}: {rule.eligible} eligible, {rule.sampled} sampled, {rule.not_sampled}")
            ends = sum(sum(by.values()) for by in (rule.not_scored, rule.failed, rule.dropped))
            if rule.sampled + rule.resumed != rule.scored + ends + rule.pending:
                wrong.append(f"{name}: {rule}")
        return wrong


@dataclass(slots=True)
class RuleCounts:
    """A rule's counters as they change."""

    eligible: int = 0
    sampled: int = 0
    scored: int = 0
    resumed: int = 0
    pending: int = 0
    not_sampled: Counter[str] = field(default_factory=Counter)
    not_scored: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)

    def snapshot(self) -> RuleStats:
        values = {name: getattr(self, name) for name in self.__slots__}
        copies: dict[str, Any] = {k: dict(v) if isinstance(v, Counter) else v for k, v in values.items()}
        return RuleStats(**copies)


class LoggedEvaluation(msgspec.Struct, eq=False, gc=False):
    """A rule's decision about one target, and its outcome."""

    rule: str
    span_id: str
    status: str
    """`waiting` (for another rule's outcome), `awaiting_idle` (a conversation), `not_sampled`, `queued` (or
    already running), or the outcome: `scored`, `not_scored`, `failed`, `dropped`."""
    reason: str | None = None
    chance: Chance | None = None
    value: float | None = None
    attempts: int = 0
    duration: float = 0.0
    conversation_id: str | None = None
    """Set where a conversation is the target; the traces of its runs share one object."""
    effect: str | None = None
    """What the application did with a checked answer."""
    evidence_cut: bool = False
    until: float = 0.0
    """While `awaiting_idle`: when the conversation counts as idle, in seconds since the Unix epoch."""


class LoggedTrace(msgspec.Struct, eq=False, gc=False):
    """A trace's entry in the log; untracked, since the garbage collector would visit ten thousand."""

    spans: int = 0
    runs: int = 0
    conventions: tuple[str, ...] = ()
    trace_state: str = ""
    ignored: Counter[str] | None = None
    """Runs, spans and log records that were ignored, by reason."""
    evaluations: tuple[LoggedEvaluation, ...] = ()
    more: int = 0
    """Evaluations beyond those kept."""
    deliveries: tuple[tuple[str, str], ...] = ()
    """Destination and end of each delivery: `exported`, or the reason why not."""


# --- progress of scoring, for liveness probes and dashboards ---

HealthStatus = Literal["healthy", "degraded", "stalled", "idle"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """The state of the engine at one moment."""

    status: HealthStatus
    """`idle`: there is no work. `stalled`: there is work and no progress, so restart the process. `degraded`:
    rules or destinations fail, or the journal cannot be written."""
    problem: str | None = None
    """What is wrong, if it is `stalled` or `degraded`."""
    thread_alive: bool = False
    """Whether the scoring thread runs; it starts with the first captured span."""
    waiting: int = 0
    """Captured spans and log records in the engine's intake."""
    pending: int = 0
    """Evaluations that are queued or being scored."""
    last_beat: float | None = None
    """Seconds since the last iteration of the engine's event loop; None if there was none."""
    last_end: float | None = None
    """Seconds since an evaluation last ended; None if none did."""
    failing_destinations: tuple[str, ...] = ()
    """Destinations that did not accept their last batch."""
    failing_rules: Mapping[str, str] = field(default_factory=dict)
    """Rules whose last 10 evaluations failed, or half of the last 50; each with its error in words."""
    content_off: Mapping[str, str] = field(default_factory=dict)
    """Instrumentations that left content out, each with the setting that turns it on."""
    losses: Mapping[str, int] = field(default_factory=dict)
    """Losses so far, by kind and reason."""

    @property
    def ok(self) -> bool:
        """Return True if the status is `healthy` or `idle`; otherwise see `problem`."""
        return self.status in ("healthy", "idle")


def judge_health(
    *,
    closed: bool,
    started: bool,
    thread_alive: bool,
    waiting: int,
    pending: int,
    since_beat: float | None,
    since_progress: float,
    beat_limit: float,
    progress_limit: float,
    failing: Mapping[str, str] = {},
    problems: Sequence[str] = (),
    unstartable: bool = False,
) -> tuple[HealthStatus, str | None]:
    """Return the status and, if it is `stalled` or `degraded`, the problem.

    `since_progress` are seconds since an evaluation ended, or since the first pending one was queued. More
    than `beat_limit` seconds since the event loop's last iteration mean that it is blocked, more than
    `progress_limit` without progress that pending evaluations are stuck. `failing` has the rules that fail
    again and again, which matters until scoring is `closed`, and `problems` everything else that is wrong.
    """
    if (started or unstartable) and not thread_alive and not closed:
        problem = "has ended" if started else f"cannot be started, {waiting} items wait"
        return "stalled", f"the scoring thread {problem}"
    if thread_alive and since_beat is not None and since_beat > beat_limit:
        return "stalled", f"the scoring thread has been blocked for {since_beat:.1f} s, {waiting} items wait"
    if pending and since_progress > progress_limit:
        return "stalled", f"none of {pending} evaluations has ended for {since_progress:.1f} s"
    rules = [] if closed else [f"{name}: {problem}" for name, problem in sorted(failing.items())]
    if rules or problems:
        return "degraded", "; ".join([*rules, *problems])
    return ("healthy" if waiting or pending else "idle"), None
