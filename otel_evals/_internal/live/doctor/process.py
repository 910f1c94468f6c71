"""What is wrong in this process: providers, exporters, instrumentations, and what became of the runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

from opentelemetry import trace

from otel_evals._internal.live.adoption import Described, describe, same_provider
from otel_evals._internal.live.doctor.findings import Finding
from otel_evals._internal.live.providers import Providers, goes_nowhere
from otel_evals._internal.pipeline.pipeline import Pipeline

_OPENINFERENCE = {
    "agents": ("openai-agents", "OpenAIAgentsInstrumentor"),
    "langchain": ("langchain", "LangChainInstrumentor"),
    "crewai": ("crewai", "CrewAIInstrumentor"),
    "llama_index": ("llama-index", "LlamaIndexInstrumentor"),
    "openai": ("openai", "OpenAIInstrumentor"),
    "anthropic": ("anthropic", "AnthropicInstrumentor"),
}
"""By module: the instrumentation's package, after `openinference-instrumentation-`, and its class."""
_BY_HAND = "see docs/instrument.md for an agent without a framework"
_CONFIGURE = "otel_evals.configure(rules=[answered()])  # or OTEL_EVALS_CONFIG and opentelemetry-instrument"


def check_process(pipeline: Pipeline | None, used: Providers) -> Iterator[Finding]:
    """Look at everything in this process.

    Args:
        pipeline: what is configured.
        used: the providers that it is connected to.
    """
    yield from _check_environment()
    if pipeline is None:
        yield Finding(
            check="configure", status="problem", text="nothing is configured in this process", fix=_CONFIGURE
        )
        return
    yield from _check_rules(pipeline)
    yield from _check_provider(used.tracers)
    yield from _check_exporters(pipeline, describe(used.tracers))
    yield from _check_signals(pipeline, used)
    yield from _check_spans(pipeline)
    yield from _check_outcomes(pipeline)


def likely_cause(pipeline: Pipeline, used: Providers) -> Finding | None:
    """Why nothing was seen, if there is anything that tells; None where there may have been no traffic."""
    found = [*_check_environment(), *_check_rules(pipeline), *_check_provider(used.tracers)]
    found += [finding for finding in _check_spans(pipeline) if finding.check == "instrumentation"]
    if not pipeline.dialects.unclaimed():  # no span at all: the application may be idle
        found = [finding for finding in found if finding.check != "instrumentation"]
    return next((finding for finding in found if finding.status == "problem"), None)


def _check_environment() -> Iterator[Finding]:
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        yield Finding(
            check="environment",
            status="problem",
            text="OTEL_SDK_DISABLED=true switches all of OpenTelemetry off",
            fix="unset OTEL_SDK_DISABLED",
        )


def _check_rules(pipeline: Pipeline) -> Iterator[Finding]:
    rules = pipeline.config.rules
    if not rules:
        yield Finding(check="rules", status="problem", text="there is no rule", fix="rules=[answered()]")
    elif pipeline.config.ceiling <= 0:
        samplers = ", ".join(f"{rule.name} {rule.sample}" for rule in rules)
        text = f"no rule can sample any run: {samplers}"
        yield Finding(check="rules", status="problem", text=text, fix="sample: ratio(0.1)")
    else:
        yield Finding(check="rules", status="fine", text=", ".join(rule.name for rule in rules))


def _check_provider(tracers: Any) -> Iterator[Finding]:
    current = trace.get_tracer_provider()
    if not isinstance(current, trace.ProxyTracerProvider) and not same_provider(current, tracers):
        name = f"{type(current).__module__}.{type(current).__qualname__}"
        text = f"the global tracer provider is another one than that which is scored: {name}"
        fix = "otel_evals.configure(...) after the library that sets it, or with tracer_provider="
        yield Finding(check="tracer_provider", status="note", text=text, fix=fix)
    if _mlflow_keeps_apart(tracers):
        yield Finding(
            check="tracer_provider",
            status="problem",
            text="MLflow records its spans with a tracer provider of its own, which is not scored",
            fix="MLFLOW_USE_DEFAULT_TRACER_PROVIDER=false, or tracer_provider=get_bridged_tracer_provider()",
        )
    sampler = getattr(tracers, "sampler", None)
    words = str(getattr(sampler, "get_description", lambda: "")())
    if "AlwaysOff" in words.split("remote")[0] or "TraceIdRatioBased{0.0}" in words or "{0}" in words:
        yield Finding(
            check="tracer_provider",
            status="problem",
            text=f"its sampler records no trace: {words}",
            fix="OTEL_TRACES_SAMPLER=parentbased_always_on",
        )


def _mlflow_keeps_apart(tracers: Any) -> bool:
    """Whether MLflow traces, and with another provider."""
    tracing = getattr(sys.modules.get("mlflow.tracing.provider"), "provider", None)
    own = getattr(tracing, "get", lambda: None)()
    return hasattr(own, "add_span_processor") and not same_provider(own, tracers)


