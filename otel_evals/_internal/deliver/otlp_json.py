"""OTLP in JSON, as destinations write it that take scores as OpenTelemetry data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from otel_evals import semconv
from otel_evals._internal.deliver.items import ScoreItem
from otel_evals._internal.version import __version__


def one_resource(kind: str, records: Sequence[Mapping[str, Any]], service: object) -> dict[str, Any]:
    """An export request of spans or log records, all of one service.

    Args:
        kind: `span` or `log`.
        records: spans or log records, in OTLP's JSON form.
        service: the service's name.
    """
    part, list_ = ("Spans", "spans") if kind == "span" else ("Logs", "logRecords")
    scope = {"scope": {"name": semconv.SCOPE_NAME, "version": __version__}, list_: list(records)}
    resource = {"attributes": attributes_of({semconv.SERVICE_NAME: str(service or "unknown_service")})}
    return {f"resource{part}": [{"resource": resource, f"scope{part}": [scope]}]}


def attributes_of(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Attributes in OTLP's JSON form; those that are None are left out."""
    return [{"key": key, "value": _value(value)} for key, value in values.items() if value is not None]


def service_of(item: ScoreItem) -> str:
    """Name of the service that was judged; empty if it was not recorded."""
    return str(item.run.resource.get(semconv.SERVICE_NAME) or "")


def _value(value: Any) -> dict[str, Any]:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
    return {"stringValue": str(value)}
