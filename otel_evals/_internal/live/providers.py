"""Creates OpenTelemetry providers for processes that have none, with OTLP export if an endpoint is set.

OpenTelemetry allows global providers to be set once. If `configure` created some, a library that is set up
later could not set its own, and the application's spans would never reach that library's exporters. The API
has no public way to replace them; this is the only module that uses its private fields, each access guarded.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from threading import Thread
from typing import Any, TypeVar

import opentelemetry._logs._internal as logs_api
import opentelemetry.metrics._internal as metrics_api
from opentelemetry import _logs, metrics, trace
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from otel_evals._internal.live.adoption import MADE
from otel_evals._internal.util.install_hint import install_hint
from otel_evals.errors import ConfigError

_logger = logging.getLogger(__name__)
_GLOBALS = (
    (trace, "_TRACER_PROVIDER"),
    (logs_api, "_LOGGER_PROVIDER"),
    (metrics_api, "_METER_PROVIDER"),
)
_SET = "_set_tracer_provider"
_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
_OVER = "_otel_evals_over"
_P = TypeVar("_P", TracerProvider, LoggerProvider, MeterProvider)


@dataclass(slots=True)
class Providers:
    """Providers of the three signals; None if there is none."""

    tracers: Any = None
    loggers: Any = None
    meters: Any = None
    evaluations: Any = None
    """Separate tracer provider for evaluation spans."""

    def force_flush(self, timeout_millis: int) -> bool:
        """Flush all providers; see `flush`."""
        return flush((self.tracers, self.evaluations, self.loggers, self.meters), timeout_millis)

    def shutdown(self) -> None:
        """Shut down all providers, the meter provider last: it reports losses of the others."""
        for provider in (self.tracers, self.loggers, self.meters):
            if provider is not None:
                provider.shutdown()
        self.tracers = self.loggers = self.meters = None


def flush(providers: Iterable[Any], timeout_millis: int) -> bool:
    """Flush providers at the same time; return True if all finished in time. Never raises.

    Each has its own thread, because the SDK's processors may exceed their timeout. A processor whose exporter
    logs errors by the same processor never returns.

    Providers without `force_flush`, such as the API's own, are skipped.
    """
    deadline = time.monotonic() + timeout_millis / 1000
    flushable = [each for each in providers if hasattr(each, "force_flush")]
    done: list[bool] = []

    def run(provider: Any) -> None:
        try:
            done.append(bool(provider.force_flush(timeout_millis)))
        except BaseException:  # processors of other libraries may raise anything
            _logger.warning("a provider could not be flushed", exc_info=True)

    threads = [Thread(target=run, args=(each,), name="otel-evals-flush", daemon=True) for each in flushable]
    for thread in threads:
        try:
            thread.start()
        except RuntimeError:  # no thread can be started, as at the end of some interpreters
            thread.run()
    for thread in threads:
        if thread.ident is not None:
            thread.join(max(0.0, deadline - time.monotonic()))
    return done == [True] * len(flushable)


def make_missing(given: Providers, made: Providers) -> None:
    """Create and set a tracer provider, and OTLP providers of logs and metrics, if none are given or set.

    Raises:
        ConfigError: an OTLP endpoint is set and the exporter is not installed.
    """
    present = trace.get_tracer_provider()
    if given.tracers is None and (isinstance(present, trace.ProxyTracerProvider) or _is_over(present)):
        made.tracers = _ended_noted(TracerProvider(shutdown_on_exit=False))
        if _exports("TRACES"):
            exporter = _exporter("TRACES", "trace_exporter", "OTLPSpanExporter")
            processor = BatchSpanProcessor(exporter)
            setattr(processor, MADE, True)
            made.tracers.add_span_processor(processor)
        trace.set_tracer_provider(made.tracers)
    if given.loggers is None and goes_nowhere(_logs.get_logger_provider()) and _exports("LOGS"):
        made.loggers = _ended_noted(LoggerProvider(shutdown_on_exit=False))
        exporter = _exporter("LOGS", "_log_exporter", "OTLPLogExporter")
        made.loggers.add_log_record_processor(BatchLogRecordProcessor(exporter))
        _logs.set_logger_provider(made.loggers)
    if given.meters is None and goes_nowhere(metrics.get_meter_provider()) and _exports("METRICS"):
        exporter = _exporter("METRICS", "metric_exporter", "OTLPMetricExporter")
        readers = [PeriodicExportingMetricReader(exporter)]
        made.meters = _ended_noted(MeterProvider(readers, shutdown_on_exit=False))
        metrics.set_meter_provider(made.meters)


def goes_nowhere(provider: object) -> bool:
    """Return True for a provider of logs or metrics that does nothing: the API's own, or one shut down."""
    module = type(provider).__module__
    of_the_api = module.startswith(("opentelemetry._logs.", "opentelemetry.metrics."))
    return provider is None or of_the_api or _is_over(provider)


def _ended_noted(provider: _P) -> _P:
    """Make a provider remember that it was shut down."""
    shut_down = provider.shutdown

    def shutdown(*args: Any, **options: Any) -> None:
        provider.__dict__[_OVER] = True
        shut_down(*args, **options)

    provider.shutdown = shutdown  # type: ignore[method-assign]
    return provider


def _is_over(provider: object) -> bool:
    """Return True if a provider was created here and has been shut down: it exports nothing any more."""
    return getattr(provider, _OVER, False) is True


def _exports(signal: str) -> bool:
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    if os.environ.get(f"OTEL_{signal}_EXPORTER", "otlp").strip().lower() == "none":
        return False
    return bool(os.environ.get(f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT") or os.environ.get(_ENDPOINT))


def _exporter(signal: str, module: str, name: str) -> Any:
    """Build the OTLP exporter for the protocol in the environment, of this signal or of all signals."""
    variable = f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL"
    if not os.environ.get(variable):
        variable = "OTEL_EXPORTER_OTLP_PROTOCOL"
    protocol = (os.environ.get(variable) or "http/protobuf").strip().lower()
    kinds = {"grpc": "grpc", "http/protobuf": "http"}
    if protocol not in kinds:
        raise ConfigError(variable, f"{protocol!r} is unknown; use grpc or http/protobuf")
    path = f"opentelemetry.exporter.otlp.proto.{kinds[protocol]}.{module}"
    try:
        return getattr(import_module(path), name)()
    except ImportError as error:
        problem = f"is set, but the exporter is missing: {install_hint('otlp')} ({error})"
        raise ConfigError(_ENDPOINT, problem) from error


def stay_replaceable(made: tuple[Any, Any, Any]) -> None:
    """Allow these tracer, logger and meter providers to be replaced as the global ones."""
    for provider, (module, name) in zip(made, _GLOBALS, strict=True):
        once: Any = getattr(module, f"{name}_SET_ONCE", None)
        if provider is not None and getattr(module, name, None) is provider and hasattr(once, "_done"):
            once._done = False


def notice_tracer_providers(notify: Callable[[Any], object]) -> None:
    """Call a function with each global tracer provider that is set later."""
    set_provider: Any = getattr(trace, _SET, None)
    if set_provider is None or getattr(set_provider, "_otel_evals", False):
        return

    def set_and_notify(tracer_provider: Any, log: bool = True) -> None:
        set_provider(tracer_provider, log)
        if getattr(trace, "_TRACER_PROVIDER", None) is tracer_provider:
            try:
                notify(tracer_provider)
            except Exception:
                _logger.warning("a tracer provider that was set later is not scored", exc_info=True)

    set_and_notify._otel_evals = True  # type: ignore[attr-defined]  # marks the replaced function
    setattr(trace, _SET, set_and_notify)
