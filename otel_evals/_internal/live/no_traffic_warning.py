"""Says once that nothing was seen, some time after scoring was configured, with the likely cause."""

from __future__ import annotations

import logging
import threading

from otel_evals._internal.live.doctor.process import likely_cause
from otel_evals._internal.live.providers import Providers
from otel_evals._internal.pipeline.pipeline import Pipeline

_logger = logging.getLogger(__name__)


class QuietWatch:
    """Waits on a daemon thread, `no_traffic_after` seconds.

    Args:
        pipeline: what is watched.
        used: the providers that it is connected to.
    """

    def __init__(self, pipeline: Pipeline, used: Providers) -> None:
        self._pipeline = pipeline
        self._used = used
        self._timer = threading.Timer(pipeline.config.no_traffic_after, self._look)
        self._timer.name = "otel-evals-quiet"
        self._timer.daemon = True
        try:
            self._timer.start()
        except RuntimeError:  # no thread can be had
            _logger.debug("whether anything is seen is not watched")

    def stop(self) -> None:
        """Watch no more."""
        self._timer.cancel()

    def _look(self) -> None:
        try:
            if self._pipeline.stats().seen:
                return
            cause = likely_cause(self._pipeline, self._used)
        except Exception:
            _logger.debug("whether anything was seen cannot be told", exc_info=True)
            return
        seconds = self._pipeline.config.no_traffic_after
        if cause is None:
            _logger.info("no run was seen in %g s, and no span of an agent or a model", seconds)
        else:
            _logger.warning("no run was seen in %g s: %s; to mend it: %s", seconds, cause.text, cause.fix)
