"""The page `/metrics`: the metrics of a MeterProvider in the text format of Prometheus."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

_logger = logging.getLogger(__name__)

TextPage = Callable[[], tuple[int, str]]


def prometheus_page(meter_provider: Any) -> TextPage:
    """Return the page; it answers 501 if the provider or the installed libraries cannot serve it."""
    try:
        return _page(meter_provider)
    except Exception as error:  # no exporter, or a provider that takes no further reader
        problem = f"/metrics needs opentelemetry-exporter-prometheus and a recent opentelemetry-sdk: {error}"
        _logger.debug(problem)
        return lambda: (501, problem)


def _page(meter_provider: Any) -> TextPage:
    from opentelemetry.exporter.prometheus import PrometheusMetricReader
    from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector, generate_latest

    registry = CollectorRegistry()
    meter_provider.add_metric_reader(PrometheusMetricReader(registry=registry))
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    return lambda: (200, generate_latest(registry).decode())
