"""Creates OpenTelemetry providers for processes that have none, with OTLP export if an endpoint is set."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from typing import Any

from opentelemetry import _logs, metrics, trace
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from otel_evals.errors import ConfigError
from otel_evals.live.adoption import MADE

__all__ = ["Providers", "goes_nowhere", "make_missing"]

_logger = logging.getLogger(__name__)
_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


@dataclass(slots=True)
class Providers:
    """Providers of the three signals; None where there is none."""

    tracers: Any = None
    loggers: Any = None
    meters: Any = None
    evaluations: Any = None
    """Records evaluation spans, if it is another one than `tracers`."""

    def force_flush(self, timeout_millis: int) -> bool:
        """Flush all that are set."""
        done = True
        for provider in (self.tracers, self.evaluations, self.loggers, self.meters):
            if hasattr(provider, "force_flush"):  # the API's own providers have none
                done = provider.force_flush(timeout_millis) and done
        return done

    def shutdown(self) -> None:
        """Shut down all that are set, the meter provider last: it reports what the others lose."""
        for provider in (self.tracers, self.loggers, self.meters):
            if provider is not None:
                provider.shutdown()
        self.tracers = self.loggers = self.meters = None


def make_missing(given: Providers, made: Providers) -> None:
    """Create and set a tracer provider, and OTLP providers of logs and metrics, where none are given or set.

    Args:
        given: the application's providers.
        made: receives those that were created.

    Raises:
        ConfigError: an OTLP endpoint is set and the exporter is not installed.
    """
    if given.tracers is None and isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        made.tracers = TracerProvider(shutdown_on_exit=False)
        if _exports("TRACES"):
            exporter = _exporter("trace_exporter", "OTLPSpanExporter")
            processor = BatchSpanProcessor(exporter)
            setattr(processor, MADE, True)
            made.tracers.add_span_processor(processor)
        trace.set_tracer_provider(made.tracers)
    if given.loggers is None and _is_unset(_logs.get_logger_provider()) and _exports("LOGS"):
        made.loggers = LoggerProvider(shutdown_on_exit=False)
        exporter = _exporter("_log_exporter", "OTLPLogExporter")
        made.loggers.add_log_record_processor(BatchLogRecordProcessor(exporter))
        _logs.set_logger_provider(made.loggers)
    if given.meters is None and _is_unset(metrics.get_meter_provider()) and _exports("METRICS"):
        exporter = _exporter("metric_exporter", "OTLPMetricExporter")
        made.meters = MeterProvider([PeriodicExportingMetricReader(exporter)], shutdown_on_exit=False)
        metrics.set_meter_provider(made.meters)


def goes_nowhere(provider: object) -> bool:
    """Whether a provider of logs or metrics is the API's own stand-in, which does nothing."""
    return provider is None or _is_unset(provider)


def _is_unset(provider: object) -> bool:
    """Whether the API's own stand-in was handed out, because no provider was set."""
    return type(provider).__module__.startswith(("opentelemetry._logs.", "opentelemetry.metrics."))


def _exports(signal: str) -> bool:
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    if os.environ.get(f"OTEL_{signal}_EXPORTER", "otlp").strip().lower() == "none":
        return False
    return bool(os.environ.get(f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT") or os.environ.get(_ENDPOINT))


def _exporter(module: str, name: str) -> Any:
    """The OTLP exporter of the protocol that OTEL_EXPORTER_OTLP_PROTOCOL names."""
    protocol = os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf").strip().lower()
    kinds = {"grpc": "grpc", "http/protobuf": "http"}
    if protocol not in kinds:
        raise ConfigError(
            "OTEL_EXPORTER_OTLP_PROTOCOL", f"{protocol!r} is unknown; use grpc or http/protobuf"
        )
    path = f"opentelemetry.exporter.otlp.proto.{kinds[protocol]}.{module}"
    try:
        return getattr(__import__(path, fromlist=[name]), name)()
    except ImportError as error:
        raise ConfigError(
            _ENDPOINT, f"is set, but the exporter is missing: pip install 'otel-evals[otlp]' ({error})"
        ) from error