def _check_exporters(pipeline: Pipeline, processors: list[Described]) -> Iterator[Finding]:
    if not any(each.exporter for each in processors):
        yield Finding(
            check="exporters",
            status="note",
            text="spans go nowhere: the tracer provider has no exporter",
            fix="OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318, or an exporter of your own",
        )
    for each in processors:
        if each.exporter and (each.held or not pipeline.config.holds):
            yield Finding(check="exporters", status="fine", text=f"{each.exporter} in {each.processor}")
        elif each.exporter:
            text = f"spans that {each.exporter} exports carry no scores: it is not wrapped"
            yield Finding(check="exporters", status="note", text=text, fix="wrap_exporters=True")


def _check_signals(pipeline: Pipeline, used: Providers) -> Iterator[Finding]:
    config = pipeline.config
    ways = (
        ("evaluation events", config.evaluation_events, used.loggers, "LOGS", "evaluation_events=False"),
        ("metrics", config.metrics, used.meters, "METRICS", "metrics=False"),
    )
    for what, on, provider, signal, off in ways:
        if on and goes_nowhere(provider):
            variable = f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT"
            text = f"{what} go nowhere: there is no provider for them"
            fix = f"{variable}=http://localhost:4318/v1/{signal.lower()}, or {off}"
            yield Finding(check=what, status="note", text=text, fix=fix)


def _check_spans(pipeline: Pipeline) -> Iterator[Finding]:
    """Which instrumentations were seen."""
    seen, unclaimed = pipeline.stats().seen, pipeline.dialects.unclaimed()
    claimed = pipeline.dialects.claimed()
    if seen:
        names = ", ".join(claimed) or "by their attributes"
        yield Finding(check="instrumentation", status="fine", text=f"{seen} runs were seen, from {names}")
    elif claimed:
        text = f"spans of {', '.join(claimed)} came, but no run was finished: no root span has ended"
        yield Finding(check="instrumentation", status="note", text=text, fix="wait, or end the process")
    else:
        scopes = f"only from {', '.join(unclaimed)}" if unclaimed else "none at all"
        text = f"no spans of an agent or a model came; {scopes}"
        yield Finding(check="instrumentation", status="problem", text=text, fix=_instrumentation())


def _instrumentation() -> str:
    """The line that has the spans recorded of the first framework that is installed."""
    if find_spec("pydantic_ai") is not None:
        return "pydantic_ai.Agent.instrument_all()"
    for module, (package, name) in _OPENINFERENCE.items():
        if find_spec(module) is not None:
            return f"pip install openinference-instrumentation-{package}, then {name}().instrument()"
    return _BY_HAND


def _check_outcomes(pipeline: Pipeline) -> Iterator[Finding]:
    stats, health = pipeline.stats(), pipeline.health()
    if stats.seen and stats.ignored.get("trace_not_sampled") == stats.seen:
        yield Finding(
            check="runs",
            status="problem",
            text="the application's sampler sampled none of their traces",
            fix="OTEL_TRACES_SAMPLER=parentbased_always_on",
        )
    for who, setting in health.content_off.items():
        yield Finding(check="content", status="problem", text=f"{who} leaves content out", fix=setting)
    for name, rule in stats.rules.items():
        yield from _check_rule(name, rule, health.failing_rules.get(name))
    for name in health.failing_destinations:
        text = f"{name} did not accept its last batch; the log has the reason"
        yield Finding(
            check="destinations", status="problem", text=text, fix=f"start {name}, or correct its options"
        )
    for what, count in health.losses.items():
        yield Finding(check="losses", status="note", text=f"{count} {what}", fix="docs/accounting.md")


def _check_rule(name: str, rule: Any, failing: str | None) -> Iterator[Finding]:
    failed = sum(rule.failed.values())
    if failed and (failing or not rule.scored):
        kinds = ", ".join(rule.failed)
        text = f"{name} fails: {failing or f'{failed} evaluations with {kinds}'}"
        yield Finding(
            check="scorers", status="problem", text=text, fix=_FIXES.get(kinds, "see the log's traceback")
        )
    elif rule.scored:
        yield Finding(check="scorers", status="fine", text=f"{name}: {rule.scored} scores")
    elif rule.eligible and rule.not_sampled.get("not_applicable") == rule.eligible:
        text = f"{name}: its `when` excludes all of {rule.eligible} runs"
        yield Finding(check="scorers", status="problem", text=text, fix="correct `when`, or leave it out")
    elif rule.not_scored:
        reasons = ", ".join(f"{reason} {count}" for reason, count in rule.not_scored.items())
        text = f"{name} scored none of its runs: {reasons}"
        yield Finding(check="scorers", status="note", text=text, fix="docs/accounting.md has each reason")


_FIXES = {
    "JudgeKeyError": "export the key that the message names",
    "JudgeModelError": "correct `model`, as in openai/gpt-5-mini",
    "JudgeUnavailableError": "correct `api_base`, or start the judge's server",
    "BudgetExceededError": "raise the budget's `usd` or `tokens`",
    "timeout": "raise the rule's `timeout`",
}
