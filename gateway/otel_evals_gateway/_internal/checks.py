"""Checks of a configuration that need no connection, at startup and in `otel-evals config check`."""

from __future__ import annotations

import os
import socket
from urllib.parse import urlsplit

from otel_evals import Config
from otel_evals.errors import ConfigError
from otel_evals_gateway._internal.options import (
    GatewayOptions,
    KafkaOptions,
    host_and_port,
    options_of,
    quiet_seconds,
)
from otel_evals_gateway._internal.receiver.access import BearerTokens, tls_context


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
    if options.kafka is not None:
        _check_conversations(config, options.kafka)


def _check_conversations(config: Config, kafka: KafkaOptions) -> None:
    rules = [rule for rule in config.rules if rule.scope == "conversation"]
    if rules and kafka.topics.conversations is None:
        problem = (
            "`conversations` is needed for rules of scope conversation: traces are spread over the group, "
            "so each member would score a part of a conversation"
        )
        raise ConfigError("gateway.kafka.topics", problem)
    if rules and config.journal is not None:
        problem = (
            "cannot be combined with rules of scope conversation over Kafka, which keep their runs in a topic"
        )
        raise ConfigError("journal", problem)
    if any(rule.sampling.floor < 1.0 for rule in rules) and not os.environ.get("OTEL_EVALS_TRUST_KEY"):
        problem = (
            "conversations are sampled by a hash with the deployment's key, and other members would sample "
            "others; fix: set OTEL_EVALS_TRUST_KEY to the same value for all members"
        )
        raise ConfigError("rules", problem)


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
