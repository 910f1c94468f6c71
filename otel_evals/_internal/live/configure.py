"""The configured pipeline of this process: `configure`, `stats`, `explain`, `health`, `shutdown`."""

from __future__ import annotations

import atexit
import logging
import threading
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Unpack

from opentelemetry import trace
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider

from otel_evals._internal.config.loader import build_config, load_config
from otel_evals._internal.config.options import Config, ConfigOptions
from otel_evals._internal.config.validation import FOREVER
from otel_evals._internal.live.adoption import (
    adopt,
    adopt_logs,
    describe,
    owners_of,
    release,
    release_logs,
    same_provider,
)
from otel_evals._internal.live.doctor.examine import (
    Diagnosis,
    check_outside,
    mistakes_reported,
    warn_of_missing_keys,
    write_report,
)
from otel_evals._internal.live.doctor.process import BY_HAND, check_process, start_timer, warn_if_silent
from otel_evals._internal.live.pipeline import Pipeline
from otel_evals._internal.live.providers import (
    Providers,
    flush,
    make_missing,
    not_scorable,
    notice_tracer_providers,
)
from otel_evals._internal.live.signals import OneAtATime, chain_sigterm, register_exit_hook
from otel_evals._internal.scorers.kit.isolation import is_child
from otel_evals._internal.trust.marks import is_marked
from otel_evals.errors import ConfigError

_logger = logging.getLogger(__name__)
_lock = threading.Lock()
_pipeline: Pipeline | None = None
_ended: Pipeline | None = None
"""Latest pipeline that was shut down; a meter provider may still report its counters."""
_made = Providers()
_chained = False
_FLUSH_MILLIS = 3_000
_LEAST_SECONDS = 1.0
"""Time that created providers have to flush and to shut down, however long scoring took."""
_stopping = OneAtATime()
_traffic_timer: threading.Timer | None = None
_used = Providers()
_attached: list[Any] = []
"""Tracer providers whose spans are captured."""


def configure(
    *,
    rules: Sequence[Any] = (),
    destinations: Sequence[Any] = (),
    tracer_provider: TracerProvider | None = None,
    logger_provider: LoggerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    evaluation_tracer_provider: TracerProvider | None = None,
    **options: Unpack[ConfigOptions],
) -> Pipeline:
    """Start to score this process's agent traffic.

    Spans are captured from the given tracer provider or the global one, and its exporters are wrapped to add
    scores to judged spans. If no provider is set, providers are created; they export by OTLP if
    `OTEL_EXPORTER_OTLP_ENDPOINT` or a variable for one signal is set. A library may set its own later, which
    is then scored instead. Each call replaces the configuration; a scorer's has no effect.

    Args:
        rules: `Rule` objects, bare scorers, or mappings as in the YAML file.
        destinations: `"console"`, `{"jsonl": {"path": ...}}`, or `Destination`s, next to OpenTelemetry.
        tracer_provider: your own provider of the SDK.
        logger_provider: provider for evaluation events.
        meter_provider: provider for metrics.
        evaluation_tracer_provider: provider for evaluation spans in separate traces; by default
            `tracer_provider`, with another service name.
        options: the other fields of `otel_evals.Config`, such as `hold`.

    Raises:
        ConfigError: a value is wrong; the message names the field and the fix.
    """
    with mistakes_reported():
        config = build_config(rules, destinations, **options)
    if not config.rules and not is_child():
        _logger.warning("nothing will be scored: `rules` is empty; fix: rules=[answered()]")
    return install(config, tracer_provider, logger_provider, meter_provider, evaluation_tracer_provider)


