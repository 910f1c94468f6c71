"""Members that crash and partitions that move: no trace is lost, and none is judged on a part."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("confluent_kafka")

from confluent_kafka import TopicPartition

from otel_evals._internal.capture.items import RecordedSpan
from otel_evals._internal.gather.closing import AssemblyLimits
from otel_evals._internal.gather.gatherer import Gatherer
from otel_evals.model import SpanRecord
from otel_evals_gateway._internal.kafka.clock import MessageClosing, ReadingClock
from otel_evals_gateway._internal.kafka.partitions import LookBack, Partitions
from otel_evals_gateway._internal.kafka.progress import Progress

QUIET, IDLE, MAX_AGE = 5.0, 20.0, 60.0
PLACE = ("spans", 0)
LIMITS = AssemblyLimits(
    grace=0.0, max_age=MAX_AGE, max_traces=10_000, max_spans_per_trace=1_000, max_bytes=10**9
)


class Message(NamedTuple):
    at: float
    trace: str
    span: RecordedSpan
    number: int

    def offset(self) -> int:
        return self.number


class Found(NamedTuple):
    offset: int


def traffic(rng: random.Random, traces: int) -> list[Message]:
    """Spans of traces as they are written to a partition, some of them twice."""
    written, start = [], 0.0
    for number in range(traces):
        start += rng.expovariate(1.0)
        at, count = start, rng.randint(1, 8)
        for span in range(1, count + 1):
            ids = {"trace_id": f"{number + 1:032x}", "span_id": f"{span:016x}"}
            root = span == rng.randint(1, count)
            record = SpanRecord(
                **ids, parent_span_id=None if root else f"{99:016x}", start_time=1, end_time=2
            )
            copies = 1 + (rng.random() < 0.05)
            written += [(at, ids["trace_id"], RecordedSpan(record, 0))] * copies
            at += rng.uniform(0, QUIET * 0.9)
    return [Message(*each, number) for number, each in enumerate(sorted(written, key=lambda each: each[0]))]


class Member:
    """A member of the group, with a consumer's part in it; times are those of the simulation."""

    def __init__(self, log: list[Message], committed: int, now: float, window: float) -> None:
        self.log, self.position, self.now = log, committed, now
        self.progress = Progress(lambda: self.now)
        self.clock = ReadingClock(lambda: self.now)
        self.look_back = LookBack(self, window)
        clock = lambda: self.clock.taken_to(self.taken, len(self.intake))  # noqa: E731
        closing = MessageClosing(self.progress, clock, QUIET, IDLE, MAX_AGE, lambda span: True)
        self.gatherer = Gatherer(LIMITS, closing)
        self.gatherer.reports_left = True
        self.evaluating: dict[str, tuple[float, int]] = {}
        self.stale = self.sought = self.taken = 0
        self.intake: list[RecordedSpan] = []
        self.look_back.assign([PLACE])
        self.clock.assign([PLACE])

    def seek(self, place: Any) -> None:
        """Some messages that were fetched before come first."""
        self.stale, self.sought = 1 + place.offset % 5, place.offset

    def offsets_for_times(self, places: list[Any], timeout: float) -> list[Found]:
        since = places[0].offset / 1000
        return [Found(next((m.number for m in self.log if m.at >= since), -1))]

    def read(self, most: int) -> None:
        for _ in range(most):
            if self.position >= len(self.log) or self.log[self.position].at > self.now:
                self.clock.looked([PLACE])
                return
            message = self.log[self.position]
            self.position += 1
            self.stale -= 1
            if self.stale == 0:
                self.position = self.sought
            if self.position % 7 == 0:
                self.clock.looked([])
            where = self.look_back.place_of(message, PLACE, message.at)
            at = self.clock.read(PLACE, message.at)
            if where == "before":
                self.look_back.remember(PLACE, [message.trace])
            elif where == "new":
                finished = self.look_back.finished([message.trace])
                self.progress.take(PLACE, message.number, {message.trace} - finished, at)
                if not finished:
                    self.intake.append(message.span)
                    self.progress.put([message.trace], self.now)

    def gather(self, most: int) -> None:
        self.clock.publish(self.taken + len(self.intake))
        self.gatherer.add(self.intake[:most], self.now)
        self.taken += min(most, len(self.intake))
        del self.intake[:most]

    def score(self, rng: random.Random) -> list[tuple[str, int]]:
        """Close what is complete; returns what was judged, each with the number of its spans."""
        while self.gatherer.next_close <= self.now:
            for group in self.gatherer.close_due(self.now):
                end = self.now + rng.uniform(0, 10)
                self.evaluating[group.spans[0].trace_id] = end, len(group.spans)
        ended = {trace: count for trace, (end, count) in self.evaluating.items() if end <= self.now}
        for trace in [*ended, *self.gatherer.take_left()]:
            waits = any(span.span.trace_id == trace for span in self.intake)
            if not waits and (trace in ended or trace not in self.evaluating):
                self.progress.finish(trace, self.now)
        self.evaluating = {trace: each for trace, each in self.evaluating.items() if trace not in ended}
        return [*ended.items()]


