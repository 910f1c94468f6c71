"""Creates OpenTelemetry providers for processes that have none, with OTLP export if an endpoint is set."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
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
    """Providers of the three signals; None where there is none."""

    tracers: Any = None
    loggers: Any = None
    meters: Any = None
    evaluations: Any = None
    """Records evaluation spans, if it is another one than `tracers`."""

    def force_flush(self, timeout_millis: int) -> bool:
        """Flush all that are set; see `flush`."""
        return flush((self.tracers, self.evaluations, self.loggers, self.meters), timeout_millis)

    def shutdown(self) -> None:
        """Shut down all that are set, the meter provider last: it reports what the others lose."""
        for provider in (self.tracers, self.loggers, self.meters):
            if provider is not None:
                provider.shutdown()
        self.tracers = self.loggers = self.meters = None


def flush(providers: Iterable[Any], timeout_millis: int) -> bool:
    """Flush providers at the same time; whether all were done in time. Never raises.

    Each has a thread of its own, because the SDK's processors do not keep to the time that they are given:
    one whose exporter logs its errors by the very processor would never come back.

    Args:
        providers: those that cannot be flushed, such as the API's own, are left out.
        timeout_millis: milliseconds it may take altogether.
    """
    deadline = time.monotonic() + timeout_millis / 1000
    flushes = [_Flush(each, timeout_millis) for each in providers if hasattr(each, "force_flush")]
    for each in flushes:
        each.begin()
    done = [each.wait(deadline) for each in flushes]  # all of them, whatever the first ones say
    return all(done)


class _Flush:
    """The flush of one provider."""

    def __init__(self, provider: Any, timeout_millis: int) -> None:
        self._flush = provider.force_flush
        self._millis = timeout_millis
        self._thread = threading.Thread(target=self._run, name="otel-evals-flush", daemon=True)
        self._done = False

    def begin(self) -> None:
        try:
            self._thread.start()
        except RuntimeError:  # no thread can be had, as at the end of some interpreters
            self._run()

    def wait(self, deadline: float) -> bool:
        if self._thread.ident is not None:
            self._thread.join(max(0.0, deadline - time.monotonic()))
        return self._done

    def _run(self) -> None:
        try:
            self._done = bool(self._flush(self._millis))
        except BaseException:  # a processor of somebody else's
            _logger.warning("a provider could not be flushed", exc_info=True)


def make_missing(given: Providers, made: Providers) -> None:
    """Create and set a tracer provider, and OTLP providers of logs and metrics, where none are given or set.

    Args:
        given: the application's providers.
        made: receives those that were created.

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
    """Whether a provider of logs or metrics is the API's own stand-in, which does nothing."""
    return provider is None or _is_unset(provider)


def _is_unset(provider: object) -> bool:
    """Whether the API's own stand-in was handed out, because no provider was set, or ours was shut down."""
    stand_in = type(provider).__module__.startswith(("opentelemetry._logs.", "opentelemetry.metrics."))
    return stand_in or _is_over(provider)


def _ended_noted(provider: _P) -> _P:
    """A provider that was made here, which notes that the application shuts it down."""
    shut_down = provider.shutdown

    def shutdown(*args: Any, **options: Any) -> None:
        provider.__dict__[_OVER] = True
        shut_down(*args, **options)

    provider.shutdown = shutdown  # type: ignore[method-assign]
    return provider


def _is_over(provider: object) -> bool:
    """Whether a provider was made here and has been shut down: it exports nothing any more."""
    return getattr(provider, _OVER, False) is True


def _exports(signal: str) -> bool:
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    if os.environ.get(f"OTEL_{signal}_EXPORTER", "otlp").strip().lower() == "none":
        return False
    return bool(os.environ.get(f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT") or os.environ.get(_ENDPOINT))


def _exporter(signal: str, module: str, name: str) -> Any:
    """The OTLP exporter of the protocol that the environment names, for this signal or for all."""
    variable = f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL"
    if not os.environ.get(variable):
        variable = "OTEL_EXPORTER_OTLP_PROTOCOL"
    protocol = (os.environ.get(variable) or "http/protobuf").strip().lower()
    kinds = {"grpc": "grpc", "http/protobuf": "http"}
    if protocol not in kinds:
        raise ConfigError(variable, f"{protocol!r} is unknown; use grpc or http/protobuf")
    path = f"opentelemetry.exporter.otlp.proto.{kinds[protocol]}.{module}"
    try:
        return getattr(__import__(path, fromlist=[name]), name)()
    except ImportError as error:
        raise ConfigError(
            _ENDPOINT, f"is set, but the exporter is missing: pip install 'otel-evals[otlp]' ({error})"
        ) from error
