"""Checks in this process: providers, exporters, instrumentations, and outcomes of runs."""

from __future__ import annotations

import gc
import logging
import os
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from threading import Timer
from typing import Any, NamedTuple

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from otel_evals._internal.live.adoption import (
    Described,
    describe,
    exporters_in,
    is_captured,
    same_provider,
)
from otel_evals._internal.live.doctor.examine import SPANS, Finding, fine, note, problem
from otel_evals._internal.live.pipeline import Pipeline
from otel_evals._internal.live.providers import Providers, goes_nowhere
from otel_evals._internal.util.installed import package_hint
from otel_evals._internal.util.plain import counted

_logger = logging.getLogger(__name__)
_DOCS = "https://otel-evals.readthedocs.io/"
_BY_HAND = f"turn on your framework's instrumentation, or use @agent: {_DOCS}instrument/"
_NO_SPANS = "no spans of an agent or a model were seen in traces that a rule may sample"
BY_HAND = "provider.add_span_processor(BatchSpanProcessor(pipeline.hold(exporter)))"
"""Line that exports spans with their scores; `configure` returns the pipeline."""
_SAME_PROVIDER = "otel_evals.configure(..., tracer_provider=the one that your agent's spans come from)"
_CONFIGURE = "otel_evals.configure(rules=[answered()])  # or OTEL_EVALS_CONFIG and opentelemetry-instrument"


def check_process(pipeline: Pipeline | None, used: Providers) -> Iterator[Finding]:
    """Check the configured pipeline, and the providers that it is connected to."""
    yield from _check_environment()
    if pipeline is None:
        yield problem("configure", "nothing is configured in this process", _CONFIGURE)
        return
    yield from _check_rules(pipeline)
    yield from _check_provider(used.tracers)
    yield from _check_exporters(pipeline, describe(used.tracers))
    yield from _check_signals(pipeline, used)
    yield from _check_spans(pipeline, used)
    yield from _check_outcomes(pipeline)


def start_timer(pipeline: Pipeline, used: Providers) -> Timer:
    """Check a pipeline once, `no_traffic_after` seconds from now, on a daemon thread."""
    seconds = pipeline.config.no_traffic_after
    timer = Timer(seconds, warn_if_silent, (pipeline, used, f"in {seconds:g} s"))
    timer.name = "otel-evals-no-traffic"
    # A waiting timer must not keep the process alive.
    timer.daemon = True
    try:
        timer.start()
    except RuntimeError:
        _logger.debug("no thread is available to check for traffic")
    return timer


def warn_if_silent(pipeline: Pipeline, used: Providers, when: str) -> None:
    """Log one warning with the likely cause if no run was seen; never raises."""
    try:
        if pipeline.stats().seen:
            return
        found = [*_check_environment(), *_check_rules(pipeline), *_check_provider(used.tracers)]
        found += _check_spans(pipeline, used)
    except Exception:
        _logger.debug("could not check for traffic", exc_info=True)
        return
    cause = next((finding for finding in found if finding.status == "problem"), None)
    # Without any span, an agent without a framework may be idle.
    if cause is None or (cause.fix == _BY_HAND and not pipeline.conventions.unclaimed()):
        _logger.info("otel-evals saw no run %s", when)
    else:
        fix = cause.fix.replace("\nor ", ", or ").replace("\n", " and ")
        _logger.warning("otel-evals saw no run %s: %s; fix: %s", when, cause.text, fix)


def _check_environment() -> Iterator[Finding]:
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        text = "OTEL_SDK_DISABLED=true disables all of OpenTelemetry"
        yield problem("environment", text, "unset OTEL_SDK_DISABLED")


def _check_rules(pipeline: Pipeline) -> Iterator[Finding]:
    rules = pipeline.config.rules
    if not rules:
        yield problem("rules", "there is no rule", "rules=[answered()]")
    elif pipeline.config.ceiling <= 0:
        samplers = ", ".join(f"{rule.name} {rule.sampling.words}" for rule in rules)
        yield problem("rules", f"no rule can sample any run: {samplers}", "sample: ratio(0.1)")
    else:
        yield fine("rules", ", ".join(rule.name for rule in rules))


def _check_provider(tracers: Any) -> Iterator[Finding]:
    current = trace.get_tracer_provider()
    if not isinstance(current, trace.ProxyTracerProvider) and not same_provider(current, tracers):
        name = f"{type(current).__module__}.{type(current).__qualname__}"
        text = f"the global tracer provider is not the one that is scored: {name}"
        yield note("tracer_provider", text, _SAME_PROVIDER)
    if _mlflow_has_another(tracers):
        yield problem(
            "tracer_provider",
            "MLflow records its spans with a separate tracer provider, which is not scored",
            "otel_evals.configure(..., tracer_provider=get_bridged_tracer_provider())"
            "  # from mlflow.tracing.provider",
        )
    sampler = getattr(tracers, "sampler", None)
    words = str(getattr(sampler, "get_description", lambda: "")())
    # A parent-based sampler describes its sampler of roots first, then the ones for remote parents.
    if "AlwaysOff" in words.split("remote")[0] or "TraceIdRatioBased{0.0}" in words or "{0}" in words:
        text = f"its sampler records no trace: {words}"
        yield problem("tracer_provider", text, "OTEL_TRACES_SAMPLER=parentbased_always_on")


