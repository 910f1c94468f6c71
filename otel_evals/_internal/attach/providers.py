"""Tracer providers inside the wrappers that other libraries put around them."""

from __future__ import annotations

from typing import Any

_MAX_DEPTH = 6
_PROVIDERS = ("provider", "_provider", "_tracer_provider", "wrapped", "_wrapped")


def unwrapped(provider: Any) -> Any:
    """Return the SDK's provider inside its wrappers."""
    for _ in range(_MAX_DEPTH):
        if hasattr(provider, "_active_span_processor"):
            break
        inner = next((getattr(provider, name) for name in _PROVIDERS if hasattr(provider, name)), None)
        if inner is None or not hasattr(inner, "add_span_processor"):
            break
        provider = inner
    return provider
