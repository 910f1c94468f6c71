"""Explanations of single traces: were they scored, and if not, why. As records and in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal, TypedDict

from msgspec.structs import asdict

from otel_evals._internal.accounting.counters import LoggedTrace
from otel_evals._internal.accounting.reasons import meaning
from otel_evals._internal.sampling.algebra import Chance, recorded_probability
from otel_evals._internal.sampling.consistent import conversation_number, randomness, share, threshold
from otel_evals._internal.sampling.decide import CHECKED
from otel_evals._internal.util.plain import counted

TraceStatus = Literal[
    "scored",
    "failed",
    "dropped",
    "not_scored",
    "not_sampled",
    "pending",
    "ignored",
    "waiting_for_root",
    "ruled_out",
    "unknown",
]
"""The furthest that any rule came with a trace.

`pending`: an evaluation has no outcome yet. `waiting_for_root`: the root span has not ended. `ruled_out`: the
trace id's randomness is below every rule's threshold, so the spans were not read. `unknown`: there is no
record of the trace.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedDecision:
    """A rule's decision about one target of the trace, and its outcome."""

    rule: str
    """The rule's name."""
    span_id: str
    """The judged span."""
    sampler: str
    """The rule's sampler, as it is written in configuration."""
    status: str
    """`not_sampled`, `waiting` (for another rule's outcome), `awaiting_idle` (a conversation), `queued`,
    `running`; an outcome: `scored`, `not_scored`, `failed`, `dropped`; or `missing`: the rule
    samples the run, but no evaluation was found."""
    reason: str | None = None
    probability: float | None = None
    """The inclusion probability; None where it cannot be known or was not computed."""
    threshold: float | None = None
    """The sampling threshold, between 0 and 1: targets with a lower randomness are not sampled."""
    value: float | None = None
    explanation: str | None = None
    """The scorer's explanation; known only from a file of scores."""
    attempts: int = 0
    duration: float = 0.0
    """Seconds that the scorer took."""
    conversation_id: str | None = None
    """The judged conversation, for rules of scope `conversation`."""
    effect: str | None = None
    """What the application did with a checked answer: `allowed`, `blocked` or `rewritten`."""
    evidence_cut: bool = False
    """True if a judge saw only a part of the evidence."""
    until: float | None = None
    """While `awaiting_idle`: when the conversation counts as idle, in seconds since the Unix epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The processing of a trace. `str()` returns it as text."""

    trace_id: str
    status: TraceStatus
    randomness: float
    """The trace's randomness, between 0 and 1: a rule samples it if it reaches the rule's threshold."""
    spans: int = 0
    """Spans that were assembled."""
    waiting_spans: int = 0
    """Spans whose root has not ended."""
    conventions: tuple[str, ...] = ()
    runs: int = 0
    ignored: Mapping[str, int] = field(default_factory=dict)
    """Runs, spans and log records that were ignored, by reason."""
    decisions: tuple[ExplainedDecision, ...] = ()
    more: int = 0
    """Decisions beyond those kept."""
    deliveries: tuple[tuple[str, str], ...] = ()
    """For each delivery of a scored run: the destination, and `exported` or the reason why not."""
    notes: tuple[str, ...] = ()
    """Further remarks, in sentences."""

    def __str__(self) -> str:
        return "\n  ".join([f"Trace {self.trace_id}: {self._headline()}", *self._lines()])

    def _headline(self) -> str:
        failed = [each.rule for each in self.decisions if each.status == "failed"]
        if self.status == "scored" and failed:
            return f"scored, but {', '.join(dict.fromkeys(failed))} failed."
        return _HEADLINES[self.status]

    def _lines(self) -> Iterator[str]:
        if self.spans:
            read = f", read as {', '.join(self.conventions)}" if self.conventions else ""
            yield f"Seen: {counted(self.spans, 'span')}{read}, in {counted(self.runs, 'run')}."
        if self.waiting_spans:
            yield f"Waiting for the root span: {counted(self.waiting_spans, 'span')}."
        for reason, count in self.ignored.items():
            yield f"Ignored: {count}, {meaning(reason)}."
        for decision in self.decisions:
            yield _line(decision, self.randomness)
        if self.more:
            yield f"{counted(self.more, 'more decision')}."
        for (destination, end), count in Counter(self.deliveries).items():
            yield f"Destination {destination}: {counted(count, 'scored run')}, {meaning(end)}."
        yield from self.notes


_ENDS: tuple[TraceStatus, ...] = ("scored", "failed", "dropped", "not_scored", "not_sampled")
_HEADLINES: Mapping[TraceStatus, str] = {
    "scored": "scored.",
    "failed": "not scored, because a scorer failed.",
    "dropped": "not scored, because it was dropped.",
    "not_scored": "not scored, because the scorer does not apply to it.",
    "not_sampled": "not scored, because no rule sampled it.",
    "pending": "not scored yet.",
    "ignored": "not scored, because it was ignored before the rules were evaluated.",
    "waiting_for_root": "not scored yet, because its root span has not ended.",
    "ruled_out": "not scored, because no rule could sample its trace id.",
    "unknown": "no record of it.",
}


def trace_status(
    decisions: Sequence[ExplainedDecision], ignored: Mapping[str, int], waiting_spans: int
) -> TraceStatus:
    statuses = {decision.status for decision in decisions}
    if statuses & {"waiting", "awaiting_idle", "queued", "running"}:
        return "pending"
    for end in _ENDS:
        if end in statuses:
            return end
    if waiting_spans:
        return "waiting_for_root"
    return "ignored" if ignored else "unknown"


