"""The page `/metrics`: all metrics in the text format of Prometheus."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider

_logger = logging.getLogger(__name__)

TextPage = Callable[[], tuple[int, str]]


def prometheus_page(meters: Any) -> tuple[Any, TextPage]:
    """Return the meter provider to use, and the page with its metrics.

    A provider that takes no reader, such as the API's own without OTLP export, is replaced by a new one. The
    page answers 501 without the exporter.
    """
    try:
        from opentelemetry.exporter.prometheus import PrometheusMetricReader
        from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector, generate_latest
    except ImportError as error:
        problem = f"/metrics needs opentelemetry-exporter-prometheus: {error}"
        _logger.warning(problem)
        return meters, lambda: (501, problem)
    registry = CollectorRegistry()
    reader = PrometheusMetricReader(registry=registry)
    if hasattr(meters, "add_metric_reader"):
        meters.add_metric_reader(reader)
    else:
        meters = MeterProvider([reader], shutdown_on_exit=False)
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    return meters, lambda: (200, generate_latest(registry).decode())
