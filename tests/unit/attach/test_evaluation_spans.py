"""Evaluation spans: in traces of their own, which cost the application's nothing, and only where needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import (
    ALWAYS_ON,
    DEFAULT_ON,
    ParentBased,
    ParentBasedTraceIdRatio,
    Sampler,
    TraceIdRatioBased,
)
from opentelemetry.trace import SpanContext, StatusCode, TraceState

from otel_evals._internal.attach.attacher import result_attributes
from otel_evals._internal.attach.evaluation_spans import EvaluationSpan, EvaluationSpans
from otel_evals._internal.trust.marks import is_marked, need_span
from otel_evals.model import Evaluation, Run, Score, ScorerFailure
from tests.support.replacing import replace
from tests.support.scored import OUTCOMES, SPAN, TRACE, evaluation, scored_run

RUN = replace(scored_run().run, trace_state="ot=th:8", trace_flags=1)
BY_CODE = evaluation("keyword_coverage", OUTCOMES["keyword_coverage"])
BY_JUDGE = evaluation("hallucination", OUTCOMES["hallucination"])
RESOURCE = Resource({"service.name": "shop", "host.name": "h1", "openinference.project.name": "support"})


class Service:
    """An application's tracing."""

    def __init__(self, sampler: Sampler = DEFAULT_ON, ids: IdGenerator | None = None, **options: Any) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(
            sampler=sampler, resource=RESOURCE, id_generator=ids, shutdown_on_exit=False
        )
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = self.provider.get_tracer("otel_evals")
        self.spans = EvaluationSpans(self.tracer, **options)

    def evaluate(
        self, ended: Evaluation = BY_JUDGE, run: Run = RUN, *, needed: bool = False
    ) -> EvaluationSpan:
        span = self.spans.open(run, ended.span_id, ended.scorer_id, 5)
        span.needed = span.needed or needed
        self.spans.end(span, ended, result_attributes(ended))
        return span

    @property
    def exported(self) -> Sequence[ReadableSpan]:
        return self.exporter.get_finished_spans()


def ids(span: Any) -> tuple[int, int]:
    return span.context.trace_id, span.context.span_id


# --- in a trace of its own ---


def test_its_resource_says_that_it_is_not_the_application_s() -> None:
    service = Service()
    service.evaluate()
    for span in service.exported:
        assert span.resource.attributes["service.name"] == "shop-evaluations"
        assert span.resource.attributes["openinference.project.name"] == "support-evaluations"
        assert span.resource.attributes["host.name"] == "h1"
    service.tracer.start_span("the application's").end()
    assert service.exported[-1].resource == service.provider.resource


def test_openinference_s_tracer_which_cannot_be_copied_records_it_too() -> None:
    pytest.importorskip("openinference.instrumentation")
    from openinference.instrumentation import OITracer, TraceConfig

    service = Service()
    service.spans = EvaluationSpans(OITracer(service.tracer, TraceConfig()))
    service.evaluate()
    assert {s.resource.attributes["service.name"] for s in service.exported} == {"shop-evaluations"}


def test_code_that_calls_no_judge_has_none() -> None:
    service = Service()
    service.evaluate(BY_CODE)
    service.evaluate(evaluation("x", ScorerFailure(error_type="KeyError", message="'total'")))
    span = service.spans.open(RUN, SPAN, "x", 5)
    span.get_span_context()  # as log records and exemplars read it
    service.spans.retry(span)
    service.spans.end(span, BY_CODE, {})
    assert service.exported == ()


def test_a_judge_that_was_asked_in_vain_is_told() -> None:
    """A timeout leaves no steps behind."""
    service = Service()
    span = service.spans.open(RUN, SPAN, "slow", 5)
    with trace.use_span(span):
        need_span()
    ended = evaluation("slow", ScorerFailure(error_type="timeout", message="30 s"))
    service.spans.end(span, ended, {})
    (found,) = service.exported
    assert found.status.status_code is StatusCode.ERROR
    need_span(Context())


@pytest.mark.parametrize(
    "write",
    [
        lambda span: span.set_attribute("a", 1),
        lambda span: span.set_attributes({"a": 1}),
        lambda span: span.add_event("e", {"a": 1}),
        lambda span: span.add_link(SpanContext(1, 1, False)),
        lambda span: span.record_exception(ValueError("x")),
    ],
    ids=["attribute", "attributes", "event", "link", "exception"],
)
def test_what_a_scorer_writes_on_it_is_there(write: Any) -> None:
    service = Service()
    span = service.spans.open(RUN, SPAN, "keyword_coverage", 5)
    assert span.is_recording()
    write(span)
    service.spans.end(span, BY_CODE, {})
    (found,) = service.exported
    assert len(found.links) + len(found.events) + ("a" in (found.attributes or {})) == 2


def test_an_attempt_that_is_made_again_says_so() -> None:
    service = Service()
    span = service.spans.open(RUN, SPAN, "judge", 5)
    span.needed = True
    service.spans.retry(span)
    assert (service.exported[-1].attributes or {})["otel_evals.evaluation.outcome"] == "retried"


