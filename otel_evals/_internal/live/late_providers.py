"""Lets libraries replace the global providers that `configure` created, and reports their tracer provider.

OpenTelemetry allows global providers to be set once. If `configure` created some, a library that is set up
later could not set its own, and the application's spans would never reach that library's exporters. The API
has no public way to replace them; this is the only module that uses its private fields, each access guarded.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import opentelemetry._logs._internal as logs_api
import opentelemetry.metrics._internal as metrics_api
from opentelemetry import trace as trace_api

_logger = logging.getLogger(__name__)
_GLOBALS = (
    (trace_api, "_TRACER_PROVIDER"),
    (logs_api, "_LOGGER_PROVIDER"),
    (metrics_api, "_METER_PROVIDER"),
)
_SET = "_set_tracer_provider"


def stay_replaceable(made: tuple[Any, Any, Any]) -> None:
    """Allow these tracer, logger and meter providers to be replaced as the global ones."""
    for provider, (module, name) in zip(made, _GLOBALS, strict=True):
        once: Any = getattr(module, f"{name}_SET_ONCE", None)
        if provider is not None and getattr(module, name, None) is provider and hasattr(once, "_done"):
            once._done = False


def notice_tracer_providers(notify: Callable[[Any], object]) -> None:
    """Call a function with each global tracer provider that is set later."""
    set_provider: Any = getattr(trace_api, _SET, None)
    if set_provider is None or getattr(set_provider, "_otel_evals", False):
        return

    def set_and_notify(tracer_provider: Any, log: bool = True) -> None:
        set_provider(tracer_provider, log)
        if getattr(trace_api, "_TRACER_PROVIDER", None) is tracer_provider:
            try:
                notify(tracer_provider)
            except Exception:
                _logger.warning("a tracer provider that was set later is not scored", exc_info=True)

    set_and_notify._otel_evals = True  # type: ignore[attr-defined]  # marks the replaced function
    setattr(trace_api, _SET, set_and_notify)