def install(
    config: Config | str | Path,
    tracer_provider: Any = None,
    logger_provider: Any = None,
    meter_provider: Any = None,
    evaluation_tracer_provider: Any = None,
) -> Pipeline:
    """Build and start the pipeline of a Config or of a YAML file; see `configure`.

    Raises:
        ConfigError: the file has mistakes, or the tracer provider is not the SDK's.
    """
    global _pipeline, _chained, _used, _traffic_timer
    if not isinstance(config, Config):
        with mistakes_reported():
            config = load_config(config)
    given = Providers(tracer_provider, logger_provider, meter_provider, evaluation_tracer_provider)
    if is_child():  # a scorer's process imports the module that configures, if scorers are defined there
        config = Config()
    if _pipeline is not None and is_marked(None):  # it would end the scorer that it waits for
        _logger.warning("configure() has no effect inside a scorer")
        return _pipeline
    with _lock, mistakes_reported():
        # First: if one is wrong, the current pipeline continues.
        used = make_missing(given, _made)
        notice_tracer_providers(_attach_late)
        if not hasattr(used.tracers, "add_span_processor"):
            raise ConfigError("tracer_provider", not_scorable(used.tracers))
        atexit.unregister(_exit)
        atexit.register(_exit)  # again, to run before the exit handlers of existing providers
        built = Pipeline(
            config,
            tracer_provider=used.tracers,
            logger_provider=used.loggers,
            meter_provider=used.meters,
            evaluation_tracer_provider=used.evaluations,
        )
        _replace(built, used)
        _attach_tracers(built, used.tracers)
        if _made.tracers is not None and not same_provider(_made.tracers, used.tracers):
            _attach_tracers(built, _made.tracers)  # the application may still use its tracers
        adopt_logs(used.loggers, built)
        warn_of_missing_keys(config)
        # Its functions may be asked first in a signal handler, which could interrupt another import.
        import_module("otel_evals._internal.live.questions")
        _used = used
        _pipeline = built
        _log_start(built)
        if config.no_traffic_after and config.rules:
            _traffic_timer = start_timer(built, used)
        register_exit_hook(shutdown)
        if config.handle_sigterm and not _chained:
            _chained = chain_sigterm(shutdown, force_flush, config.shutdown_timeout + 5, _stopping)
        return built


def _replace(built: Pipeline, used: Providers) -> None:
    """Shut the current pipeline down; what ends meanwhile is captured and counted by the new one."""
    if _pipeline is not None:
        built.engine.ignore_runs_before(time.time_ns())  # the current one has some of their spans
        for tracers in _attached:
            if same_provider(tracers, used.tracers):
                adopt(tracers, built, wrap=_wraps(built.config))
        if used.loggers is _used.loggers:
            adopt_logs(used.loggers, built)
    _stop(None, built)
    built.resume()  # the old one has left its journal


def _log_start(built: Pipeline) -> None:
    held = {each.exporter for tracers in _attached for each in describe(tracers) if each.held}
    exporters = ", ".join(sorted(held)) or "no exporter"
    _logger.info("%s; scores are added to the spans of %s", built.engine.summary(), exporters)


def _wraps(config: Config) -> bool:
    return config.span_attributes and config.wrap_exporters


def _attach_tracers(built: Pipeline, tracers: Any) -> None:
    without = adopt(tracers, built, wrap=_wraps(built.config))
    _attached.append(tracers)
    if without:
        found = ", ".join(without)
        _logger.warning("no exporter was found in %s: spans carry no scores; fix: %s", found, BY_HAND)


def _attach_late(tracers: Any) -> None:
    """Score the spans of a global tracer provider that a library set after `configure`."""
    pipeline = _pipeline
    if pipeline is None or any(same_provider(tracers, each) for each in _attached):
        return
    if type(tracers).__module__ == trace.__name__:
        return  # one that does nothing, as MLflow sets for a while
    if not hasattr(tracers, "add_span_processor"):
        _logger.warning("the global tracer provider was replaced: %s", not_scorable(tracers))
        return
    _attach_tracers(pipeline, tracers)
    pipeline.trace_with(tracers)
    _used.tracers = tracers
    atexit.unregister(_exit)
    atexit.register(_exit)  # to run before the exit handler of this provider


def current() -> Pipeline | None:
    return _pipeline


def latest() -> Pipeline | None:
    """Return the current pipeline, or the one that was shut down last."""
    return _pipeline or _ended


