"""The `gateway` section of the configuration: addresses, forwarding, limits, and the times that follow."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, PositiveInt
from pydantic.dataclasses import dataclass

from otel_evals import Config
from otel_evals.errors import ConfigError
from otel_evals.sdk.config import MODEL, PositiveSeconds, raises_config_errors

_ADDRESS = re.compile(r"\[?([^/\s]+?)\]?:([0-9]{1,5})")
_URL = re.compile(r"https?://[^/\s@?#]+(/[^\s?#]*)?(?<!/v1/traces)")


def host_and_port(address: str) -> tuple[str, int]:
    """Split an address such as `127.0.0.1:4318` or `[::1]:4318`; raise ConfigError if it is invalid."""
    found = _ADDRESS.fullmatch(address)
    if found is None or int(found[2]) > 65_535:
        raise ConfigError("", f"must be HOST:PORT, as in 127.0.0.1:4318, got {address!r:.100}")
    return found[1], int(found[2])


def _address(value: str) -> str:
    host_and_port(value)
    return value


def _url(value: str) -> str:
    url = value.rstrip("/")
    if not _URL.fullmatch(url) or urlsplit(url).port == 0:
        # The value is not shown, since it may have a password.
        raise ConfigError("", "must be a URL as in http://127.0.0.1:5318, without user, query and /v1/traces")
    return url


def _headers(headers: dict[str, str]) -> dict[str, str]:
    if not "".join(headers.values()).isprintable():
        raise ConfigError("", "has a value with a line break or another control character: remove it")
    return headers


_QUIET = 5.0
_HOLD_WITHOUT_JOURNAL = 5.0
"""Seconds that a request may wait for scores: half of an exporter's default timeout."""
_Address = Annotated[str, AfterValidator(_address)]


@raises_config_errors
@dataclass(frozen=True, config=MODEL, kw_only=True)
class TlsOptions:
    """TLS of the receivers; changed files are read again."""

    certificate: Path
    """PEM file with the server's certificate chain."""
    key: Path
    """PEM file with its private key."""
    client_ca: Path | None = None
    """PEM file with the authorities of client certificates; with it, every client needs a certificate."""


@raises_config_errors
@dataclass(frozen=True, config=MODEL, kw_only=True)
class KafkaTopics:
    """The topics that the Collector's Kafka exporter writes."""

    traces: str | None = "otlp_spans"
    """Topic of the traces, keyed by trace id; null disables it."""
    logs: str | None = None
    """Topic of the log records."""


@raises_config_errors
@dataclass(frozen=True, config=MODEL, kw_only=True)
class KafkaOptions:
    """A source of spans and log records in Kafka."""

    brokers: Annotated[tuple[str, ...], Field(min_length=1)]
    """Addresses of brokers, HOST:PORT."""
    group: Annotated[str, Field(min_length=1)] = "otel-evals"
    """The consumer group; its members share the partitions."""
    topics: KafkaTopics = Field(default_factory=KafkaTopics)
    """Topics to read."""
    dead_letters: Annotated[str, Field(min_length=1)] = "otel_evals_dead_letters"
    """Topic for messages that are not OTLP, with the reason in the header `otel_evals.reason`."""
    properties: dict[str, str] = Field(default_factory=dict)
    """Other properties of librdkafka, such as `security.protocol`."""

    def __post_init__(self) -> None:
        topics = [each for each in (self.topics.traces, self.topics.logs, self.dead_letters) if each]
        if len(topics) == 1:
            raise ConfigError("topics", "must name a topic of traces or of logs")
        if len(set(topics)) < len(topics):
            raise ConfigError("topics", f"must differ, and from `dead_letters`, got {', '.join(topics)}")


@raises_config_errors
@dataclass(frozen=True, config=MODEL, kw_only=True)
class GatewayOptions:
    """Addresses, forwarding and limits of the gateway."""

    mode: Literal["tap", "inline"] = "tap"
    """`tap` scores a copy of the traffic; `inline` forwards everything to `forward`."""
    http: _Address | None = "127.0.0.1:4318"
    """Address of the OTLP/HTTP receiver and of `/healthz`, `/readyz` and `/stats`; null disables it."""
    grpc: _Address | None = None
    """Address of the OTLP/gRPC receiver."""
    forward: Annotated[str, AfterValidator(_url)] | None = None
    """Base URL of the next OTLP/HTTP endpoint; used with `mode: inline` only."""
    forward_headers: Annotated[dict[str, str], AfterValidator(_headers)] = Field(default_factory=dict)
    """Headers of forwarded requests, such as an authorization."""
    forward_timeout: PositiveSeconds = 10.0
    """Seconds that the next endpoint may take to answer."""
    kafka: KafkaOptions | None = None
    """Reads spans and log records from Kafka, with or without receivers; never forwarded."""
    quiet: PositiveSeconds | None = None
    """Seconds without a new span after which a trace with its root span is judged. By default 5; with
    `mode: inline` at most a fifth of the time for which spans are held."""
    idle: PositiveSeconds = 30.0
    """Seconds without a new span after which any trace is judged."""
    max_body: PositiveInt = 20 * 1024 * 1024
    """Maximum size of a request's body as received, in bytes."""
    max_decompressed: PositiveInt = 64 * 1024 * 1024
    """Maximum size of a decompressed body, in bytes."""
    max_attributes: PositiveInt = 1_000
    """Maximum number of attributes; spans with more are rejected in tap, and not judged inline."""
    max_requests: PositiveInt = 256
    """Maximum number of requests in progress; more are answered with 503."""
    request_timeout: PositiveSeconds = 10.0
    """Seconds within which a request must arrive."""
    tokens: Path | None = None
    """File with bearer tokens, one per line; senders then need one. Read again when it changes."""
    tls: TlsOptions | None = None
    """TLS of the receivers."""

    def __post_init__(self) -> None:
        if self.mode == "inline" and self.forward is None:
            raise ConfigError("forward", "is needed with mode: inline: the next OTLP/HTTP endpoint")
        if self.http is None and self.grpc is None and self.kafka is None:
            raise ConfigError("http", "is needed without `grpc` and `kafka`: nothing would be received")


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
