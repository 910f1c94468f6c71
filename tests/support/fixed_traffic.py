"""Agent traffic whose times, tokens and cost are always the same, scored or not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import set_span_in_context

import otel_evals
from otel_evals import Run, Score, scorer
from otel_evals._internal.scorers.kit.prompt import PromptStep, ScoreReply
from otel_evals.judges import JudgeReply, JudgeRequest
from otel_evals.model import Usage
from otel_evals.scorers import step_scorer
from tests.support.auto_judge import AutoJudge
from tests.support.traffic import said

__all__ = ["RUNS", "issue", "provider_for", "start_scoring"]

RUNS = 8
_MILLISECOND = 1_000_000
_TOKENS = {
    "gen_ai.usage.input_tokens": 50_000,
    "gen_ai.usage.output_tokens": 20_000,
    "llm.token_count.prompt": 50_000,
    "llm.token_count.completion": 20_000,
    "llm.token_count.total": 70_000,
}


class Expensive(AutoJudge):
    """Takes longer, and costs more, than what it judges."""

    model = "gpt-4o-mini"

    async def ask(self, request: JudgeRequest) -> JudgeReply:
        """Answer after a while."""
        await asyncio.sleep(0.3)
        reply = await super().ask(request)
        return replace(reply, usage=Usage(input_tokens=5_000, output_tokens=3_000), cost=0.5)


class Refusing(AutoJudge):
    """Refuses for good."""

    async def ask(self, request: JudgeRequest) -> JudgeReply:
        """Raise."""
        raise ValueError("no such model")


@scorer(version="1")
def answered(run: Run) -> Score:
    """Return 1 with the label of the built-in scorer."""
    return Score(value=float(bool(run.output)), label="answered" if run.output else "no_answer")


@scorer(version="1")
def broken(run: Run) -> bool:
    """Never."""
    raise KeyError("total")


def _asks(name: str, judge: Any) -> Any:
    step = PromptStep(prompt="How good is this? $output", schema=ScoreReply)
    return step_scorer(id=name, judge=judge, version="1").generate_score(step)


def provider_for(name: str, url: str, headers: Mapping[str, str] | None = None) -> TracerProvider:
    """A provider of a service and a project of that name, exporting by OTLP over HTTP."""
    provider = TracerProvider(
        resource=Resource({"service.name": name, "openinference.project.name": name}), shutdown_on_exit=False
    )
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(url, headers=dict(headers or {}))))
    return provider


def start_scoring(provider: TracerProvider, **options: Any) -> None:
    """Score with code and with judges, one of each failing."""
    rules = [answered, broken, _asks("asked", Expensive()), _asks("refused", Refusing())]
    otel_evals.configure(rules=rules, tracer_provider=provider, metrics=False, **options)


def issue(provider: TracerProvider) -> None:
    """Eight runs of 100 to 107 ms with one inference of 59 ms; then everything is scored and exported."""
    tracer = provider.get_tracer("shop")
    start = time.time_ns() - 2_000 * _MILLISECOND
    for number in range(RUNS):
        begin = start + number * _MILLISECOND
        agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "support"}
        root = tracer.start_span("invoke_agent support", attributes=agent, start_time=begin)
        root.set_attribute("openinference.span.kind", "AGENT")
        root.set_attribute("gen_ai.input.messages", said("user", "What does order 1042 cost?"))
        root.set_attribute("gen_ai.output.messages", said("assistant", "It costs $15.20."))
        model = {"gen_ai.request.model": "gpt-4o-mini", "llm.model_name": "gpt-4o-mini"}
        kind = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", **model, **_TOKENS}
        inference = tracer.start_span(
            "chat", set_span_in_context(root), attributes=kind, start_time=begin + _MILLISECOND
        )
        inference.set_attribute("openinference.span.kind", "LLM")
        inference.end(begin + 60 * _MILLISECOND)
        root.end(begin + (100 + number) * _MILLISECOND)
    otel_evals.force_flush(100_000)
    otel_evals.shutdown()
    provider.shutdown()