def _mlflow_has_another(tracers: Any) -> bool:
    tracing = getattr(sys.modules.get("mlflow.tracing.provider"), "provider", None)
    own = getattr(tracing, "get", lambda: None)()
    return hasattr(own, "add_span_processor") and not same_provider(own, tracers)


def _check_exporters(pipeline: Pipeline, processors: list[Described]) -> Iterator[Finding]:
    if not processors:
        fix = "OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318, or your own exporter"
        yield note("exporters", "spans are not exported: the tracer provider has no exporter", fix)
    for each in processors:
        if each.exporter and (each.held or not pipeline.config.holds):
            yield fine("exporters", f"{each.exporter} in {each.processor}")
        elif each.exporter:
            text = f"spans that {each.exporter} exports carry no scores: it is not wrapped"
            yield note("exporters", text, "wrap_exporters=True")
        else:
            text = f"no exporter was found in {each.processor}: spans that it exports carry no scores"
            yield note("exporters", text, BY_HAND)


def _check_signals(pipeline: Pipeline, used: Providers) -> Iterator[Finding]:
    config = pipeline.config
    ways = (
        ("evaluation events", config.evaluation_events, used.loggers, "LOGS", "evaluation_events=False"),
        ("metrics", config.metrics, used.meters, "METRICS", "metrics=False"),
    )
    for what, on, provider, signal, off in ways:
        if on and goes_nowhere(provider):
            variable = f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT"
            fix = f"{variable}=http://localhost:4318/v1/{signal.lower()}, or {off}"
            yield note(what, f"{what} are not exported: there is no provider for them", fix)


def _check_spans(pipeline: Pipeline, used: Providers) -> Iterator[Finding]:
    seen, unclaimed = pipeline.stats().seen, pipeline.conventions.unclaimed()
    claimed = ", ".join(pipeline.conventions.claimed())
    names = claimed or "unnamed instrumentations"
    if seen:
        yield fine(SPANS, f"{counted(seen, 'run')} seen, from {names}")
    elif claimed or pipeline.spans.in_run:
        text = f"spans of {names} were seen, but no run: no root span has ended"
        yield note(SPANS, text, "wait, or end the process")
    else:
        scopes = f", only of {', '.join(unclaimed)}" if unclaimed else ""
        yield _without_spans(f"{_NO_SPANS}{scopes}", used)


def _without_spans(text: str, used: Providers) -> Finding:
    found = imported_frameworks()
    off = [each for each in found if not each.on]
    others = _not_scored(used)
    if off:
        names = " and ".join(each.name for each in off)
        text += f"; {names} {'is' if len(off) == 1 else 'are'} imported, but not instrumented"
        return problem(SPANS, text, "\n".join(each.line for each in off))
    if others:
        text += f"; this process has another tracer provider, which is not scored: {', '.join(others)}"
        fix = "trace.set_tracer_provider(PROVIDER) with that provider, or configure(tracer_provider=PROVIDER)"
        return problem(SPANS, text, fix)
    if found:
        return note(SPANS, f"{text}; the instrumentation is on", "send requests to the agent")
    return problem(SPANS, f"{text}; no agent framework is imported", _BY_HAND)


def _not_scored(used: Providers) -> list[str]:
    """Return the SDK's tracer providers that spans may go to instead, each with its exporters."""
    providers = [each for each in gc.get_objects() if issubclass(type(each), TracerProvider)]
    return [
        " and ".join(
            type(getattr(e, "_own", e)).__name__ for *_, e, _ in exporters_in(each._active_span_processor)
        )
        or "without an exporter"
        for each in providers
        if not is_captured(each) and each is not used.evaluations
    ]


def _check_outcomes(pipeline: Pipeline) -> Iterator[Finding]:
    stats, health = pipeline.stats(), pipeline.health()
    if stats.seen and stats.ignored.get("trace_not_sampled") == stats.seen:
        fix = "OTEL_TRACES_SAMPLER=parentbased_always_on"
        yield problem("runs", "the application's sampler sampled none of their traces", fix)
    for who, setting in health.content_off.items():
        yield problem("content", f"{who} leaves content out", setting)
    for name, rule in stats.rules.items():
        yield from _check_rule(name, rule, health.failing_rules.get(name))
    for name in health.failing_destinations:
        text = f"{name} did not accept its last batch; the log has the reason"
        yield problem("destinations", text, f"start {name}, or correct its options")
    for what, count in health.losses.items():
        yield note("losses", f"{count} {what}", f"{_DOCS}accounting/")


