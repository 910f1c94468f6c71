"""Scoring without touching code: `OTEL_EVALS_CONFIG=otel-evals.yaml opentelemetry-instrument python app.py`.

Two entry points of OpenTelemetry's auto-instrumentation lead here: `start` runs once the providers stand,
and `OTEL_TRACES_EXPORTER=otel_evals` puts the hold in front of the exporter that
`OTEL_EVALS_TRACES_EXPORTER` names (`otlp` by default), so that judged spans carry their scores.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from importlib.metadata import entry_points
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from otel_evals.errors import ConfigError

__all__ = ["CONFIG", "TRACES_EXPORTER", "HoldingExporter", "start"]

_logger = logging.getLogger(__name__)

CONFIG = "OTEL_EVALS_CONFIG"
"""Environment variable: path of the YAML configuration."""
TRACES_EXPORTER = "OTEL_EVALS_TRACES_EXPORTER"
"""Environment variable: name of the exporter behind the hold."""

_waiting: list[HoldingExporter] = []


class HoldingExporter(SpanExporter):
    """Stands in the provider until a pipeline is configured, and then holds judged spans for their scores.

    Raises:
        ConfigError: the exporter behind it is unknown or not installed.
    """

    def __init__(self) -> None:
        self._exporter: SpanExporter = _exporter(os.environ.get(TRACES_EXPORTER, "otlp").strip())
        _waiting.append(self)

    def hold_for(self, pipeline: Any) -> None:
        """Hold spans for the scores of a pipeline from now on."""
        self._exporter = pipeline.hold(self._exporter)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Export through the hold, or straight while there is none."""
        return self._exporter.export(spans)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Release what is held."""
        return self._exporter.force_flush(timeout_millis)

    def shutdown(self) -> None:
        """Release what is held and shut down."""
        self._exporter.shutdown()


def start() -> None:
    """Configure this process from the file that OTEL_EVALS_CONFIG names.

    A wrong configuration is logged as an error and leaves the application running, unscored.
    """
    path = os.environ.get(CONFIG, "").strip()
    if not path or os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return
    try:
        from otel_evals.config import load_config
        from otel_evals.process import install

        pipeline = install(load_config(path))
        for exporter in _waiting:
            exporter.hold_for(pipeline)
        _waiting.clear()
    except ConfigError as error:
        _logger.error("nothing will be scored: %s", error)
    except Exception:
        _logger.exception("nothing will be scored")


def _exporter(name: str) -> SpanExporter:
    alias = {"otlp": "otlp_proto_http"}
    if os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "").strip().lower() == "grpc":
        alias = {"otlp": "otlp_proto_grpc"}
    points = {
        p.name: p for p in entry_points(group="opentelemetry_traces_exporter") if p.name != "otel_evals"
    }
    point = points.get(alias.get(name, name))
    if point is None:
        known = ", ".join(sorted(points)) or "none; pip install 'otel-evals[otlp]'"
        raise ConfigError(TRACES_EXPORTER, f"there is no traces exporter {name!r}; installed are {known}")
    exporter: SpanExporter = point.load()()
    return exporter
