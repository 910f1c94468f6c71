"""The answer to "why was this trace not scored?", as a record and in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal, TypedDict

from otel_evals.engine.stories import Story
from otel_evals.reasons import meaning
from otel_evals.sampling import Chance, randomness, recorded_probability, share, threshold
from otel_evals.sampling.identity import conversation_number

__all__ = [
    "Decision",
    "Explanation",
    "Numbers",
    "Verdict",
    "explain_story",
    "explain_unseen",
    "numbers",
    "verdict_of",
]

Verdict = Literal[
    "scored",
    "failed",
    "dropped",
    "not_scored",
    "not_sampled",
    "pending",
    "ignored",
    "gathering",
    "lost_at_start",
    "unseen",
]
"""How far a trace came at best.

`pending`: a rule still waits or its scorer runs. `gathering`: its root has not ended. `lost_at_start`: no
rule could have picked its trace id, so nothing of it was looked at. `unseen`: nothing is known of it.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What one rule did with one target of the trace."""

    rule: str
    """The name it is counted under."""
    span_id: str
    """The span that is or would be judged."""
    sampler: str
    """The rule's sampler, in words."""
    status: str
    """`not_sampled`, `waiting`, `gathered`, `queued`, `running`, how the evaluation ended, or `missing`: a
    record of it should be there and is not."""
    reason: str | None = None
    probability: float | None = None
    """The run's inclusion probability; None where it cannot be known or was not worked out."""
    threshold: float | None = None
    """The randomness from which on the rule picks, between 0 and 1."""
    value: float | None = None
    attempts: int = 0
    duration: float = 0.0
    """Seconds that the scorer took."""
    conversation_id: str | None = None
    """Of the conversation that is or would be judged, for rules of scope `conversation`."""
    until: float | None = None
    """When it will have been idle for long enough, in seconds since the Unix epoch; while `gathered`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What happened to a trace. `str()` of it is the answer for people."""

    trace_id: str
    verdict: Verdict
    randomness: float
    """Of the trace, between 0 and 1: a rule picks it where its threshold is no higher."""
    spans: int = 0
    """Spans that were captured and assembled."""
    waiting_spans: int = 0
    """Spans that wait for their root."""
    dialects: tuple[str, ...] = ()
    runs: int = 0
    ignored: Mapping[str, int] = field(default_factory=dict)
    """Runs, spans and log records given up, by reason."""
    decisions: tuple[Decision, ...] = ()
    more: int = 0
    """Decisions beyond those kept."""
    deliveries: tuple[tuple[str, str], ...] = ()
    """Destination, and `exported` or the reason of the loss, for each scored run that has left."""
    notes: tuple[str, ...] = ()
    """What else there is to know, in sentences."""

    def __str__(self) -> str:
        return "\n  ".join([f"Trace {self.trace_id}: {_HEADLINES[self.verdict]}", *self._lines()])

    def _lines(self) -> Iterator[str]:
        if self.spans:
            read = f", read as {', '.join(self.dialects)}" if self.dialects else ""
            yield f"Seen: {_count(self.spans, 'span')}{read}, in {_count(self.runs, 'run')}."
        if self.waiting_spans:
            yield f"Waiting for its root: {_count(self.waiting_spans, 'span')}."
        for reason, count in self.ignored.items():
            yield f"Given up: {count}, {meaning(reason)}."
        for decision in self.decisions:
            yield _line(decision, self.randomness)
        if self.more:
            yield f"And {_count(self.more, 'decision')} more."
        for (destination, end), count in Counter(self.deliveries).items():
            yield f"Delivered to {destination}: {_count(count, 'scored run')}, {meaning(end)}."
        yield from self.notes


_HEADLINES: Mapping[Verdict, str] = {
    "scored": "scored.",
    "failed": "not scored, because a scorer failed.",
    "dropped": "not scored, because it was dropped.",
    "not_scored": "not scored, because its scorer says that it does not apply.",
    "not_sampled": "not scored, because no rule sampled it.",
    "pending": "not scored yet.",
    "ignored": "not scored, because no rule was asked about it.",
    "gathering": "not scored yet, because its root span has not ended.",
    "lost_at_start": "not scored, because no rule could pick it.",
    "unseen": "nothing is known of it.",
}


def verdict_of(decisions: Sequence[Decision], ignored: Mapping[str, int], waiting_spans: int) -> Verdict:
    """How far a trace came."""
    statuses = {decision.status for decision in decisions}
    if statuses & {"waiting", "gathered", "queued", "running", "spooled"}:
        return "pending"
    ends: tuple[Verdict, ...] = ("scored", "failed", "dropped", "not_scored", "not_sampled")
    for end in ends:
        if end in statuses:
            return end
    if waiting_spans:
        return "gathering"
    return "ignored" if ignored else "unseen"


class Numbers(TypedDict):
    """Fields of a Decision."""

    probability: float | None
    threshold: float | None


