"""The hold: judged spans wait for their scores, within bounds, and every span leaves exactly once."""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.instrumentation.utils import is_instrumentation_enabled
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from otel_evals._internal.attach.hold import PendingScores
from otel_evals._internal.attach.scoring_exporter import ScoringSpanExporter
from otel_evals._internal.trust.keys import proof_of
from tests.support.waits import SECONDS


def a_span(number: int, end_time: int | None = None, attributes: Any = None) -> ReadableSpan:
    context = SpanContext(1, number, is_remote=False, trace_flags=TraceFlags(1))
    return ReadableSpan(
        name=str(number),
        context=context,
        parent=SpanContext(1, 99, is_remote=False),
        resource=Resource({"service.name": "shop"}),
        attributes=attributes or {"kept": number},
        events=[Event("e", timestamp=3)],
        links=[Link(SpanContext(5, 6, is_remote=True))],
        kind=SpanKind.CLIENT,
        status=Status(StatusCode.ERROR, "why"),
        start_time=1,
        end_time=time.time_ns() if end_time is None else end_time,
        instrumentation_info=InstrumentationScope("app", "1"),  # type: ignore[arg-type],
        instrumentation_scope=InstrumentationScope("app", "1"),
    )


class Backend(SpanExporter):
    """Keeps the spans it is given; may refuse some."""

    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []
        self.calls: list[list[str]] = []
        self.fails = 0
        self.inside = 0
        self.traced = self.shut = self.flushed = self.overlapped = False
        self._changed = threading.Condition()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.inside += 1
        self.overlapped |= self.inside > 1
        self.traced |= is_instrumentation_enabled()
        with self._changed:
            self.calls.append([span.name for span in spans])
            try:
                if self.fails:
                    self.fails -= 1
                    raise OSError("no route to the backend")
                self.spans.extend(spans)
            finally:
                self.inside -= 1
                self._changed.notify_all()
        return SpanExportResult.SUCCESS

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        self.flushed = True
        return True

    def shutdown(self) -> None:
        self.shut = True

    @property
    def names(self) -> list[str]:
        return [span.name for span in self.spans]

    def wait_for(self, count: int) -> list[ReadableSpan]:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.spans) >= count, SECONDS)
            return list(self.spans)


@contextmanager
def holding(**options: Any) -> Iterator[tuple[Backend, PendingScores, ScoringSpanExporter]]:
    backend, scores = Backend(), PendingScores()
    exporter = ScoringSpanExporter(backend, scores, **{"hold": SECONDS * 2, **options})
    try:
        yield backend, scores, exporter
    finally:
        exporter.shutdown()


def score_of(span: ReadableSpan) -> Any:
    return (span.attributes or {}).get("score")


# --- waiting and leaving ---


def test_spans_that_nobody_judges_pass_at_once() -> None:
    with holding() as (backend, _, exporter):
        assert exporter.export([a_span(1), a_span(2)]) is SpanExportResult.SUCCESS
        assert (backend.names, exporter.held) == (["1", "2"], 0)


def test_nothing_but_the_attributes_of_a_span_changes() -> None:
    with holding() as (backend, scores, exporter):
        scores.expect(1, 1)
        scores.add(1, 1, "quick", 1, {"score": 0.25})
        scores.finish(1, 1)
        before = a_span(1)
        exporter.export([before])
        (after,) = backend.spans
        for name in ("name", "context", "parent", "resource", "links", "kind", "start_time", "end_time"):
            assert getattr(after, name) == getattr(before, name), name
        assert (after.status.status_code, after.status.description) == (StatusCode.ERROR, "why")
        assert [(e.name, e.timestamp) for e in after.events] == [("e", 3)]
        assert after.instrumentation_scope == before.instrumentation_scope
        assert after._instrumentation_info == before._instrumentation_info
        assert dict(before.attributes or {}) == {"kept": 1}, "others may export the span as it was"


def test_the_time_counts_from_the_spans_end() -> None:
    """A batch processor may have had it for a while."""
    with holding() as (backend, scores, exporter):
        scores.expect(1, 1)
        exporter.export([a_span(1, end_time=time.time_ns() - int(SECONDS * 3e9))])
        backend.wait_for(1)


# --- letting go ---


def test_spans_of_before_may_pass_while_later_ones_wait() -> None:
    """A flush of the provider lets what had ended by then go."""
    with holding() as (backend, scores, exporter):
        now = time.time_ns()
        for number in (1, 2):
            scores.expect(1, number)
        exporter.export([a_span(1, now - 1_000), a_span(2, now + 60 * 10**9)])
        scores.let_pass(now)
        backend.wait_for(1)
        assert (backend.names, exporter.held) == (["1"], 1)


# --- what exporters may do ---