def history(seed: int, window: float) -> tuple[Counter[str], int, int]:
    """Return the number of judgements of each trace, of those on a part, and of the lost traces."""
    rng = random.Random(seed)
    log = traffic(rng, 120)
    whole = {m.trace: len({o.span.span.span_id for o in log if o.trace == m.trace}) for m in log}
    committed, now, judged = 0, 0.0, list[tuple[str, int]]()
    while committed < len(log):
        member = Member(log, committed, now, window)
        crash = now + rng.expovariate(1 / 40) if now < log[-1].at + 30 else float("inf")
        now += rng.choice([0.0, 0.0, 30.0])  # until the partition moves
        while now < crash and committed < len(log):
            member.now = now = now + rng.choice([0.05, 0.5, 2.0])
            member.read(rng.choice([0, 1, 5, 50]))
            member.gather(rng.choice([0, 3, 100]))
            judged += member.score(rng)
            if rng.random() < 0.2:
                committed = max(committed, member.progress.offset(PLACE))
    parts = sum(count != whole[trace] for trace, count in judged)
    return Counter(trace for trace, _ in judged), parts, len(whole.keys() - dict(judged).keys())


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6))
def test_no_trace_is_lost_or_judged_on_a_part(seed: int) -> None:
    _, parts, lost = history(seed, MAX_AGE)
    assert (parts, lost) == (0, 0)


def test_only_what_was_not_committed_is_judged_again() -> None:
    """A member crashes every 40 seconds, while traces take up to as long: most are judged once or twice."""
    judgements = [history(seed, MAX_AGE)[0] for seed in range(10)]
    assert sum(each.total() for each in judgements) < 2 * sum(map(len, judgements))


def test_without_looking_back_traces_would_be_judged_on_a_part() -> None:
    assert sum(history(seed, 0.0)[1] for seed in range(5)) > 20


def test_a_trace_that_is_written_while_it_is_finished_stays_unfinished() -> None:
    progress = Progress(lambda: 0.0)
    progress.take(PLACE, 7, ["a", "b"], 1.0)
    progress.finish("a", 2.0)
    assert progress.offset(PLACE) == 7, "its items were on their way"
    progress.put(["a", "b"], 3.0)
    progress.finish("a", 2.9)
    progress.finish("b", 3.0)
    assert (progress.offset(PLACE), len(progress)) == (7, 1)
    progress.take(PLACE, 8, ["c"], 1.0)
    progress.finish("a", 4.0)
    assert progress.offset(PLACE) == 8
    assert progress.forget([PLACE]) == {"c"}
    assert (progress.offset(PLACE), len(progress), progress.last("c")) == (-1, 0, None)


class Delivered:
    """A consumer that has delivered everything, and was then positioned further back."""

    def offsets_for_times(self, places: Any, timeout: float) -> list[TopicPartition]:
        return [TopicPartition(place.topic, place.partition, 50) for place in places]

    position = offsets_for_times


def test_a_partition_is_not_read_to_its_end_while_messages_are_read_again() -> None:
    clock, progress, consumer = ReadingClock(lambda: 100.0), Progress(), Delivered()
    partitions = Partitions(consumer, progress, clock, LookBack(consumer, 60.0))
    partitions.assign([PLACE])
    assert partitions.look() is None
    assert (clock.now, partitions.lag) == (0.0, 50)
    progress.take(PLACE, 49, [], 1.0)
    assert partitions.look() is None
    assert (clock.now, partitions.lag) == (100.0, 0)
    progress.forget([PLACE])
    partitions.ended(PLACE, 50)
    assert partitions.look() is None
    assert partitions.lag == 0


def test_the_clock_follows_messages_in_a_backlog_and_time_at_the_end() -> None:
    now = 100.0
    clock, other = ReadingClock(lambda: now), ("logs", 1)
    assert clock.now == 100.0, "without partitions"
    clock.assign([PLACE, other])
    clock.looked([PLACE])
    assert clock.now == 0.0, "nothing was read of the other"
    assert [clock.read(other, at) for at in (50.0, 80.0, 70.0)] == [50.0, 80.0, 80.0]
    clock.looked([PLACE, other])
    now = 104.0
    clock.looked([PLACE, other])
    assert clock.now == 85.0, "producers may be behind by as much"
    assert clock.read(other, 10**9) == 104.0, "no sender can move it into the future"
    now = 200.0
    clock.looked([PLACE, other])
    assert clock.now == 200.0
    clock.assign([other])
    assert clock.now == 0.0
    clock.lose([other])
    assert clock.now == 200.0


def test_the_clock_stands_still_during_an_outage_and_while_messages_wait() -> None:
    now = 100.0
    clock = ReadingClock(lambda: now)
    clock.assign([PLACE])
    clock.looked([PLACE])
    now = 130.0
    clock.looked([])
    assert clock.now == 100.0, "messages wait"
    clock.looked([PLACE])
    clock.lost_sight()
    now = 140.0
    clock.looked([PLACE])
    clock.skip(50.0)
    assert clock.now == 100.0, "producers may have to send again"
    now = 146.0
    clock.looked([PLACE])
    assert clock.now == 107.5
    clock.skip(3.0)
    assert clock.now == 110.5