def numbers(chance: Chance | None, trace_state: str = "") -> Numbers:
    """The `probability` and `threshold` of a Decision."""
    if chance is None:
        return {"probability": None, "threshold": None}
    return {
        "probability": recorded_probability(chance, trace_state),
        "threshold": share(threshold(chance.probability, trace_state)),
    }


def explain_story(
    trace_id: str, story: Story, samplers: Mapping[str, str], waiting_spans: int = 0
) -> Explanation:
    """What is remembered of a trace.

    Args:
        trace_id: 32 hex digits.
        story: what the engine remembers.
        samplers: the rules' samplers in words, by the name the rules are counted under.
        waiting_spans: how many of its spans wait for their root.
    """
    decisions = tuple(
        Decision(
            rule=entry.name,
            span_id=entry.span_id,
            sampler=samplers.get(entry.name, ""),
            status=entry.status,
            reason=entry.reason,
            value=entry.value,
            attempts=entry.attempts,
            duration=entry.duration,
            conversation_id=entry.conversation_id,
            until=entry.until if entry.status == "gathered" else None,
            **numbers(entry.chance, "" if entry.conversation_id else story.trace_state),
        )
        for entry in tuple(story.entries)
    )
    ignored = dict(story.ignored or {})
    return Explanation(
        trace_id=trace_id,
        verdict=verdict_of(decisions, ignored, waiting_spans),
        randomness=share(randomness(int(trace_id, 16), story.trace_state)),
        spans=story.spans,
        waiting_spans=waiting_spans,
        dialects=story.dialects,
        runs=story.runs,
        ignored=ignored,
        decisions=decisions,
        more=story.more,
        deliveries=story.deliveries,
    )


def explain_unseen(
    trace_id: str, ceiling: float, trace_state: str = "", notes: Sequence[str] = ()
) -> Explanation:
    """A trace of which nothing was seen: whether its id alone ruled it out.

    Args:
        trace_id: 32 hex digits.
        ceiling: the highest probability of any rule.
        trace_state: the trace's tracestate, if it has one.
        notes: what else may be the reason, where its id did not rule it out.
    """
    bar, drawn = threshold(ceiling, trace_state), randomness(int(trace_id, 16), trace_state)
    rates = f"the highest rate of any rule, {ceiling:.6g}, picks from {share(bar):.6f} up"
    if drawn < bar:
        note = f"Its trace id draws {share(drawn):.6f}, and {rates}: nothing of it was looked at."
        verdict: Verdict = "lost_at_start"
        notes = (note,)
    else:
        note = f"Its trace id draws {share(drawn):.6f}, and {rates}: sampling did not rule it out."
        verdict = "unseen"
        notes = (note, *notes)
    return Explanation(trace_id=trace_id, verdict=verdict, randomness=share(drawn), notes=tuple(notes))


def _line(decision: Decision, drawn: float) -> str:
    if decision.conversation_id is None:
        return f"{decision.rule}, span {decision.span_id}: {_sentence(decision, drawn)}"
    drawn = share(randomness(conversation_number(decision.conversation_id)))
    return f"{decision.rule}, conversation {decision.conversation_id}: {_sentence(decision, drawn)}"


def _sentence(decision: Decision, drawn: float) -> str:
    sampled = f"sampled by {decision.sampler}{_numbers(decision, drawn)}"
    match decision.status:
        case "not_sampled":
            by = "" if decision.threshold is None else f" by {decision.sampler}{_numbers(decision, drawn)}"
            return f"not sampled{by}, {meaning(decision.reason)}."
        case "missing":
            return f"{sampled}; but no evaluation of it was found."
        case "waiting":
            return f"waits for the scorer that {decision.sampler} follows."
        case "gathered":
            before = "" if decision.value is None else f"; {decision.value:.6g} when it last was"
            return f"is judged at {_clock(decision.until)} unless it goes on{before}."
        case "queued":
            return f"{sampled}; waits for its turn."
        case "running":
            return f"{sampled}; is being scored."
        case "spooled":
            return f"{sampled}; is in the store for later: {decision.reason}."
    tries = "" if decision.attempts <= 1 else f", {decision.attempts} attempts"
    end = f"{decision.value:.6g}" if decision.value is not None else meaning(decision.reason)
    took = f" after {decision.duration:.3f} s{tries}" if decision.duration else ""
    return f"{sampled}; {decision.status.replace('_', ' ')}: {end}{took}."


def _numbers(decision: Decision, drawn: float) -> str:
    if decision.threshold is None:
        return ""
    if decision.threshold >= 1.0:
        return " (no chance)"
    chance = (
        "probability unknown" if decision.probability is None else f"probability {decision.probability:.6g}"
    )
    who = "this trace" if decision.conversation_id is None else "this conversation"
    return f" ({chance}: picks from {decision.threshold:.6f} up, {who} draws {drawn:.6f})"


def _clock(seconds: float | None) -> str:
    return datetime.fromtimestamp(seconds or 0.0, UTC).isoformat(timespec="seconds")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