def test_an_exporter_that_raises_costs_its_own_spans_only(caplog: pytest.LogCaptureFixture) -> None:
    """What is held goes out from a thread of its own, which an exporter's error does not end."""
    with holding() as (backend, scores, exporter):
        backend.fails = 1
        for number in (1, 2):
            scores.expect(1, number)
        exporter.export([a_span(1)])
        scores.finish(1, 1)
        while backend.fails:
            time.sleep(0.001)
        exporter.export([a_span(2)])
        scores.finish(1, 2)
        assert [span.name for span in backend.wait_for(1)] == ["2"]
    assert "held spans could not be exported" in caplog.text


def test_an_exporter_is_called_by_one_thread_at_a_time_and_is_not_traced() -> None:
    with holding(limit=50) as (backend, scores, exporter):
        together = threading.Barrier(4)

        def work(first: int) -> None:
            together.wait()
            for number in range(first, first + 100):
                scores.expect(1, number)
                exporter.export([a_span(number)])
                scores.add(1, number, "quick", 1, {"score": float(number)})
                scores.finish(1, number)

        threads = [threading.Thread(target=work, args=(first,)) for first in (1_000, 2_000, 3_000, 4_000)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        exporter.force_flush()
        found = Counter(backend.names)
        assert len(found) == 400
        assert set(found.values()) == {1}
        assert not backend.overlapped
        assert not backend.traced


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_leaves_what_is_held_to_its_parent() -> None:
    with holding() as (backend, scores, exporter):
        scores.expect(1, 1)
        exporter.export([a_span(1)])
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            answer = b"failed"
            try:
                exporter.after_fork()
                scores.expect(1, 2)
                exporter.export([a_span(2)])
                held = exporter.held
                scores.finish(1, 2)
                answer = repr((held, [span.name for span in backend.wait_for(1)])).encode()
            finally:
                os.write(writing, answer)
                os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            assert pipe.read() == b"(1, ['2'])"
        os.waitpid(pid, 0)
        scores.finish(1, 1)
        assert [span.name for span in backend.wait_for(1)] == ["1"]


# --- every span leaves once ---

ACTS = st.lists(
    st.tuples(st.sampled_from(["expect", "export", "add", "finish", "flush"]), st.integers(1, 8)), max_size=40
)


@settings(max_examples=40, deadline=None)
@given(ACTS, st.integers(1, 4), st.randoms(use_true_random=False))
def test_whatever_happens_in_whatever_order_every_span_leaves_once(
    acts: list[tuple[str, int]], limit: int, rng: random.Random
) -> None:
    with holding(limit=limit) as (backend, scores, exporter):
        exported: list[str] = []
        for act, number in acts:
            match act:
                case "expect":
                    scores.expect(1, number)
                case "export" if str(number) not in exported:
                    exported.append(str(number))
                    exporter.export([a_span(number)])
                case "add":
                    scores.add(1, number, "quick", 1, {"score": float(number)})
                case "finish":
                    scores.finish(1, number)
                case "flush":
                    exporter.force_flush()
            assert exporter.held <= limit
        exporter.force_flush()
        assert Counter(backend.names) == Counter(exported)
        assert all(score_of(span) in (None, float(span.name)) for span in backend.spans)


# --- scores by span, only for announced spans ---


def listened(exporters: int = 1) -> tuple[PendingScores, list[Any]]:
    """Scores that exporters wait for, and what these are told."""
    scores, told = PendingScores(), list[Any]()
    for _ in range(exporters):
        scores.listen(told.append)
    return scores, told


def test_a_span_waits_from_its_announcement_until_its_scores_are_complete() -> None:
    scores, told = listened()
    scores.add(1, 2, "quick", 1, {"score": 1.0})
    scores.finish(1, 2)
    assert (scores.take((1, 2), 5), told) == ({}, []), "not announced"
    scores.expect(1, 1)
    scores.add(1, 1, "quick", 1, {"score": 0.5})
    assert scores.take((1, 1), 5) is None
    scores.finish(1, 1)
    assert told == [(1, 1)]
    assert [scores.take((1, 1), 5) for _ in range(2)] == [{"score": 0.5}, {}], "forgotten once taken"


def test_scores_of_an_earlier_revision_do_not_replace_later_ones() -> None:
    """A check that ends late must not overwrite the check after it."""
    scores, _ = listened()
    scores.expect(1, 1)
    scores.add(1, 1, "quick", 2, {"score": 1.0})
    scores.add(1, 1, "quick", 1, {"score": 0.0, "label": "early"})
    scores.add(1, 1, "slow", 1, {"other": 0.5})
    assert scores.take((1, 1), 5, anyway=True) == {"score": 1.0, "other": 0.5}


def test_spans_that_ended_by_a_moment_may_pass_and_all_once_closed() -> None:
    scores, told = listened()
    for number in (1, 2):
        scores.expect(1, number)
    scores.let_pass(10)
    assert (scores.take((1, 1), 10), scores.take((1, 2), 11)) == ({}, None)
    scores.close()
    assert (scores.take((1, 2), 11), told) == ({}, [None, None])
    scores.expect(1, 3)
    assert scores.take((1, 3), 12) == {}


def test_spans_wait_for_their_scores_after_the_clock_was_set_back() -> None:
    scores, _ = listened()
    scores.expect(1, 1)
    scores.let_pass(time.time_ns() + 3_600 * 10**9)
    assert scores.take((1, 1), time.time_ns()) is None


def test_announced_spans_that_never_come_are_forgotten_oldest_first() -> None:
    scores, _ = listened()
    for number in range(1, 10_002):
        scores.expect(1, number)
    assert scores.take((1, 1), 5) == {}, "forgotten: it passes"
    assert scores.take((1, 10_001), 5) is None, "known: it waits"


# --- exporters that fail, and spans that lost something ---


def test_a_span_with_scores_still_tells_what_its_limits_dropped() -> None:
    limits = SpanLimits(max_span_attributes=1, max_events=1, max_links=1)
    span = TracerProvider(span_limits=limits).get_tracer("app").start_span("agent")
    span.set_attributes({"a": 1, "b": 2})
    span.add_event("first")
    span.add_event("second")
    span.end()
    assert isinstance(span, ReadableSpan)
    context = span.get_span_context()
    with holding() as (backend, scores, exporter):
        scores.expect(context.trace_id, context.span_id)
        exporter.export([span])
        scores.add(context.trace_id, context.span_id, "quick", 1, {"score": 0.5})
        scores.finish(context.trace_id, context.span_id)
        (judged,) = backend.wait_for(1)
    assert score_of(judged) == 0.5
    assert (judged.dropped_attributes, judged.dropped_events, judged.dropped_links) == (1, 1, 0)
    assert [event.name for event in judged.events] == [event.name for event in span.events]


def test_names_of_ours_that_this_process_did_not_write_are_dropped() -> None:
    """A processor that copies `baggage` onto spans would let any sender write scores.

    Those that it did write pass the hold of an earlier configuration, which has a slow exporter.
    """
    with holding() as (backend, _, earlier):
        scores = PendingScores()
        exporter = ScoringSpanExporter(earlier, scores)
        for number in (1, 2):
            scores.expect(1, number)
        scores.add(1, 1, "quick", 1, {"otel_evals.score.quick": 0.5})
        for number in (1, 2):
            scores.finish(1, number)
        fake = {"otel_evals.score.quick": 1.0, "otel_evals.score.quick.verdict": "allow", "kept": 1}
        spans = [a_span(number, attributes=fake) for number in (1, 2, 3)]
        exporter.export(spans)
        found = [dict(span.attributes or {}) for span in backend.spans]
        assert found == [{"kept": 1, "otel_evals.score.quick": 0.5}, {"kept": 1}, {"kept": 1}]
        marks = {"otel_evals.internal": True, "otel_evals.internal.proof": proof_of(f"{1:032x}", f"{4:016x}")}
        exporter.export([a_span(4, attributes=marks)])
        assert dict(backend.spans[-1].attributes or {}) == marks, "the mark of this deployment"


def test_a_span_that_is_sent_twice_leaves_twice() -> None:
    with holding() as (backend, scores, exporter):
        scores.expect(1, 1)
        exporter.export([a_span(1)])
        exporter.export([a_span(1)])
        backend.wait_for(1)
        assert exporter.held == 1
        scores.add(1, 1, "s", 0, {"score": 0.5})
        scores.finish(1, 1)
        assert [(span.name, score_of(span)) for span in backend.wait_for(2)] == [("1", None), ("1", 0.5)]


def test_while_no_thread_can_be_started_spans_pass_and_afterwards_they_are_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At the limit of threads, a batch must neither be lost nor kept for ever."""
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name.startswith("otel-evals"):
            raise RuntimeError("can't start new thread")
        start(thread)

    with holding() as (backend, scores, exporter):
        for number in (1, 2):
            scores.expect(1, number)
        scores.add(1, 1, "quick", 1, {"score": 0.5})
        monkeypatch.setattr(threading.Thread, "start", refuse)
        assert exporter.export([a_span(1), a_span(3)]) is SpanExportResult.SUCCESS
        assert [(s.name, score_of(s)) for s in backend.spans] == [("1", 0.5), ("3", None)]
        assert exporter.held == 0
        monkeypatch.setattr(threading.Thread, "start", start)
        exporter.export([a_span(2)])
        assert exporter.held == 1
        scores.add(1, 2, "quick", 1, {"score": 1.0})
        scores.finish(1, 2)
        assert score_of(backend.wait_for(3)[-1]) == 1.0
