"""Spans as Jaeger's query API before version 3 tells them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from otel_evals.model import SpanRecord
from otel_evals_exporters._internal.traces.span_records import spans_of

_OWN = {
    "otel.scope.name",
    "otel.scope.version",
    "otel.library.name",
    "otel.library.version",
    "otel.status_code",
    "otel.status_description",
    "span.kind",
    "w3c.tracestate",
    "internal.span.format",
}
_TYPES = {"int64": "intValue", "float64": "doubleValue", "bool": "boolValue", "binary": "bytesValue"}


def older_spans(traces: Iterable[Mapping[str, Any]]) -> Iterator[SpanRecord]:
    """The spans of an answer."""
    for trace in traces:
        for span in trace["spans"]:
            process = trace.get("processes", {}).get(span.get("processID")) or {}
            service = {"key": "service.name", "type": "string", "value": process.get("serviceName", "")}
            yield from spans_of(_request(span, [service, *(process.get("tags") or ())]))


def _request(span: Mapping[str, Any], resource: Sequence[Mapping[str, Any]]) -> Any:
    """A span as an export request of OTLP; what Jaeger made tags of is what it was."""
    tags = {tag["key"]: tag.get("value") for tag in span.get("tags") or ()}
    start = int(span["startTime"]) * 1000
    parents: list[Mapping[str, Any]] = []
    links: list[Mapping[str, Any]] = []
    for reference in span.get("references") or ():
        own = reference.get("refType") == "CHILD_OF" and reference["traceID"] == span["traceID"]
        (parents if own else links).append(reference)
    code = str(tags.get("otel.status_code") or ("ERROR" if tags.get("error") in (True, "true") else "UNSET"))
    said = {
        "traceId": str(span["traceID"]).zfill(32),
        "spanId": str(span["spanID"]).zfill(16),
        "parentSpanId": str(parents[0]["spanID"]).zfill(16) if parents else "",
        "name": span["operationName"],
        "kind": str(tags.get("span.kind", "")).upper(),
        "startTimeUnixNano": start,
        "endTimeUnixNano": start + int(span["duration"]) * 1000,
        "attributes": [_pair(tag) for tag in span.get("tags") or () if tag["key"] not in _OWN],
        "events": [_event(log) for log in span.get("logs") or ()],
        "links": [{"traceId": str(r["traceID"]).zfill(32), "spanId": str(r["spanID"])} for r in links],
        "status": {"code": code.upper(), "message": tags.get("otel.status_description", "")},
        "traceState": tags.get("w3c.tracestate", ""),
    }
    name = tags.get("otel.scope.name") or tags.get("otel.library.name") or ""
    version = tags.get("otel.scope.version") or tags.get("otel.library.version") or ""
    scoped = {"scope": {"name": name, "version": version}, "spans": [said]}
    pairs = [_pair(tag) for tag in resource]
    return {"resourceSpans": [{"resource": {"attributes": pairs}, "scopeSpans": [scoped]}]}


def _pair(tag: Mapping[str, Any]) -> dict[str, Any]:
    return {"key": tag["key"], "value": {_TYPES.get(tag.get("type", ""), "stringValue"): tag.get("value")}}


def _event(log: Mapping[str, Any]) -> dict[str, Any]:
    fields = log.get("fields") or ()
    name = next((field["value"] for field in fields if field["key"] == "event"), "")
    pairs = [_pair(field) for field in fields if field["key"] != "event"]
    return {"name": name, "timeUnixNano": int(log["timestamp"]) * 1000, "attributes": pairs}
