"""The configured pipeline of this process: `configure`, `stats`, `explain`, `health`, `shutdown`.

Long for one module, because the functions of the front door share one pipeline and its lock.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Unpack

from opentelemetry import _logs, metrics, trace
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider

from otel_evals._internal.accounting.counters import Stats
from otel_evals._internal.accounting.explanation import Explanation, explain_unknown
from otel_evals._internal.accounting.health import Health
from otel_evals._internal.config.loader import build_config, load_config
from otel_evals._internal.config.options import Config, ConfigOptions
from otel_evals._internal.live.adoption import adopt, adopt_logs, same_provider
from otel_evals._internal.live.doctor.examine import REPORTS, examine, write_report
from otel_evals._internal.live.doctor.findings import Diagnosis
from otel_evals._internal.live.exits import register_exit_hook
from otel_evals._internal.live.late_providers import notice_tracer_providers, stay_replaceable
from otel_evals._internal.live.no_traffic_warning import QuietWatch
from otel_evals._internal.live.providers import Providers, flush, make_missing
from otel_evals._internal.live.signals import OneAtATime, chain_sigterm
from otel_evals._internal.pipeline.inspection import trace_id_of
from otel_evals._internal.pipeline.pipeline import Pipeline
from otel_evals._internal.processes.child import is_child
from otel_evals.errors import ConfigError

_logger = logging.getLogger(__name__)
_lock = threading.Lock()
_pipeline: Pipeline | None = None
_ended: Pipeline | None = None
"""The latest one that was shut down, whose counters a meter provider may still report."""
_made = Providers()
_chained = False
_FLUSH_MILLIS = 3_000
_REPORT_MILLIS = 60_000
_stopping = OneAtATime()
_watch: QuietWatch | None = None
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
    """Score this process's agent traffic from now on.

    Spans are captured from the given tracer provider, or from the global one, whose exporters are wrapped so
    that judged spans carry their scores. If none is set, providers are created and set: they export by OTLP
    if `OTEL_EXPORTER_OTLP_ENDPOINT` (or one of its per-signal forms) is set. It may be called any number of
    times; each call replaces the configuration.

    Args:
        rules: `Rule` objects, bare scorers, or mappings as in the YAML file.
        destinations: besides OpenTelemetry: `"console"`, `{"jsonl": {"path": ...}}`, or `Destination`s.
        tracer_provider: an SDK provider of your own.
        logger_provider: where evaluation events go.
        meter_provider: where metrics go.
        evaluation_tracer_provider: where evaluation spans go that have traces of their own; to the same
            provider by default, as spans of another service.
        options: the other fields of `otel_evals.Config`, such as `hold`.

    Raises:
        ConfigError: a value is wrong; the message names the field and the fix.
    """
    config = build_config(rules, destinations, **options)
    if not config.rules and not is_child():
        _logger.warning("nothing will be scored: `rules` is empty; name one, as in rules=[answered()]")
    return install(config, tracer_provider, logger_provider, meter_provider, evaluation_tracer_provider)


def install(
    config: Config | str | Path,
    tracer_provider: Any = None,
    logger_provider: Any = None,
    meter_provider: Any = None,
    evaluation_tracer_provider: Any = None,
) -> Pipeline:
    """Build the pipeline of a Config, or of a YAML file given by its path, and start it; see `configure`.

    Raises:
        ConfigError: the file has mistakes, or the tracer provider is not the SDK's.
    """
    if not isinstance(config, Config):
        config = load_config(config)
    given = Providers(tracer_provider, logger_provider, meter_provider, evaluation_tracer_provider)
    return _install(config, given)


def _install(config: Config, given: Providers) -> Pipeline:
    global _pipeline, _chained
    if is_child():  # it imports the module that configures because the scorers are defined there
        config = Config()
    with _lock:
        used = _providers(given)  # first: where one is wrong, what is configured goes on
        shutdown()
        atexit.unregister(_exit)
        atexit.register(_exit)  # again, to run before the exit handlers of existing providers
        built = Pipeline(
            config,
            tracer_provider=used.tracers,
            logger_provider=used.loggers,
            meter_provider=used.meters,
            evaluation_tracer_provider=used.evaluations,
        )
        _attach(built, used)
        _pipeline = built
        _watch_for_quiet(built, used)
        register_exit_hook(shutdown)
        if config.handle_sigterm and not _chained:
            _chained = chain_sigterm(shutdown, force_flush, config.shutdown_timeout + 5, _stopping)
        return built


def _providers(given: Providers) -> Providers:
    """The providers to use: those given, the global ones, or, where there are none, new ones.

    Raises:
        ConfigError: the tracer provider is not the SDK's.
    """
    make_missing(given, _made)
    stay_replaceable((_made.tracers, _made.loggers, _made.meters))
    notice_tracer_providers(_attach_late)
    tracers = given.tracers or trace.get_tracer_provider()
    if not hasattr(tracers, "add_span_processor"):
        name = type(tracers).__name__
        raise ConfigError(
            "tracer_provider", f"a {name} takes no span processors; give the SDK's TracerProvider"
        )
    return Providers(
        tracers,
        given.loggers or _logs.get_logger_provider(),
        given.meters or metrics.get_meter_provider(),
        given.evaluations,
    )


def _attach(built: Pipeline, used: Providers) -> None:
    """Connect the providers to a pipeline."""
    global _used
    _attach_tracers(built, used.tracers)
    if _made.tracers is not None and not same_provider(_made.tracers, used.tracers):
        _attach_tracers(built, _made.tracers)  # whose tracers may still be used
    adopt_logs(used.loggers, built)
    _used = used


def _attach_tracers(built: Pipeline, tracers: Any) -> None:
    wraps = built.config.span_attributes and built.config.wrap_exporters
    unwrapped = adopt(tracers, built, wrap=wraps)
    _attached.append(tracers)
    if unwrapped:
        _logger.warning(
            "the spans that %s handles carry no scores: no exporter was found in it", ", ".join(unwrapped)
        )


def _attach_late(tracers: Any) -> None:
    """Score the spans of a global tracer provider that a library has set after `configure`."""
    pipeline = _pipeline
    if pipeline is None or not hasattr(tracers, "add_span_processor"):
        return
    if any(same_provider(tracers, each) for each in _attached):
        return
    _attach_tracers(pipeline, tracers)
    pipeline.trace_with(tracers)
    _used.tracers = tracers
    atexit.unregister(_exit)
    atexit.register(_exit)  # to run before the exit handler of this provider


def _watch_for_quiet(built: Pipeline, used: Providers) -> None:
    """Say so if nothing is seen."""
    global _watch
    if _watch is not None:
        _watch.stop()
    _watch = QuietWatch(built, used) if built.config.no_traffic_after and built.config.rules else None


def current() -> Pipeline | None:
    """The configured pipeline, if there is one."""
    return _pipeline


def stats() -> Stats:
    """The counters at this moment; empty if nothing is configured."""
    return Stats() if _pipeline is None else _pipeline.stats()


def explain(trace_id: int | str, trace_state: str = "") -> Explanation:
    """Explain what happened to a trace: whether it was captured, sampled and scored, and if not, why.

    `str()` gives the explanation as text.

    Args:
        trace_id: 32 hex digits, or the id as a number.
        trace_state: the trace's tracestate header; only used if there is no record of the trace.

    Raises:
        ValueError: the value is not a trace id.
    """
    if _pipeline is not None:
        return _pipeline.explain(trace_id, trace_state)
    return explain_unknown(trace_id_of(trace_id), 0.0, trace_state, ("Scoring is not configured.",))


def feedback(
    trace_id: int | str,
    value: float | bool,
    *,
    name: str = "feedback",
    comment: str | None = None,
    source: str = "user",
) -> bool:
    """Keep a user's verdict on a trace beside its scores, in the results stores among the destinations.

    It may come long after the run. A second verdict of the same name and source replaces the first. Never
    waits and never raises; what cannot be written is logged.

    Args:
        trace_id: 32 hex digits, or the id as a number.
        value: a number; True is 1, for a thumb up.
        name: what was asked.
        comment: what the user wrote.
        source: who said so.

    Returns:
        Whether a destination took it.
    """
    destinations = _pipeline.config.destinations if _pipeline is not None else ()
    takers = [each for each in destinations if callable(getattr(each, "feedback", None))]
    try:
        told = trace_id_of(trace_id)
        rest = {"name": str(name), "comment": comment and str(comment), "source": str(source)}
        took = [each.feedback(told, float(value), **rest) for each in takers]  # type: ignore[attr-defined]
        return any(took)
    except Exception as error:
        _logger.warning("Feedback was not kept: %s", error)
        return False


def health(stalled_after: float = 10.0) -> Health:
    """Whether scoring makes progress, for liveness probes; `idle` if nothing is configured.

    Args:
        stalled_after: seconds without progress after which scoring counts as stalled; more than 5.
    """
    return Health(status="idle") if _pipeline is None else _pipeline.health(stalled_after)


def doctor(*, ask_judges: bool = False, timeout: float = 3.0) -> Diagnosis:
    """Look at scoring in this process, from providers to outcomes, and at what it needs outside.

    Runs that have ended are scored first. Best asked once the application has had some traffic. `str()` gives
    the findings as text, `ok` whether there is no problem.

    Args:
        ask_judges: whether each judge is asked one short question, which costs a few tokens.
        timeout: seconds for each connection and each question.
    """
    if _pipeline is not None:
        _pipeline.force_flush(int(timeout * 1000))
    return examine(_pipeline, _used, ask_judges=ask_judges, timeout=timeout)


def force_flush(timeout_millis: int = 30_000) -> bool:
    """Score and deliver everything captured so far; whether that was done in time.

    Conversations that are not idle yet keep waiting; `shutdown` ends them.
    """
    done = _pipeline.force_flush(timeout_millis) if _pipeline is not None else True
    return _made.force_flush(timeout_millis) and done


def shutdown(timeout_millis: int | None = None) -> None:
    """Stop scoring; what cannot be scored in time is counted as dropped. Called at interpreter exit too.

    The providers are flushed, and continue without scoring. A second caller waits for the first.
    """
    global _pipeline, _ended
    if _watch is not None:
        _watch.stop()
    with _stopping:
        pipeline, _pipeline = _pipeline, None
        if pipeline is None:
            return
        _ended = pipeline
        pipeline.shutdown(timeout_millis)
        # Spans in a batch processor's queue take their scores along.
        late = [each for each in _attached if each is not _used.tracers]
        flush((_used.tracers, _used.evaluations, _used.loggers, _used.meters, *late), _FLUSH_MILLIS)
        while _attached:
            adopt(_attached.pop(), None, wrap=False)
        adopt_logs(_used.loggers, None)


def _exit() -> None:
    """Stop scoring at interpreter exit, and shut down the providers that were created here."""
    if REPORTS in os.environ:
        write_report(doctor())
    shutdown(_millis_left())
    _made.shutdown()


_gave_up_at: float | None = None
"""When the time for the main thread's end was used up, on `time.monotonic`."""


def _millis_left() -> int | None:
    """What exit may take: nothing more where the main thread's end took it all, but anew as others go on."""
    if _gave_up_at is None or _pipeline is None:
        return None
    return int(1000 * min(_pipeline.config.shutdown_timeout, time.monotonic() - _gave_up_at))


def _before_threads_end() -> None:
    """Score what is left while threads can still be started and the providers still work."""
    global _gave_up_at
    if _pipeline is not None:
        timeout = int(_pipeline.config.shutdown_timeout * 1000)
        if not _pipeline.force_flush(max(timeout, _REPORT_MILLIS) if REPORTS in os.environ else timeout):
            _gave_up_at = time.monotonic()


# Runs when the main thread ends: before the providers' exit handlers, and before executors are closed, which
# judges need to open connections. Spans of threads that are still running are captured until `atexit`.
_at_threads_end = getattr(threading, "_register_atexit", None)
if _at_threads_end is not None:
    _at_threads_end(_before_threads_end)
