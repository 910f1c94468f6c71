"""Scoring without code: `OTEL_EVALS_CONFIG=otel-evals.yaml opentelemetry-instrument python app.py`.

OpenTelemetry's auto-instrumentation uses two entry points of this module. It calls `start` once the providers
are set. `OTEL_TRACES_EXPORTER=otel_evals` selects `HoldingExporter`, which adds scores to judged spans and
passes them to the exporter of `OTEL_EVALS_TRACES_EXPORTER` (`otlp` by default).
"""

from __future__ import annotations

import logging
import os

from opentelemetry.sdk.trace.export import SpanExporter

from otel_evals._internal.attach.scoring_exporter import AdoptedExporter
from otel_evals._internal.util.installed import entry_points, install_hint
from otel_evals.errors import ConfigError

_logger = logging.getLogger(__name__)

CONFIG = "OTEL_EVALS_CONFIG"
"""Environment variable: path of the YAML configuration."""
TRACES_EXPORTER = "OTEL_EVALS_TRACES_EXPORTER"
"""Environment variable: name of the exporter behind the hold."""


class HoldingExporter(AdoptedExporter):
    """Holds judged spans for their scores, then exports them by OTEL_EVALS_TRACES_EXPORTER."""

    def __init__(self) -> None:
        super().__init__(_exporter(os.environ.get(TRACES_EXPORTER, "otlp").strip()))


def start() -> None:
    """Configure this process from the file of OTEL_EVALS_CONFIG.

    Errors in the configuration are logged; the application then runs without scoring.
    """
    path = os.environ.get(CONFIG, "").strip()
    if not path or os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return
    try:
        # Imported here: a process without the variable should not pay for it.
        from otel_evals._internal.live.configure import install

        install(path)
    except ConfigError as error:
        _logger.error("nothing will be scored: %s", error)
    except Exception:
        _logger.exception("nothing will be scored")


def _exporter(name: str) -> SpanExporter:
    variables = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
    protocol = next(filter(None, map(os.environ.get, variables)), "")
    otlp = "otlp_proto_grpc" if protocol.strip().lower() == "grpc" else "otlp_proto_http"
    # Without the own entry point, which would wrap itself for ever.
    points = {
        p.name: p for p in entry_points(group="opentelemetry_traces_exporter") if p.name != "otel_evals"
    }
    point = points.get(otlp if name == "otlp" else name)
    if point is None:
        known = ", ".join(sorted(points)) or f"none; {install_hint('otlp')}"
        raise ConfigError(TRACES_EXPORTER, f"there is no traces exporter {name!r}; installed: {known}")
    exporter: SpanExporter = point.load()()
    return exporter