class Numbers(TypedDict):
    probability: float | None
    threshold: float | None


def numbers(chance: Chance | None, trace_state: str = "") -> Numbers:
    if chance is None:
        return {"probability": None, "threshold": None}
    return {
        "probability": recorded_probability(chance, trace_state),
        "threshold": share(threshold(chance.probability, trace_state)),
    }


def trace_id_of(trace_id: int | str) -> str:
    """Return a trace id as 32 lower-case hex digits.

    Raises:
        ValueError: the value is not a trace id.
    """
    try:
        number = trace_id if isinstance(trace_id, int) else int(trace_id.strip(), 16)
    except ValueError:
        number = 0
    if not 0 < number < 1 << 128:
        raise ValueError(f"{trace_id!r} is not a trace id: give 32 hex digits, or the id as a number")
    return f"{number:032x}"


def explain_logged(
    trace_id: str,
    logged: LoggedTrace,
    samplers: Mapping[str, str],
    waiting_spans: int = 0,
    running: Collection[tuple[str, str]] = (),
) -> Explanation:
    """Explain a trace that is in the trace log.

    `samplers` has each rule's sampler as text, `running` the rule and judged span of running evaluations.
    """
    decisions = []
    for each in tuple(logged.evaluations):
        facts = {
            **asdict(each),
            "sampler": "check" if each.chance is CHECKED else samplers.get(each.rule, ""),
            **numbers(each.chance, "" if each.conversation_id else logged.trace_state),
        }
        del facts["chance"]
        if (each.rule, each.span_id) in running:
            facts["status"] = "running"
        if each.status != "awaiting_idle":
            facts["until"] = None
        decisions.append(ExplainedDecision(**facts))
    ignored = dict(logged.ignored or {})
    return Explanation(
        trace_id=trace_id,
        status=trace_status(decisions, ignored, waiting_spans),
        randomness=share(randomness(int(trace_id, 16), logged.trace_state)),
        spans=logged.spans,
        waiting_spans=waiting_spans,
        conventions=logged.conventions,
        runs=logged.runs,
        ignored=ignored,
        decisions=tuple(decisions),
        more=logged.more,
        deliveries=logged.deliveries,
    )


def explain_unknown(
    trace_id: str, ceiling: float, trace_state: str = "", notes: Sequence[str] = ()
) -> Explanation:
    """Explain a trace without a record: its id may have ruled it out, given the rules' highest probability.

    Otherwise the explanation lists `notes`, other possible reasons.
    """
    lowest, random_bits = threshold(ceiling, trace_state), randomness(int(trace_id, 16), trace_state)
    status: TraceStatus = "unknown"
    relation, conclusion = "is not below", "sampling did not rule it out"
    if random_bits < lowest:
        status, notes = "ruled_out", ()
        relation, conclusion = "is below", "its spans were not read"
    note = (
        f"Its randomness, {share(random_bits):.6f}, {relation} {share(lowest):.6f}, the lowest sampling"
        f" threshold of all rules (probability {ceiling:.6g}): {conclusion}."
    )
    return Explanation(
        trace_id=trace_id,
        status=status,
        randomness=share(random_bits),
        notes=(note, *notes),
    )


def _line(decision: ExplainedDecision, trace_randomness: float) -> str:
    if decision.conversation_id is None:
        return f"{decision.rule}, span {decision.span_id}: {_sentence(decision, trace_randomness)}"
    own = share(randomness(conversation_number(decision.conversation_id)))
    return f"{decision.rule}, conversation {decision.conversation_id}: {_sentence(decision, own)}"


def _sentence(decision: ExplainedDecision, random_share: float) -> str:
    by = f"by {decision.sampler}{_numbers(decision, random_share)}"
    match decision.status:
        case "not_sampled":
            where = "" if decision.threshold is None else f" {by}"
            return f"not sampled{where}, {meaning(decision.reason)}."
        case "missing":
            return f"sampled {by}, but no evaluation was found."
        case "waiting":
            return f"waiting for the outcome that {decision.sampler} depends on."
        case "awaiting_idle":
            before = "" if decision.value is None else f"; last score {decision.value:.6g}"
            when = datetime.fromtimestamp(decision.until or 0.0, UTC).isoformat(timespec="seconds")
            return f"will be judged at {when} unless it continues{before}."
        case "queued":
            return f"sampled {by}; queued."
        case "running":
            return f"sampled {by}; being scored."
    tries = "" if decision.attempts <= 1 else f", {decision.attempts} attempts"
    end = f"{decision.value:.6g}" if decision.value is not None else meaning(decision.reason)
    took = f" (took {decision.duration:.3f} s{tries})" if decision.duration else ""
    why = f": {decision.explanation.rstrip('.')}" if decision.explanation else ""
    effect = f"; the answer was {decision.effect}" if decision.effect else ""
    cut = "; the judge saw only a part of the evidence" if decision.evidence_cut else ""
    status = "score" if decision.status == "scored" else f"{decision.status.replace('_', ' ')}:"
    return f"sampled {by}; {status} {end}{took}{why}{effect}{cut}."


def _numbers(decision: ExplainedDecision, random_share: float) -> str:
    if not decision.threshold:  # unknown, or all are sampled
        return ""
    if decision.threshold >= 1.0:
        return " (probability 0)"
    known = decision.probability is not None
    probability = f"probability {decision.probability:.6g}" if known else "probability unknown"
    compared = ">=" if random_share >= decision.threshold else "<"
    return f" ({probability}, randomness {random_share:.6f} {compared} threshold {decision.threshold:.6f})"
