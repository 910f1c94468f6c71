"""Logs once, some time after scoring was configured, that no run was seen, with the likely cause."""

from __future__ import annotations

import logging
from threading import Timer

from otel_evals._internal.live.doctor.process import likely_cause
from otel_evals._internal.live.providers import Providers
from otel_evals._internal.pipeline.pipeline import Pipeline

_logger = logging.getLogger(__name__)


def start_timer(pipeline: Pipeline, used: Providers) -> Timer:
    """Check a pipeline once, `no_traffic_after` seconds from now, on a daemon thread."""
    timer = Timer(pipeline.config.no_traffic_after, _warn, (pipeline, used))
    timer.name = "otel-evals-no-traffic"
    timer.daemon = True
    try:
        timer.start()
    except RuntimeError:
        _logger.debug("no thread is available to check for traffic")
    return timer


def _warn(pipeline: Pipeline, used: Providers) -> None:
    try:
        if pipeline.stats().seen:
            return
        cause = likely_cause(pipeline, used)
    except Exception:
        _logger.debug("could not check for traffic", exc_info=True)
        return
    seconds = pipeline.config.no_traffic_after
    if cause is None:
        _logger.info("no run was seen in %g s, and no span of an agent or a model", seconds)
    else:
        _logger.warning("no run was seen in %g s: %s; fix: %s", seconds, cause.text, cause.fix)
