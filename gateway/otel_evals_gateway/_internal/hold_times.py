"""How long spans are held for their scores, and how soon a trace is judged."""

from __future__ import annotations

from otel_evals import Config
from otel_evals.errors import ConfigError
from otel_evals_gateway._internal.options import GatewayOptions

_QUIET = 5.0
_HOLD_WITHOUT_JOURNAL = 5.0
"""Seconds that a request may wait for scores: half of an exporter's default timeout."""


def options_of(config: Config) -> GatewayOptions:
    """Return the gateway's section of a configuration, or the defaults."""
    found: GatewayOptions = config.sections.get("gateway") or GatewayOptions()
    return found


def hold_seconds(config: Config) -> float | None:
    """Return how long a judged span is held for its scores; None if none is."""
    if options_of(config).mode == "tap" or not config.holds:
        return None
    return config.hold if config.journal is not None else min(config.hold, _HOLD_WITHOUT_JOURNAL)


def quiet_seconds(config: Config) -> float:
    """Return how long a trace with its root must be quiet to be judged.

    Raises:
        ConfigError: scores could never be in time for the held spans.
    """
    quiet, hold = options_of(config).quiet, hold_seconds(config)
    if quiet is None:
        return _QUIET if hold is None else min(_QUIET, hold / 5)
    if hold is not None and quiet >= hold:
        reason = f"is {quiet:g} s, but spans are held for {hold:g} s only, too short for their scores"
        raise ConfigError("gateway.quiet", f"{reason}; fix: set a lower `quiet`, or `span_attributes: false`")
    return quiet
