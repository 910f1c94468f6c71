"""Capture: what is handed to the engine, which span is a root, and that the application notices nothing."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from opentelemetry import baggage, trace
from opentelemetry._logs import LogRecord
from opentelemetry.context import Context
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.sampling import Decision, Sampler, SamplingResult
from opentelemetry.trace import (
    NonRecordingSpan,
    Span,
    SpanContext,
    TraceFlags,
    TraceState,
    set_span_in_context,
)

from otel_evals import sampling, semconv
from otel_evals._internal.capture.backlog import Backlog
from otel_evals._internal.capture.items import CapturedItem, CapturedLog, CapturedSpan
from otel_evals._internal.capture.processors import CaptureLogRecords, CaptureSpans
from otel_evals._internal.sampling.consistent import credible_state
from otel_evals._internal.trust.keys import signature
from otel_evals._internal.trust.marks import mark
from otel_evals.conventions import Conventions, load_conventions

KNOWN_CONVENTIONS = load_conventions()
CLAIMED = {"gen_ai.operation.name": "chat"}


class Collected:
    """An intake that keeps what it is given."""

    def __init__(self) -> None:
        self.items: list[CapturedItem] = []
        self.backlog = Backlog(1, 1)

    def put(self, item: CapturedItem, ends_run: bool = False) -> None:
        self.items.append(item)

    @property
    def spans(self) -> list[CapturedSpan]:
        return [item for item in self.items if isinstance(item, CapturedSpan)]

    @property
    def names(self) -> list[str]:
        return [item.span.name for item in self.spans]

    @property
    def owners(self) -> dict[str, int]:
        return {item.span.name: item.owner for item in self.spans}


class App:
    """A tracer provider whose spans are captured."""

    def __init__(
        self, ceiling: float = 1.0, conventions: Conventions = KNOWN_CONVENTIONS, **options: Any
    ) -> None:
        self.intake = Collected()
        self.capture = CaptureSpans(self.intake, conventions, ceiling, **options)
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(self.capture)
        self.tracer = self.provider.get_tracer("app")
        self.http = self.provider.get_tracer("opentelemetry.instrumentation.httpx")

    @contextmanager
    def claimed(self, name: str) -> Iterator[Span]:
        with self.tracer.start_as_current_span(name, attributes=CLAIMED) as span:
            yield span


def id_of(span: Span) -> int:
    return span.get_span_context().span_id


def remote(trace_id: int, state: str = "", span_id: int = 7) -> Any:
    """A context below a span of another process."""
    parent = SpanContext(
        trace_id,
        span_id,
        is_remote=True,
        trace_flags=TraceFlags(1),
        trace_state=TraceState.from_header([state]),
    )
    return set_span_in_context(NonRecordingSpan(parent))


# --- what is captured, and below whom ---


def test_claimed_spans_are_handed_over_as_they_end_and_others_are_not() -> None:
    app = App()
    with app.tracer.start_as_current_span("plain"), app.claimed("agent"):
        with app.http.start_as_current_span("POST", attributes=CLAIMED):
            pass
        with app.claimed("chat"):
            pass
    assert app.intake.names == ["chat", "agent"]


def test_the_owner_is_the_nearest_claimed_span_that_is_still_open() -> None:
    app = App()
    with app.tracer.start_as_current_span("server"), app.claimed("agent") as agent:
        with app.http.start_as_current_span("POST"), app.claimed("chat"):
            pass
        late = app.tracer.start_span("late", attributes=CLAIMED)
    late.end()
    assert app.intake.owners == {"chat": id_of(agent), "agent": 0, "late": 0}


def test_attributes_that_come_after_the_start_claim_a_span() -> None:
    app = App()
    with app.tracer.start_as_current_span("agent") as agent:
        with app.claimed("early"):
            pass
        agent.set_attributes(CLAIMED)
        with app.claimed("chat"):
            pass
    assert app.intake.owners == {"early": 0, "chat": id_of(agent), "agent": 0}


TREES = st.lists(st.tuples(st.integers(0, 30), st.booleans()), min_size=1, max_size=20)


@settings(max_examples=60, deadline=None)
@given(TREES, st.randoms(use_true_random=False))
def test_any_tree_in_any_order_of_ends_finds_its_owners(
    tree: list[tuple[int, bool]], rng: random.Random
) -> None:
    """Each span is started below any earlier one that is still open; they end in any order."""
    app = App()
    spans: list[Span] = []
    above: list[int | None] = []
    claimed = [is_claimed for _, is_claimed in tree]
    for number, (choice, is_claimed) in enumerate(tree):
        parent = choice % number if number and choice < 25 else None
        context = set_span_in_context(spans[parent]) if parent is not None else trace.Context()
        attributes = CLAIMED if is_claimed else None
        spans.append(app.tracer.start_span(str(number), context, attributes=attributes))
        above.append(parent)
    is_open, expected = set(range(len(spans))), {}
    for number in rng.sample(range(len(spans)), len(spans)):
        is_open.discard(number)
        parent = above[number]
        while parent is not None and parent in is_open and not claimed[parent]:
            parent = above[parent]
        if claimed[number]:
            expected[str(number)] = id_of(spans[parent]) if parent is not None and parent in is_open else 0
        spans[number].end()
    assert app.intake.owners == expected


def test_expected_are_roots_and_with_nested_targets_every_claimed_span() -> None:
    for nested, wanted in ((False, ["agent"]), (True, ["chat", "agent"])):
        expected: list[tuple[int, int]] = []
        app = App(expect=lambda *ids, into=expected: into.append(ids), nested_targets=nested)
        with app.tracer.start_as_current_span("server"), app.claimed("agent"), app.claimed("chat"):
            pass
        ids = {s.span.context.span_id: s.span.name for s in app.intake.spans if s.span.context}
        assert [ids[span_id] for _, span_id in expected] == wanted
        assert {trace_id for trace_id, _ in expected} == {app.intake.spans[0].span.context.trace_id}  # type: ignore[union-attr]


# --- what no rule can sample ---


@settings(max_examples=40, deadline=None)
@given(
    st.floats(0, 1), st.integers(1, 2**128 - 1), st.sampled_from(["", "ot=th:8", "ot=th:4;rv:90000000000000"])
)
@example(1.0, 1, "ot=th:8")
def test_only_traces_that_the_ceiling_may_sample_are_looked_at(
    ceiling: float, trace_id: int, state: str
) -> None:
    app = App(ceiling, trust_remote=True)
    with app.tracer.start_as_current_span("server", remote(trace_id, state)), app.claimed("agent"):
        pass
    # With a ceiling of 1 no trace is left out here, even one that its head sampler should have dropped.
    believed = credible_state(trace_id, state)
    picked = ceiling == 1 or sampling.is_sampled(ceiling, trace_id, believed)
    assert app.intake.names == (["agent"] if picked else [])


# --- what is ours ---


@pytest.mark.parametrize(
    "context",
    [
        lambda: mark(),
        lambda: remote(5, f"{semconv.MARK_IN_TRACE_STATE}={signature()}"),
        lambda: baggage.set_baggage(semconv.MARK, signature(), Context()),
    ],
    ids=["context", "state", "baggage"],
)
def test_marked_spans_and_all_below_them_are_never_captured(context: Callable[[], Any]) -> None:
    app = App()
    with (
        app.tracer.start_as_current_span("judge", context(), attributes=CLAIMED) as judge,
        trace.use_span(judge),
        app.claimed("below") as below,
    ):
        pass
    assert app.intake.names == []
    for span in (judge, below):
        assert isinstance(span, ReadableSpan)
        assert (span.attributes or {})[semconv.MARK] is True
    with app.claimed("after"):
        pass
    assert app.intake.names == ["after"]


FORGED = ["1", "", "0" * 32, "true", "ümlaut", signature()[:-1], signature() + "0", signature().upper() + "x"]


@pytest.mark.parametrize("value", FORGED)
@pytest.mark.parametrize("where", ["state", "baggage", "both"])
def test_a_stranger_s_mark_switches_nothing_off(value: str, where: str) -> None:
    """Anybody can write a header; what it says is counted, and said once."""
    app, context = App(), remote(5, f"vendor=x,{semconv.MARK_IN_TRACE_STATE}={value}")
    if where == "baggage":
        context = remote(5)
    if where != "state":
        context = baggage.set_baggage(semconv.MARK, value, context)
    with app.tracer.start_as_current_span("server", context), app.claimed("agent") as agent:
        pass
    assert app.intake.names == ["agent"]
    assert isinstance(agent, ReadableSpan)
    assert semconv.MARK not in (agent.attributes or {})
    told = {"mark_not_signed": 1} if app.capture.remote else {}  # no member: a value that no header can have
    assert app.capture.remote == told
    assert told or where == "state"


HIGH = (1 << 128) - 1


@pytest.mark.parametrize(
    "state",
    ["ot=th:8", "ot=th:ffffffffffffff", "ot=rv:00000000000000", "ot=th:fffffffffffff;rv:ffffffffffffff"],
)
@pytest.mark.parametrize("trace_id", [1, HIGH, 0x5555])
@pytest.mark.parametrize("ceiling", [1.0, 0.5])
def test_a_stranger_s_threshold_decides_nothing(state: str, trace_id: int, ceiling: float) -> None:
    """Neither whether the request is scored nor with which probability that goes on record."""
    app, plain = App(ceiling), App(ceiling)
    with app.tracer.start_as_current_span("server", remote(trace_id, f"a=b,{state}")), app.claimed("agent"):
        pass
    with plain.tracer.start_as_current_span("server", remote(trace_id)), plain.claimed("agent"):
        pass
    assert app.intake.names == plain.intake.names
    assert [span.record().trace_state for span in app.intake.spans] in ([], ["a=b"])
    assert app.capture.remote == {"threshold_not_trusted": 1}


def test_thresholds_of_one_s_own_head_sampler_count() -> None:
    """A trace that begins here has its tracestate from a sampler of this process."""

    class Consistent(Sampler):
        def should_sample(  # type: ignore[override]  # asked by position here
            self, context: Any, trace_id: int, name: str, kind: Any, attributes: Any, *rest: Any
        ) -> SamplingResult:
            state = TraceState([("ot", "th:8;rv:90000000000000")])
            return SamplingResult(Decision.RECORD_AND_SAMPLE, attributes, state)

        def get_description(self) -> str:
            return "consistent"

    app = App()
    tracer: Any = app.tracer
    tracer.sampler = Consistent()
    with app.claimed("agent"):
        pass
    assert [span.record().trace_state for span in app.intake.spans] == ["ot=th:8;rv:90000000000000"]
    assert app.capture.remote == {}


# --- what may not happen to the application ---


class Raises:
    backlog = Backlog(1, 1)

    def put(self, item: CapturedItem, ends_run: bool = False) -> None:
        raise RuntimeError("no capacity in this intake")


def test_nothing_is_raised_into_the_application() -> None:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(CaptureSpans(Raises(), KNOWN_CONVENTIONS, 1.0))
    with provider.get_tracer("app").start_as_current_span("agent", attributes=CLAIMED):
        pass
    capture = CaptureSpans(Raises(), KNOWN_CONVENTIONS, 0.5)
    odd: Any = ReadableSpan("no context")
    capture.on_start(odd)
    capture.on_end(odd)
    capture.on_end(None)  # type: ignore[arg-type]  # on purpose
    CaptureLogRecords(Raises(), capture.keeps).on_emit(None)  # type: ignore[arg-type]  # on purpose


@pytest.mark.slow
def test_spans_that_never_end_are_forgotten_oldest_first() -> None:
    app = App()
    first = app.tracer.start_span("first", attributes=CLAIMED)
    started = [app.tracer.start_span("never ended") for _ in range(50_000)]
    last = app.tracer.start_span("last", attributes=CLAIMED)
    assert len(started) == 50_000
    for above in (first, last):
        app.tracer.start_span("below", set_span_in_context(above), attributes=CLAIMED).end()
    first.end()
    assert [s.owner for s in app.intake.spans] == [0, id_of(last), 0], "the forgotten one itself still counts"


def test_a_forked_child_forgets_the_open_spans_of_its_parent() -> None:
    app = App()
    with app.claimed("agent"):
        app.capture.reset()
        with app.claimed("chat"):
            pass
    assert app.intake.owners == {"chat": 0, "agent": 0}


def test_a_flush_leaves_half_the_time_and_the_answer_to_the_exporters() -> None:
    flushed: list[int] = []
    closed: list[str] = []

    def flush(millis: int) -> bool:
        flushed.append(millis)
        return False

    app = App(flush=flush, close=lambda: closed.append("closed"))
    assert app.provider.force_flush(9_000)
    assert 4_000 < flushed[0] <= 4_500
    app.provider.shutdown()
    assert closed == ["closed"]


# --- log records ---


class Logs:
    """A logger whose records are captured."""

    def __init__(self, app: App) -> None:
        self.intake = Collected()
        self.provider = LoggerProvider(shutdown_on_exit=False)
        self.provider.add_log_record_processor(CaptureLogRecords(self.intake, app.capture.keeps))

    def emit(self, record: LogRecord, scope: str = "app") -> list[CapturedItem]:
        self.provider.get_logger(scope).emit(record)
        return self.intake.items


def test_an_event_in_a_span_is_handed_over_with_its_content() -> None:
    app = App()
    logs = Logs(app)
    with app.claimed("chat") as span:
        body = {"role": "user"}
        logs.emit(LogRecord(timestamp=5, event_name="gen_ai.user.message", attributes={"a": 1}, body=body))
    (item,) = logs.intake.items
    assert isinstance(item, CapturedLog)
    context = span.get_span_context()
    assert (item.trace_id, item.span_id) == (context.trace_id, context.span_id)
    event = item.event
    assert (event.name, event.time, event.attributes, event.body) == (
        "gen_ai.user.message",
        5,
        {"a": 1},
        body,
    )


def test_an_event_without_a_time_has_that_of_its_observation() -> None:
    app = App()
    logs = Logs(app)
    with app.claimed("chat"):
        logs.emit(LogRecord(observed_timestamp=7, event_name="gen_ai.choice"))
    (item,) = logs.intake.items
    assert isinstance(item, CapturedLog)
    assert item.event.time == 7


def test_an_older_event_has_its_name_in_an_attribute() -> None:
    app = App()
    logs = Logs(app)
    with app.claimed("chat"):
        (item,) = logs.emit(LogRecord(attributes={"event.name": "gen_ai.choice"}))
    assert isinstance(item, CapturedLog)
    assert item.event.name == "gen_ai.choice"


def test_other_log_records_are_passed_over() -> None:
    """Those outside spans, without a name, of ours, and of traces that no rule can sample."""
    app = App()
    logs = Logs(app)
    assert logs.emit(LogRecord(event_name="gen_ai.choice")) == []
    with app.claimed("chat"):
        assert logs.emit(LogRecord(body="just a line")) == []
        assert logs.emit(LogRecord(event_name="gen_ai.evaluation.result"), semconv.SCOPE_NAME) == []
    app = App(0.0)
    logs = Logs(app)
    with app.claimed("chat"):
        assert logs.emit(LogRecord(event_name="gen_ai.choice")) == []
    assert logs.provider.force_flush()
    logs.provider.shutdown()


def test_a_threshold_of_a_request_is_not_believed_however_many_came_while_it_was_served() -> None:
    """Whoever sends it could send ten thousand others, after which its trace is not remembered any more."""

    def requested(trace_id: int) -> Context:
        state = TraceState.from_header(["ot=th:ffffffffffff;rv:ffffffffffffff"])
        return set_span_in_context(
            NonRecordingSpan(SpanContext(trace_id, 1, True, TraceFlags(1), state)), Context()
        )

    collected, provider = Collected(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(CaptureSpans(collected, KNOWN_CONVENTIONS, 1.0))
    tracer = provider.get_tracer("server")
    server = tracer.start_span("GET /", context=requested(7))
    agent = tracer.start_span("chat", context=set_span_in_context(server), attributes=CLAIMED)
    for trace_id in range(100, 11_000):
        tracer.start_span("GET /", context=requested(trace_id)).end()
    agent.end()
    (captured,) = collected.spans
    assert captured.foreign
    assert "th" not in captured.record().trace_state