def doctor(*, ask_judges: bool = False, timeout: float = 3.0) -> Diagnosis:
    """Examine scoring in this process, from providers to outcomes, and the servers that it uses.

    Call it after some traffic: ended runs are scored first. `str()` of the result lists the findings; `ok` is
    True if there is no problem.

    Args:
        ask_judges: ask each judge one short question, which costs a few tokens.
        timeout: seconds for each connection and each question.
    """
    if _pipeline is not None:
        _pipeline.force_flush(int(timeout * 1000))
    found = list(check_process(_pipeline, _used))
    if _pipeline is not None:
        found += check_outside(_pipeline.config, ask=ask_judges, timeout=timeout)
    return Diagnosis(findings=tuple(found))


def force_flush(timeout_millis: int = 30_000) -> bool:
    """Score and deliver all captured runs; return True if that was done in time.

    Conversations that are not idle yet keep waiting; `shutdown` ends them.
    """
    until = time.monotonic() + timeout_millis / 1000
    done = _pipeline.force_flush(timeout_millis) if _pipeline is not None else True
    # The remaining time, with a minimum for the exporters however long scoring took.
    left = max(until - time.monotonic(), min(timeout_millis / 1000, _LEAST_SECONDS))
    return _made.force_flush(int(min(left, FOREVER) * 1000)) and done


def shutdown(timeout_millis: int | None = None) -> None:
    """Stop scoring; runs that cannot be scored in time are counted as dropped. Called at exit too.

    The providers are flushed, and continue without scoring. A second caller waits for the first.
    """
    _stop(timeout_millis, None)


def _stop(timeout_millis: int | None, successor: Pipeline | None) -> None:
    """Shut the current pipeline down; its successor captures and checks from the beginning."""
    global _pipeline, _ended, _traffic_timer
    with _stopping:
        if _pipeline is None:
            return
        write_report(doctor)  # while there is a pipeline to examine
        pipeline = _ended = _pipeline  # its `shutdown_timeout` bounds the exit
        _pipeline = successor
        timer, _traffic_timer = _traffic_timer, None
        pipeline.shutdown(timeout_millis)
        # In a forked child the timer's thread does not exist: the parent checks.
        if timer is not None and timer.is_alive():
            timer.cancel()
            if successor is None:
                warn_if_silent(pipeline, _used, "before the process ended")
        # Before exporters are unwrapped: spans in queues of batch processors still receive their scores.
        inside = [owner for each in _attached for owner in owners_of(each)]
        flush((*_attached, _used.evaluations, _used.loggers, _used.meters, *inside), _FLUSH_MILLIS)
        while _attached:
            release(_attached.pop(), pipeline)
        release_logs(_used.loggers, pipeline)


def _exit() -> None:
    """Stop scoring at interpreter exit, and shut down the providers that were created here."""
    shutdown(_millis_left())
    timeout = Config.shutdown_timeout if _ended is None else _ended.config.shutdown_timeout
    spent = 0.0 if _ending_since is None else time.monotonic() - _ending_since
    _made.shutdown(max(_LEAST_SECONDS, timeout - spent))


_ending_since: float | None = None
"""Time on `time.monotonic` when the main thread ended."""
_gave_up_at: float | None = None
"""Time on `time.monotonic` when flushing at the end of the main thread timed out."""


def _millis_left() -> int | None:
    """Return the time left for exit: 0 right after a timeout, growing while other threads continue."""
    if _gave_up_at is None or _pipeline is None:
        return None
    return int(1000 * min(_pipeline.config.shutdown_timeout, time.monotonic() - _gave_up_at))


def _before_threads_end() -> None:
    """Score remaining runs while threads can still be started and the providers still work."""
    global _ending_since, _gave_up_at
    _ending_since = time.monotonic()
    if _pipeline is not None:
        timeout = int(_pipeline.config.shutdown_timeout * 1000)
        if not _pipeline.force_flush(timeout):
            _gave_up_at = time.monotonic()


# Runs when the main thread ends: before the providers' exit handlers, and before executors close, which
# judges need to open connections. Spans of other threads are captured until `atexit`.
_at_threads_end = getattr(threading, "_register_atexit", None)
if _at_threads_end is not None:
    _at_threads_end(_before_threads_end)
