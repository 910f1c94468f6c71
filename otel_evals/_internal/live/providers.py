"""Creates OpenTelemetry providers for processes that have none, with OTLP export if an endpoint is set."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from threading import Thread
from typing import Any, TypeVar

from opentelemetry import _logs, metrics, trace
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from otel_evals._internal.live.adoption import MADE
from otel_evals.errors import ConfigError

_logger = logging.getLogger(__name__)
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

    Args:
        providers: any; those without `force_flush`, such as the API's own, are skipped.
        timeout_millis: milliseconds for all providers together.
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

    Args:
        given: the application's providers.
        made: receives the created providers.

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
    if given.loggers is None and _is_unset(_logs.get_logger_provider()) and _exports("LOGS"):
        made.loggers = _ended_noted(LoggerProvider(shutdown_on_exit=False))
        exporter = _exporter("LOGS", "_log_exporter", "OTLPLogExporter")
        made.loggers.add_log_record_processor(BatchLogRecordProcessor(exporter))
        _logs.set_logger_provider(made.loggers)
    if given.meters is None and _is_unset(metrics.get_meter_provider()) and _exports("METRICS"):
        exporter = _exporter("METRICS", "metric_exporter", "OTLPMetricExporter")
        readers = [PeriodicExportingMetricReader(exporter)]
        made.meters = _ended_noted(MeterProvider(readers, shutdown_on_exit=False))
        metrics.set_meter_provider(made.meters)


def goes_nowhere(provider: object) -> bool:
    """Return True for a provider of logs or metrics that does nothing: the API's own, or one shut down."""
    return provider is None or _is_unset(provider)


def _is_unset(provider: object) -> bool:
    module = type(provider).__module__
    return module.startswith(("opentelemetry._logs.", "opentelemetry.metrics.")) or _is_over(provider)


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
        problem = f"is set, but the exporter is missing: pip install 'otel-evals[otlp]' ({error})"
        raise ConfigError(_ENDPOINT, problem) from error
