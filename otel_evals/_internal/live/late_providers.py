"""Lets a library set its global providers after `configure` has made some, and tells of its tracer provider.

OpenTelemetry lets global providers be set once. Those that `configure` makes where there are none must not
keep a library that is set up later from setting its own: the application's spans would never reach its
exporters. The API has no public way for this; its private fields are used here only, each access guarded.
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
    """Let the next provider of a signal that is set be the global one, where the present one was made here.

    Args:
        made: the tracer, logger and meter provider made here; None where there is none.
    """
    for provider, (module, name) in zip(made, _GLOBALS, strict=True):
        once: Any = getattr(module, f"{name}_SET_ONCE", None)
        if provider is not None and getattr(module, name, None) is provider and hasattr(once, "_done"):
            once._done = False


def notice_tracer_providers(tell: Callable[[Any], object]) -> None:
    """Have a function called with each global tracer provider that is set from now on."""
    set_provider: Any = getattr(trace_api, _SET, None)
    if set_provider is None or getattr(set_provider, "_otel_evals", False):
        return

    def set_and_tell(tracer_provider: Any, log: bool = True) -> None:
        set_provider(tracer_provider, log)
        if getattr(trace_api, "_TRACER_PROVIDER", None) is tracer_provider:
            try:
                tell(tracer_provider)
            except Exception:
                _logger.warning("a tracer provider that was set later is not scored", exc_info=True)

    set_and_tell._otel_evals = True  # type: ignore[attr-defined]  # a mark of ours
    setattr(trace_api, _SET, set_and_tell)
