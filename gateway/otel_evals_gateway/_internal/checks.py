"""Checks of a configuration that need no connection, at the start and with `--check`."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

from otel_evals import Config
from otel_evals.errors import ConfigError
from otel_evals_gateway._internal.options import GatewayOptions, host_and_port
from otel_evals_gateway._internal.receiver.access import BearerTokens, tls_context

_QUIET = 5.0
_HOLD_WITHOUT_STORE = 5.0
"""Seconds that a request may wait for scores: half of an exporter's default timeout."""


def options_of(config: Config) -> GatewayOptions:
    """Return the gateway's section of a configuration, or the defaults."""
    found: GatewayOptions = config.sections.get("gateway") or GatewayOptions()
    return found


def check(config: Config) -> None:
    """Raise ConfigError for files that cannot be used, and for options that do not work together."""
    options = options_of(config)
    if options.tokens is not None:
        BearerTokens(options.tokens)
    if options.tls is not None:
        tls_context(options.tls)
    if options.mode == "inline":
        _check_forward(options)
        quiet_seconds(config)


def hold_seconds(config: Config) -> float | None:
    """Return how long a judged span is held for its scores; None if none is."""
    if options_of(config).mode == "tap" or not config.holds:
        return None
    return config.hold if config.store is not None else min(config.hold, _HOLD_WITHOUT_STORE)


def quiet_seconds(config: Config) -> float:
    """Return how long a trace with its root must be quiet to be judged.

    Raises:
        ConfigError: scores could never be in time for the held spans.
    """
    quiet, hold = options_of(config).quiet, hold_seconds(config)
    if quiet is None:
        return _QUIET if hold is None else min(_QUIET, hold / 5)
    if hold is not None and quiet >= hold:
        reason = f"is {quiet:g} s, but spans are held for {hold:g} s only: scores would always come too late"
        fix = (
            "set a lower `quiet`" if config.store else "set a lower `quiet`, or a `store` and a higher `hold`"
        )
        raise ConfigError("gateway.quiet", f"{reason}; fix: {fix}, or `span_attributes: false`")
    return quiet


def _check_forward(options: GatewayOptions) -> None:
    forward = urlsplit(options.forward or "")
    port = forward.port or (443 if forward.scheme == "https" else 80)
    for address in filter(None, (options.http, options.grpc)):
        host, own_port = host_and_port(address)
        if port and port == own_port and _addresses(forward.hostname or "") & _addresses(host):
            raise ConfigError("gateway.forward", f"{options.forward} is the gateway itself, at {address}")


def _addresses(host: str) -> set[str]:
    """Return the addresses of a host, with those of this machine for an address that stands for all."""
    hosts = [host, "localhost", socket.gethostname()] if host in ("0.0.0.0", "::") else [host]
    found: set[str] = set()
    for each in hosts:
        try:
            found |= {str(info[4][0]) for info in socket.getaddrinfo(each, None)}
        except OSError:
            found.add(each)
    return found
