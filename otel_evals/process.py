"""The one configured pipeline of this process: `configure`, and what can be asked of it afterwards."""

from __future__ import annotations

import atexit
import logging
import threading
from collections.abc import Sequence
from typing import Any

from opentelemetry import _logs, metrics, trace
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider

from otel_evals.config import Config, build_config
from otel_evals.engine import Health, Stats
from otel_evals.errors import ConfigError
from otel_evals.exits import leave_at_every_exit
from otel_evals.explanation import Explanation, explain_unseen
from otel_evals.hosted import HostedPipeline
from otel_evals.inspection import trace_id_of
from otel_evals.isolation.child import is_child
from otel_evals.pipeline import Pipeline
from otel_evals.providers import Providers, make_providers
from otel_evals.signals import chain_sigterm

__all__ = ["configure", "current", "explain", "force_flush", "health", "install", "shutdown", "stats"]

_logger = logging.getLogger(__name__)
_lock = threading.Lock()
_pipeline: Pipeline | None = None
_made: Providers | None = None
_chained = False
_used = Providers()


def configure(
    *,
    rules: Sequence[Any] = (),
    destinations: Sequence[Any] = (),
    tracer_provider: TracerProvider | None = None,
    logger_provider: LoggerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    **options: Any,
) -> Pipeline:
    """Score this process's agent traffic from now on.

    Spans are captured from the tracer provider given, or the global one. Where there is none yet, providers
    are made and set: they export by OTLP when `OTEL_EXPORTER_OTLP_ENDPOINT` (or one of its per-signal forms)
    is set, with scores as attributes on the judged spans. Calling it again replaces what was configured.

    Args:
        rules: `Rule` objects, bare scorers, or mappings as in the YAML file.
        destinations: besides OpenTelemetry: `"console"`, `{"jsonl": {"path": ...}}`, or `Destination`s.
        tracer_provider: an SDK provider of your own.
        logger_provider: where evaluation events go.
        meter_provider: where metrics go.
        options: the other fields of `otel_evals.config.Config`, such as `hold`.

    Raises:
        ConfigError: something is wrong; names the field and the fix.
    """
    config = build_config(rules, destinations, **options)
    return install(config, tracer_provider, logger_provider, meter_provider)


def install(
    config: Config,
    tracer_provider: Any = None,
    logger_provider: Any = None,
    meter_provider: Any = None,
) -> Pipeline:
    """Build the pipeline of a Config and put it to work; see `configure`.

    Raises:
        ConfigError: the tracer provider is not the SDK's.
    """
    global _pipeline, _made, _chained, _used
    if is_child():  # it imports the module that configures, because its scorers stand there
        config = Config()
    with _lock:
        shutdown()
        atexit.unregister(shutdown)
        atexit.register(shutdown)  # anew, so that it runs before the exit handlers of providers made by now
        given = Providers(tracer_provider, logger_provider, meter_provider)
        own = tracer_provider is None and _is_default(trace.get_tracer_provider())
        tracers: Any = tracer_provider or (
            TracerProvider(shutdown_on_exit=False) if own else trace.get_tracer_provider()
        )
        if not hasattr(tracers, "add_span_processor"):
            name = type(tracers).__name__
            raise ConfigError(
                "tracer_provider", f"a {name} takes no span processors; give the SDK's TracerProvider"
            )
        kind = Pipeline if config.isolation == "thread" else HostedPipeline
        built = kind(
            config, tracer_provider=tracers, logger_provider=given.loggers, meter_provider=given.meters
        )
        tracers.add_span_processor(built.spans)
        if own:
            _made = make_providers(tracers, built, given)
        elif config.span_attributes:
            _logger.info(
                "scores become span attributes where an exporter is wrapped: pipeline.hold(exporter)"
            )
        loggers = given.loggers or _logs.get_logger_provider()
        if hasattr(loggers, "add_log_record_processor"):
            loggers.add_log_record_processor(built.log_records)
        _pipeline, _used = built, Providers(tracers, loggers, given.meters or metrics.get_meter_provider())
        leave_at_every_exit(_leave)
        if config.handle_sigterm and not _chained:
            _chained = chain_sigterm(_leave, force_flush, config.shutdown_timeout + 5)
        return built


def current() -> Pipeline | None:
    """The configured pipeline, if there is one."""
    return _pipeline


def stats() -> Stats:
    """What became of every run so far; empty when nothing is configured."""
    return Stats() if _pipeline is None else _pipeline.stats()


def explain(trace_id: int | str, trace_state: str = "") -> Explanation:
    """What happened to a trace: seen or not, sampled or not and by which chance, scored or why not.

    `print` the answer to read it.

    Args:
        trace_id: 32 hex digits, or the id as a number.
        trace_state: the trace's tracestate header; only needed where nothing of it was seen.

    Raises:
        ValueError: that is no trace id.
    """
    if _pipeline is not None:
        return _pipeline.explain(trace_id, trace_state)
    return explain_unseen(trace_id_of(trace_id), 0.0, trace_state, ("Scoring is not configured.",))


def health(stalled_after: float = 10.0) -> Health:
    """Whether scoring goes on, for liveness probes; `idle` when nothing is configured.

    Args:
        stalled_after: seconds without any sign of life after which it counts as stalled; more than 5.
    """
    return Health(status="idle") if _pipeline is None else _pipeline.health(stalled_after)


def force_flush(timeout_millis: int = 30_000) -> bool:
    """Score and deliver everything captured so far; whether that was done in time.

    Conversations that are not idle for long enough still wait: they end with `shutdown`.
    """
    done = _pipeline.force_flush(timeout_millis) if _pipeline is not None else True
    return (_made.force_flush(timeout_millis) if _made is not None else True) and done


def shutdown(timeout_millis: int | None = None) -> None:
    """Stop scoring; what cannot be scored in time is counted as dropped. Also called at interpreter exit."""
    global _pipeline, _made
    if _pipeline is not None:
        _pipeline.shutdown(timeout_millis)
    if _made is not None:
        _made.shutdown()
    _pipeline = _made = None


def _leave() -> None:
    """Shut down, and have the providers send what that brought forth: their exit handlers may never run."""
    if _pipeline is not None:
        shutdown()
        _used.force_flush(3_000)


def _is_default(provider: object) -> bool:
    """Whether no tracer provider was set: the API hands out a proxy then."""
    return isinstance(provider, trace.ProxyTracerProvider)


def _before_threads_end() -> None:
    """Score what is left while threads can still be started and the providers still stand."""
    if _pipeline is not None:
        _pipeline.force_flush(int(_pipeline.config.shutdown_timeout * 1000))


# The main thread's end comes before the providers' own exit handlers and before executors are closed, which
# judges need to open connections. Threads that live on are still captured, until the exit handler itself.
_at_threads_end = getattr(threading, "_register_atexit", None)
if _at_threads_end is not None:
    _at_threads_end(_before_threads_end)