def test_a_processor_that_raises_does_not_reach_the_scorer() -> None:
    class Refuses(SpanProcessor):
        def on_start(self, span: Any, parent_context: Context | None = None) -> None:
            raise ZeroDivisionError

    service = Service()
    service.provider.add_span_processor(Refuses())
    span = service.spans.open(RUN, SPAN, "judge", 5)
    span.set_attribute("a", 1)
    span.add_event("e")
    assert service.exported == ()


# --- sampling and the mark ---

SAMPLERS: dict[str, Sampler] = {
    "always": ALWAYS_ON,
    "parent-based": DEFAULT_ON,
    "parent-based ratio": ParentBasedTraceIdRatio(1e-9),
    "parent-based, own root": ParentBased(root=TraceIdRatioBased(0.0)),
}


@pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS)
def test_no_sampler_that_follows_the_judged_trace_loses_it(sampler: Sampler) -> None:
    """Its run was sampled and scored on purpose: a ratio for new traces must not drop nine in ten."""
    service = Service(sampler)
    for _ in range(20):
        service.evaluate()
    assert len(service.exported) == 60
    assert all("otel_evals" in span.context.trace_state for span in service.exported if span.context)


@given(st.integers(1, (1 << 128) - 1), st.floats(0, 1))
def test_a_sampler_by_trace_id_decides_alike_about_both(trace_id: int, ratio: float) -> None:
    """The application's, or that of a collector behind it, which sees the evaluation's own id."""
    sampler = TraceIdRatioBased(ratio)
    judged = replace(RUN, trace_id=f"{trace_id:032x}")
    service = Service(sampler)
    announced = service.evaluate(run=judged).get_span_context()
    kept = sampler.should_sample(None, trace_id, "x").decision.is_sampled()
    assert bool(service.exported) == kept
    assert sampler.should_sample(None, announced.trace_id, "x").decision.is_sampled() == kept


@pytest.mark.parametrize("members", [0, 1, 31, 32])
def test_the_mark_is_in_the_tracestate_however_full_it_is(members: int) -> None:
    state = TraceState([(f"k{n}", "v") for n in range(members)])
    service = Service()
    span = service.evaluate(run=replace(RUN, trace_state=state.to_header()))
    assert is_marked(Context(), span.get_span_context())
    assert all(s.context and is_marked(Context(), s.context) for s in service.exported)


def test_without_the_sdk_s_tracer_it_is_recorded_and_nothing_below_it() -> None:
    """Its ids cannot be told in advance."""

    class Other(trace.Tracer):
        def start_span(self, *args: Any, **options: Any) -> trace.Span:
            return inner.tracer.start_span(*args, **options)

        start_as_current_span = trace.NoOpTracer.start_as_current_span

    inner = Service()
    spans = EvaluationSpans(Other())
    span = spans.open(RUN, SPAN, "hallucination", 5)
    assert not span.get_span_context().trace_flags.sampled
    spans.end(span, BY_JUDGE, {})
    found = inner.exported[-1]
    assert (found.name, found.parent, len(found.links)) == ("evaluate hallucination", None, 1)


# --- in the judged trace ---


def test_in_the_same_trace_it_is_a_child_of_the_judged_span_and_never_an_error() -> None:
    service = Service(same_trace=True)
    service.evaluate(BY_CODE)
    service.evaluate(evaluation("x", ScorerFailure(error_type="KeyError", message="'total'")))
    for span in service.exported:
        assert span.parent is not None
        assert (span.parent.trace_id, span.parent.span_id) == (int(TRACE, 16), int(SPAN, 16))
        assert (span.status.status_code, span.links) == (StatusCode.UNSET, ())
        assert span.resource == service.provider.resource


@pytest.mark.parametrize("roots_too", [False, True])
def test_a_processor_that_takes_no_child_of_an_ended_span_gets_traces_of_their_own(roots_too: bool) -> None:
    """MLflow's forgets a trace when its root ends; one that takes nothing at all is not helped by that."""

    class Forgetful(SpanProcessor):
        def on_start(self, span: ReadableSpan, parent_context: Context | None = None) -> None:
            if span.parent is not None or roots_too:
                raise KeyError(None)

    service = Service(same_trace=True)
    service.provider.add_span_processor(Forgetful())
    if roots_too:
        with pytest.raises(KeyError):
            service.evaluate(BY_CODE)
        return
    service.evaluate(BY_CODE)
    service.evaluate(BY_CODE)
    assert [(s.parent, [link.context.trace_id for link in s.links]) for s in service.exported] == (
        [(None, [int(TRACE, 16)])] * 2
    )


def test_a_conversation_s_is_linked_to_all_its_runs() -> None:
    earlier = replace(RUN, trace_id="1" * 32, root_span_id="2" * 16)
    whole = replace(RUN, turns=(earlier, RUN), conversation_id="c-42")
    for same_trace, wanted in ((True, [int("1" * 32, 16)]), (False, [int("1" * 32, 16), int(TRACE, 16)])):
        service = Service(same_trace=same_trace)
        service.evaluate(evaluation("turns", Score(value=1.0)), whole, needed=True)
        (span,) = service.exported
        assert [link.context.trace_id for link in span.links] == wanted
