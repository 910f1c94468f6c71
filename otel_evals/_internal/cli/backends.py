"""Destinations in arguments of commands: NAME, or NAME=URL."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib.metadata import entry_points
from typing import Any
from urllib.parse import quote

from otel_evals._internal.config.plugins import build_destination
from otel_evals._internal.config.yaml_file import YamlFile
from otel_evals._internal.deliver.destination import ENTRY_POINT_GROUP
from otel_evals.errors import ConfigError


def backends() -> dict[str, Any]:
    """Return the installed destinations of other products, by name."""
    loaded = {point.name: point.load() for point in sorted(entry_points(group=ENTRY_POINT_GROUP))}
    return {name: each for name, each in loaded.items() if getattr(each, "kind", None) in ("api", "otel")}


def backend(place: str) -> Any:
    """Build a destination from NAME, or NAME=URL for a server of your own.

    Raises:
        ConfigError: the destination is unknown, or a key is missing.
    """
    name, _, url = place.partition("=")
    option = getattr(backends().get(name), "url_option", "url")
    try:
        return build_destination(name, {option: url} if url else {}, "--to")
    except ConfigError as error:
        field = f"--to {name}" if error.field == "--to" else error.field.replace("--to.", "--to ", 1)
        raise ConfigError(field, error.problem) from None


def backend_of_demo(place: str) -> Any:
    """Build a destination from NAME or NAME=URL that receives scores or telemetry of the demo.

    Raises:
        ConfigError: the destination is unknown, a key is missing, or it has no address for telemetry.
    """
    found, (name, _, url) = backend(place), place.partition("=")
    if url or hasattr(found, "send"):
        return found
    collector = f"give the address of a Collector that forwards to it: --to {name}=http://localhost:4318"
    if lacking := [variable for variable in found.needs if not os.environ.get(variable)]:
        raise ConfigError(f"--to {name}", f"is missing a key: set {' and '.join(lacking)}, or {collector}")
    if found.spans_to() is None:
        raise ConfigError(f"--to {name}", f"does not accept OTLP: {collector}")
    return found


def trace_link(option: str | None) -> str | None:
    """Return the address of traces, with placeholders for ids, if the option names a destination.

    Other options are returned unchanged. Without an option, use the first destination in the file of
    OTEL_EVALS_CONFIG that has an address.

    Raises:
        ConfigError: the destination lacks an option, or has no address for traces.
    """
    if option is None:
        return next(filter(None, map(_address, _configured())), None)
    if option not in backends():
        return option
    if (address := _address(backend(option))) is None:
        problem = f"{option} has no address for traces: give one with {{trace_id}}"
        raise ConfigError("--link", problem)
    return address


def _address(destination: Any) -> str | None:
    url = getattr(destination, "trace_url", lambda *_: None)("{trace_id}", "{span_id}")
    return str(url) if url else None


def _configured() -> Iterator[Any]:
    """Yield the backends among the configured destinations; skip those with mistakes."""
    path = os.environ.get("OTEL_EVALS_CONFIG")
    try:
        values = YamlFile(path).values if path else None
    except ConfigError:
        return
    given = values.get("destinations") if isinstance(values, dict) else None
    for place in given if isinstance(given, list) else ():
        named = place if isinstance(place, dict) else {place: None}
        for name, options in named.items():
            if name in backends():
                with suppress(Exception):  # destinations may raise anything
                    yield build_destination(name, options if isinstance(options, dict) else {}, "--link")


def send_spans_to(destination: Any) -> Mapping[str, str]:
    """Return OpenTelemetry variables to send spans to the same backend; empty if it does not accept OTLP."""
    where = getattr(destination, "spans_to", lambda: None)()
    if where is None:
        return {}
    address, headers = where
    # Backends that receive scores by their own API accept only spans at this address.
    kind = "TRACES_" if hasattr(destination, "send") else ""
    values = ",".join(f"{name}={quote(value)}" for name, value in headers.items() if value)
    variables = {f"OTEL_EXPORTER_OTLP_{kind}ENDPOINT": address, f"OTEL_EXPORTER_OTLP_{kind}HEADERS": values}
    return {name: value for name, value in variables.items() if value}
