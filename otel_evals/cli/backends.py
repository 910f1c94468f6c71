"""Destinations by name, as commands take them: NAME, or NAME=URL."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any
from urllib.parse import quote

from otel_evals.config.names import build_destination
from otel_evals.errors import ConfigError
from otel_evals.export import ENTRY_POINT_GROUP

__all__ = ["backend", "backends", "send_spans_to"]


def backends() -> dict[str, Any]:
    """The installed destinations that stand for another product, by name."""
    points: list[EntryPoint] = sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda point: point.name)
    loaded = {point.name: point.load() for point in points}
    return {name: each for name, each in loaded.items() if getattr(each, "kind", None) in ("api", "otel")}


def backend(place: str) -> Any:
    """A destination by NAME, or by NAME=URL where its server is not the usual one.

    Raises:
        ConfigError: there is no such destination, or a key is missing.
    """
    name, _, url = place.partition("=")
    option = getattr(backends().get(name), "url_option", "url")
    try:
        return build_destination(name, {option: url} if url else {}, "--to")
    except ConfigError as error:
        field = f"--to {name}" if error.field == "--to" else error.field.replace("--to.", "--to ", 1)
        raise ConfigError(field, error.problem) from None


def send_spans_to(destination: Any) -> Mapping[str, str]:
    """The OpenTelemetry variables by which spans go to the same backend; none where it takes none by OTLP."""
    where = getattr(destination, "spans_to", lambda: None)()
    if where is None:
        return {}
    address, headers = where
    # Backends with an address of their own for spans take nothing else there.
    kind = "TRACES_" if address.endswith("/traces") else ""
    values = ",".join(f"{name}={quote(value)}" for name, value in headers.items() if value)
    variables = {f"OTEL_EXPORTER_OTLP_{kind}ENDPOINT": address, f"OTEL_EXPORTER_OTLP_{kind}HEADERS": values}
    return {name: value for name, value in variables.items() if value}