def _check_rule(name: str, rule: Any, failing: str | None) -> Iterator[Finding]:
    failed = sum(rule.failed.values())
    if failed and (failing or not rule.scored):
        kinds = ", ".join(rule.failed)
        text = f"{name} fails: {failing or counted(failed, 'evaluation') + ' with ' + kinds}"
        yield problem("scorers", text, _FIXES.get(kinds, "see the log's traceback"))
    elif rule.scored:
        yield fine("scorers", f"{name}: {counted(rule.scored, 'score')}")
    elif rule.eligible and rule.not_sampled.get("not_applicable") == rule.eligible:
        text = f"{name}: its `when` excluded all of {counted(rule.eligible, 'run')}"
        yield problem("scorers", text, "correct `when`, or leave it out")
    elif rule.not_scored:
        reasons = ", ".join(f"{reason} {count}" for reason, count in rule.not_scored.items())
        yield note("scorers", f"{name} scored none of its runs: {reasons}", f"{_DOCS}accounting/#reasons")


_FIXES = {
    "JudgeKeyError": "export the key that the message names",
    "JudgeModelError": "correct `model`, as in openai/gpt-5-mini",
    "JudgeUnavailableError": "correct `api_base`, or start the judge's server",
    "BudgetExceededError": "raise the budget's `usd` or `tokens`",
    "timeout": "raise the rule's `timeout`",
}

# Agent frameworks that this process has imported, and the line that turns on the spans of each.

_FRAMEWORKS = {
    "langgraph": ("LangGraph", "langchain", "LangChain"),
    "langchain_core": ("LangChain", "langchain", "LangChain"),
    "agents.tracing": ("OpenAI Agents", "openai_agents", "OpenAIAgents"),
    "claude_agent_sdk": ("Claude Agent SDK", "claude_agent_sdk", "ClaudeAgentSDK"),
    "crewai": ("CrewAI", "crewai", "CrewAI"),
    "llama_index.core": ("LlamaIndex", "llama_index", "LlamaIndex"),
    "smolagents": ("smolagents", "smolagents", "Smolagents"),
    "autogen_agentchat": ("AutoGen", "autogen_agentchat", "AutogenAgentChat"),
    "agno": ("Agno", "agno", "Agno"),
    "dspy": ("DSPy", "dspy", "DSPy"),
    "haystack": ("Haystack", "haystack", "Haystack"),
}
_CLIENTS = {
    "openai": ("the OpenAI client", "openai", "OpenAI"),
    "anthropic": ("the Anthropic client", "anthropic", "Anthropic"),
    "google.genai": ("the Google GenAI client", "google_genai", "GoogleGenAI"),
    "mistralai": ("the Mistral client", "mistralai", "MistralAI"),
    "groq": ("the Groq client", "groq", "Groq"),
}
"""By module: name, OpenInference's module, and the first part of its class."""
_RECORD_BY_THEMSELVES = {"google.adk": "Google ADK", "strands": "Strands Agents"}
_SPACES = ("openinference.instrumentation.", "opentelemetry.instrumentation.")


class Framework(NamedTuple):
    name: str
    line: str
    """Python that turns its spans on, and the package to install if it is missing."""
    on: bool
    """True if an instrumentation of it is loaded."""


def imported_frameworks() -> list[Framework]:
    """Return the frameworks in `sys.modules`; clients of models only if there is no framework."""
    found = [_by_openinference(*_FRAMEWORKS[module]) for module in _FRAMEWORKS if _imported(module)]
    if _imported("pydantic_ai"):
        on = bool(getattr(getattr(sys.modules["pydantic_ai"], "Agent", None), "_instrument_default", False))
        found.append(Framework("pydantic-ai", "pydantic_ai.Agent.instrument_all()", on))
    found += [Framework(name, "", True) for m, name in _RECORD_BY_THEMSELVES.items() if _imported(m)]
    if not found:
        found = [_by_openinference(*_CLIENTS[module]) for module in _CLIENTS if _imported(module)]
    # Of several with the same line the first stays, and so does the order.
    return list({each.line: each for each in reversed(found)}.values())[::-1]


def _imported(module: str) -> bool:
    judges = sys.modules.get("otel_evals._internal.judges.litellm")  # loads much, if it is not yet
    return module in sys.modules and module not in getattr(judges, "OWN_IMPORTS", ())


def _by_openinference(name: str, package: str, prefix: str) -> Framework:
    module, kind = f"{_SPACES[0]}{package}", f"{prefix}Instrumentor"
    line = f"from {module} import {kind}; {kind}().instrument()"
    if not _is_installed(module):
        distribution = f"{_SPACES[0]}{package}".replace(".", "-").replace("_", "-")
        line += f"  # {package_hint(distribution)}"
    # Without importing it, which could load the whole framework.
    made = getattr(sys.modules.get(module), kind, None)
    on = made is not None and made().is_instrumented_by_opentelemetry
    return Framework(name, line, on or _other_is_loaded(package))


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ImportError:  # a parent package is missing
        return False


def _other_is_loaded(package: str) -> bool:
    """Return True if OpenTelemetry's or Traceloop's instrumentation of the same package is loaded."""
    plain = package.replace("_", "")
    loaded = (name for name in sys.modules.copy() if name.startswith(_SPACES[1]))
    return any(name.removeprefix(_SPACES[1]).replace("_", "").startswith(plain) for name in loaded)
