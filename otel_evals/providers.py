"""Makes OpenTelemetry providers for processes that have none, exporting by OTLP where an endpoint is set."""

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
from otel_evals.pipeline import Pipeline

__all__ = ["Providers", "make_providers"]

_logger = logging.getLogger(__name__)
_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


@dataclass(slots=True)
class Providers:
    """Providers of the three signals; None where there is none of ours."""

    tracers: Any = None
    loggers: Any = None
    meters: Any = None

    def force_flush(self, timeout_millis: int) -> bool:
        """Flush those there are."""
        done = True
        for provider in (self.tracers, self.loggers, self.meters):
            if hasattr(provider, "force_flush"):  # the API's own providers have none
                done = provider.force_flush(timeout_millis) and done
        return done

    def shutdown(self) -> None:
        """Shut down those there are, the meters last: they count what the others lose."""
        for provider in (self.tracers, self.loggers, self.meters):
            if provider is not None:
                provider.shutdown()


def make_providers(tracers: TracerProvider, pipeline: Pipeline, given: Providers) -> Providers:
    """Export a fresh tracer provider, and make and set the providers of logs and metrics that are not given.

    Raises:
        ConfigError: an OTLP endpoint is set and the exporter is not installed.
    """
    made = Providers(tracers)
    trace.set_tracer_provider(tracers)
    if _exports("TRACES"):
        tracers.add_span_processor(
            BatchSpanProcessor(pipeline.hold(_exporter("trace_exporter", "OTLPSpanExporter")))
        )
    if given.loggers is None and _exports("LOGS"):
        made.loggers = LoggerProvider(shutdown_on_exit=False)
        exporter = _exporter("_log_exporter", "OTLPLogExporter")
        made.loggers.add_log_record_processor(BatchLogRecordProcessor(exporter))
        _logs.set_logger_provider(made.loggers)
    if given.meters is None and _exports("METRICS"):
        exporter = _exporter("metric_exporter", "OTLPMetricExporter")
        made.meters = MeterProvider([PeriodicExportingMetricReader(exporter)], shutdown_on_exit=False)
        metrics.set_meter_provider(made.meters)
    return made


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
