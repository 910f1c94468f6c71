"""The `gateway` section of the configuration: where the service listens, what it forwards, its limits."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, PositiveFloat, PositiveInt
from pydantic.dataclasses import dataclass

from otel_evals.errors import ConfigError
from otel_evals.sdk.config import MODEL, raises_config_errors

__all__ = ["GatewayOptions", "KafkaOptions", "KafkaTopics", "TlsOptions", "host_and_port"]


def host_and_port(address: str) -> tuple[str, int]:
    """The host and the port of an address such as `127.0.0.1:4318` or `[::1]:4318`.

    Raises:
        ConfigError: it is none.
    """
    host, colon, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise ConfigError("", f"must be HOST:PORT, as in 127.0.0.1:4318, got {address!r:.100}")
    return host, int(port)


def _address(value: str) -> str:
    host_and_port(value)
    return value


def _url(value: str) -> str:
    url = urlsplit(value)
    if url.scheme not in ("http", "https") or not url.netloc:
        raise ConfigError(
            "", f"must be an http or https URL, as in http://127.0.0.1:5318, got {value!r:.100}"
        )
    return value.rstrip("/")


_Address = Annotated[str, AfterValidator(_address)]


@raises_config_errors
@dataclass(frozen=True, config=MODEL, kw_only=True)
class TlsOptions:
    """TLS of the receivers; the files are read again when they change."""

    certificate: Path
    """PEM file of the server's certificate chain."""
    key: Path
    """PEM file of its private key."""
    client_ca: Path | None = None
    """PEM file of the authorities whose client certificates are accepted; with it, every client needs one."""


@raises_config_errors
@dataclass(frozen=True, config=MODEL, kw_only=True)
class KafkaTopics:
    """The topics that the Collector's Kafka exporter writes."""

    traces: str | None = "otlp_spans"
    """Topic of the traces, keyed by trace id; null for none."""
    logs: str | None = None
    """Topic of the log records."""


@raises_config_errors
@dataclass(frozen=True, config=MODEL, kw_only=True)
class KafkaOptions:
    """A source of spans and log records in Kafka."""

    brokers: Annotated[tuple[str, ...], Field(min_length=1)]
    """Addresses of brokers, HOST:PORT."""
    group: str = "otel-evals"
    """The consumer group; its members share the partitions."""
    topics: KafkaTopics = Field(default_factory=KafkaTopics)
    """Topics to read."""
    dead_letters: str = "otel_evals_dead_letters"
    """Topic for messages that are no OTLP, with the reason as the header `otel_evals.reason`."""
    properties: dict[str, str] = Field(default_factory=dict)
    """Further properties of librdkafka, such as `security.protocol`."""


@raises_config_errors
@dataclass(frozen=True, config=MODEL, kw_only=True)
class GatewayOptions:
    """Where the gateway listens, what it forwards, and its limits."""

    mode: Literal["tap", "inline"] = "tap"
    """`tap` takes a copy of the traffic; `inline` passes everything on to `forward`."""
    http: _Address | None = "127.0.0.1:4318"
    """Address of the OTLP/HTTP receiver and of `/healthz`, `/readyz` and `/stats`; null for none."""
    grpc: _Address | None = None
    """Address of the OTLP/gRPC receiver."""
    forward: Annotated[str, AfterValidator(_url)] | None = None
    """Base URL of the next OTLP/HTTP endpoint; used with `mode: inline` only."""
    forward_headers: dict[str, str] = Field(default_factory=dict)
    """Headers of what is forwarded, such as an authorization."""
    forward_timeout: PositiveFloat = 10.0
    """Seconds that the next endpoint may take to answer."""
    kafka: KafkaOptions | None = None
    """Reads spans and log records from Kafka, beside the receivers or instead of them; never forwarded."""
    quiet: PositiveFloat = 5.0
    """Seconds without a new span after which a trace is judged whose root span has arrived."""
    idle: PositiveFloat = 30.0
    """Seconds without a new span after which any trace is judged."""
    max_body: PositiveInt = 20 * 1024 * 1024
    """Bytes that the body of a request may have as it comes."""
    max_decompressed: PositiveInt = 64 * 1024 * 1024
    """Bytes that it may have without its compression."""
    max_attributes: PositiveInt = 1_000
    """Attributes that a span may have; those with more are rejected in tap, and not judged inline."""
    max_requests: PositiveInt = 256
    """Requests that may be in progress at once; more are answered with 503."""
    request_timeout: PositiveFloat = 10.0
    """Seconds in which a request must have arrived."""
    tokens: Path | None = None
    """File of bearer tokens, one per line; one of them is required then. Read again when it changes."""
    tls: TlsOptions | None = None
    """TLS of the receivers."""

    def __post_init__(self) -> None:
        if self.mode == "inline" and self.forward is None:
            raise ConfigError("forward", "is needed with mode: inline: the next OTLP/HTTP endpoint")
        if self.http is None and self.grpc is None and self.kafka is None:
            raise ConfigError("http", "is needed, unless there is `grpc` or `kafka`: nothing would come in")
