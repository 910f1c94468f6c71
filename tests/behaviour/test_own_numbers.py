"""The application's numbers stay its own: its traces tell the same with scoring as without."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio

import otel_evals
from otel_evals import Rule, Run, scorer
from otel_evals.errors import JudgeUnavailableError
from otel_evals.judges import JudgeReply, JudgeRequest
from otel_evals.scorers import PromptStep, ScoreReply, step_scorer
from tests.support.agents import agent_run
from tests.support.auto_judge import AutoJudge

RUNS = 10


@scorer(version="1")
def answered(run: Run) -> bool:
    return bool(run.output)


@scorer(version="1")
def broken(run: Run) -> bool:
    raise KeyError("total")


class Slow(AutoJudge):
    """Takes its time."""

    async def ask(self, request: JudgeRequest) -> JudgeReply:
        await asyncio.sleep(0.2)
        return await super().ask(request)


class Refusing(AutoJudge):
    """Refuses for good."""

    async def ask(self, request: JudgeRequest) -> JudgeReply:
        raise ValueError("no such model")


def asks(name: str, judge: Any) -> Any:
    step = PromptStep(prompt="How good is this? $output", schema=ScoreReply)
    return step_scorer(id=name, judge=judge, version="1").generate_score(step)


RULES = [answered, broken, asks("asked", Slow()), asks("refused", Refusing())]


@pytest.fixture(autouse=True)
def stopped() -> Iterator[None]:
    yield
    otel_evals.shutdown()


def traffic(provider: TracerProvider, **options: Any) -> list[ReadableSpan]:
    """All spans of some runs that were scored."""
    exporter = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    otel_evals.configure(
        rules=RULES, tracer_provider=provider, **{"grace": 0.05, "metrics": False, **options}
    )
    tracer = provider.get_tracer("app")
    for _ in range(RUNS):
        agent_run(tracer)
    assert otel_evals.force_flush(100_000)
    provider.force_flush(100_000)
    return list(exporter.get_finished_spans())


def of_service(spans: list[ReadableSpan], name: str) -> list[ReadableSpan]:
    return [span for span in spans if span.resource.attributes["service.name"] == name]


def shop(**options: Any) -> TracerProvider:
    return TracerProvider(resource=Resource({"service.name": "shop"}), **options)


def check_own(spans: list[ReadableSpan]) -> None:
    """Every trace of the application is what it recorded, and nothing but scores was added."""
    traces = defaultdict(list)
    for span in spans:
        assert span.context is not None
        traces[span.context.trace_id].append(span)
    assert len(traces) == RUNS
    for trace in traces.values():
        assert sorted(s.name for s in trace) == [
            "chat m",
            "execute_tool lookup_order",
            "invoke_agent support",
        ]
        root = next(s for s in trace if s.parent is None)
        assert (root.start_time, root.end_time) == (
            min(s.start_time or 0 for s in trace),
            max(s.end_time or 0 for s in trace),
        )
        assert all(s.status.is_unset and not s.events and not s.links for s in trace)
        assert not any("usage" in key or "cost" in key for s in trace for key in s.attributes or {})


def test_by_default_only_evaluations_with_judges_have_spans_in_traces_of_their_own() -> None:
    spans = traffic(shop())
    check_own(of_service(spans, "shop"))
    evaluations = [s for s in of_service(spans, "shop-evaluations") if s.parent is None]
    assert sorted({s.name for s in evaluations}) == ["evaluate asked", "evaluate refused"]
    assert len(evaluations) == 2 * RUNS
    assert len(spans) == 3 * RUNS + 2 * len(evaluations), "each with its one step"
    judged = {s.context.span_id: s for s in spans if s.context and s.name == "invoke_agent support"}
    for span in evaluations:
        (link,) = span.links
        root, own = judged[link.context.span_id], span.context
        assert own is not None
        assert own.trace_id != link.context.trace_id
        assert own.trace_id % 2**64 == link.context.trace_id % 2**64
        if span.name == "evaluate asked":
            attributes = span.attributes or {}
            found = (root.attributes or {})["otel_evals.score.asked.evaluation_id"]
            assert attributes["otel_evals.evaluation.id"] == found


def test_an_evaluation_lasts_as_long_as_scoring_does() -> None:
    """Neither the grace before it, nor waiting for a slot, nor the backoff between attempts."""
    times = iter([JudgeUnavailableError("busy", retry_after=1.5)])

    class Busy(AutoJudge):
        async def ask(self, request: JudgeRequest) -> JudgeReply:
            if (error := next(times, None)) is not None:
                raise error
            return await super().ask(request)

    provider, exporter = shop(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    rules = [Rule(asks("busy", Busy())), Rule(asks("asked", Slow()), concurrency=1)]
    otel_evals.configure(rules=rules, tracer_provider=provider, metrics=False, grace=0.5)
    began = time.monotonic()
    for _ in range(3):
        agent_run(provider.get_tracer("app"))
    assert otel_evals.force_flush(100_000)
    spans = of_service(list(exporter.get_finished_spans()), "shop-evaluations")
    roots = [s for s in spans if s.parent is None]
    retried = [s for s in roots if (s.attributes or {})["otel_evals.evaluation.outcome"] == "retried"]
    assert (len(roots), [s.name for s in retried]) == (7, ["evaluate busy"])
    assert time.monotonic() - began > 1.5
    lasted = {s.context.span_id: ((s.end_time or 0) - (s.start_time or 0)) / 1e9 for s in roots if s.context}
    for step in spans:
        if step.parent is not None:
            inner = ((step.end_time or 0) - (step.start_time or 0)) / 1e9
            assert inner <= lasted[step.parent.span_id] + 0.01
    busy = [lasted[s.context.span_id] for s in roots if s.context and s.name == "evaluate busy"]
    assert max(busy) < 1.2, "the backoff is not in any of the attempts"


@pytest.mark.parametrize(
    ("where", "per_run"), [("same_trace", 7), (True, 3), ("off", 3)], ids=["same trace", "true", "off"]
)
def test_the_other_places(where: Any, per_run: int) -> None:
    spans = traffic(shop(), evaluation_spans=where)
    assert len(of_service(spans, "shop")) >= per_run * RUNS
    if where == "same_trace":
        assert of_service(spans, "shop-evaluations") == []
        assert all(span.status.is_unset for span in spans), "a failed scorer is no error of the application"
        failed = [s for s in spans if s.name == "evaluate broken"]
        assert {(s.attributes or {})["error.type"] for s in failed} == {"KeyError"}
    else:
        check_own(of_service(spans, "shop"))
        assert bool(of_service(spans, "shop-evaluations")) == (where is True)


def test_under_a_ratio_for_new_traces_every_evaluation_of_a_sampled_run_is_there() -> None:
    spans = traffic(shop(sampler=ParentBasedTraceIdRatio(0.5)))
    roots = [s for s in spans if s.name == "invoke_agent support"]
    evaluations = [s for s in of_service(spans, "shop-evaluations") if s.parent is None]
    assert len(evaluations) == 2 * len(roots)


def test_evaluations_may_go_to_a_provider_of_their_own() -> None:
    """For backends that take the project from the exporter and not from the resource."""
    exporter, elsewhere = (
        InMemorySpanExporter(),
        TracerProvider(resource=Resource({"service.name": "scoring"})),
    )
    elsewhere.add_span_processor(SimpleSpanProcessor(exporter))
    spans = traffic(shop(), evaluation_tracer_provider=elsewhere)
    check_own(spans)
    assert len(of_service(list(exporter.get_finished_spans()), "scoring")) == 4 * RUNS
    elsewhere.shutdown()
