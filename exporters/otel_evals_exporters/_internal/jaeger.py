"""Reads traces from Jaeger's query API: version 3, which returns OTLP, or the version before."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from otel_evals.destinations import HttpOptions, client, iso
from otel_evals.errors import DestinationError
from otel_evals.model import SpanRecord
from otel_evals.sources import LARGEST_ANSWER, TraceQuery, ask
from otel_evals_exporters._internal.options import optional, server_url
from otel_evals_exporters._internal.span_records import by_trace, in_parts, spans_of

_PAGE = 100
_MILLISECOND = 1_000_000
_OWN = {
    *(f"otel.{of}.{field}" for of in ("scope", "library") for field in ("name", "version")),
    *("otel.status_code", "otel.status_description", "span.kind", "w3c.tracestate", "internal.span.format"),
}
_TYPES = {"int64": "intValue", "float64": "doubleValue", "bool": "boolValue", "binary": "bytesValue"}


class JaegerTraces:
    """Reads the traces of a service, or of all services by default.

    The filter is `service=NAME`, `operation=NAME`, and attributes `NAME=VALUE` of any span or its resource.
    Times are as recorded, without Jaeger's adjustment of clock skew.
    """

    name = "jaeger"
    needs = ("JAEGER_URL",)

    def __init__(
        self,
        *,
        url: str | None = None,
        token: str | None = None,
        http: HttpOptions | Mapping[str, Any] | None = None,
    ) -> None:
        """Configure the source; no request is sent.

        Args:
            url: base URL; by default JAEGER_URL, or http://localhost:16686.
            token: sent as a bearer token; by default JAEGER_TOKEN.
            http: timeout, proxy, certificates and extra headers: the fields of `HttpOptions`.

        Raises:
            ConfigError: an option is wrong.
        """
        where = server_url(url, "JAEGER_URL", default="http://localhost:16686")
        key = optional(token, "token", "JAEGER_TOKEN")
        headers = {"authorization": f"Bearer {key}"} if key else {}
        self._http = client(where, headers, key, http=http)
        self._otlp = True

    async def read_traces(self, query: TraceQuery) -> AsyncIterator[Sequence[SpanRecord]]:
        """Yield the traces that began in the query's time range, service by service."""
        words = query.words()
        services = await self._services()
        if (service := words.pop("service", None)) is not None:
            services = [service]
        operation = words.pop("operation", "")
        seen: set[str] = set()
        for name in services:
            find = partial(self._find, name, operation)
            async for trace in in_parts(query.since, query.until, _MILLISECOND, find):
                if trace[0].trace_id not in seen and all(_has(trace, *word) for word in words.items()):
                    seen.add(trace[0].trace_id)
                    yield trace

    async def shutdown(self) -> None:
        await self._http.close()

    async def _services(self) -> list[str]:
        try:
            return list((await ask(self._http, "GET", "/api/v3/services")).get("services") or ())
        except DestinationError as error:
            if error.status != 404:
                raise
        self._otlp = False
        return list((await ask(self._http, "GET", "/api/services")).get("data") or ())

    async def _find(
        self, service: str, operation: str, start: int, end: int
    ) -> Sequence[list[SpanRecord]] | None:
        if self._otlp:
            path, params = "/api/v3/traces", _newer(service, operation, start, end)
        else:
            path, params = "/api/traces", _older(service, operation, start, end)
        try:
            answer = await ask(self._http, "GET", path, params=params, most=LARGEST_ANSWER)
        except DestinationError as error:
            if error.status == 404:
                return ()  # no traces
            if error.reason == "too_large" and end - start > _MILLISECOND:
                return None
            raise
        spans = spans_of(answer["result"]) if self._otlp else list(_older_spans(answer["data"] or ()))
        traces = by_trace(spans)
        return None if len(traces) >= _PAGE else list(traces.values())


def _newer(service: str, operation: str, start: int, end: int) -> dict[str, Any]:
    asked = {"service_name": service, "start_time_min": iso(start), "start_time_max": iso(end)}
    # Version 2.13 reads the first name, later versions the second.
    asked |= {"num_traces": str(_PAGE), "search_depth": str(_PAGE), "raw_traces": "true"}
    asked |= {"operation_name": operation} if operation else {}
    return {f"query.{name}": value for name, value in asked.items()}


def _older(service: str, operation: str, start: int, end: int) -> dict[str, Any]:
    asked = {"service": service, "start": start // 1000, "end": end // 1000, "limit": _PAGE, "raw": "true"}
    return asked | ({"operation": operation} if operation else {})


def _has(trace: Sequence[SpanRecord], name: str, value: str) -> bool:
    return any(_text(s.attributes.get(name)) == value or _text(s.resource.get(name)) == value for s in trace)


def _text(value: Any) -> str | None:
    return json.dumps(value) if isinstance(value, bool) else None if value is None else str(value)


def _older_spans(traces: Iterable[Mapping[str, Any]]) -> Iterator[SpanRecord]:
    for trace in traces:
        for span in trace["spans"]:
            process = trace.get("processes", {}).get(span.get("processID")) or {}
            service = {"key": "service.name", "type": "string", "value": process.get("serviceName", "")}
            yield from spans_of(_request(span, [service, *(process.get("tags") or ())]))


def _request(span: Mapping[str, Any], resource: Sequence[Mapping[str, Any]]) -> Any:
    """Return a span as an OTLP export request, with Jaeger's tags turned back into fields."""
    tags = {tag["key"]: tag.get("value") for tag in span.get("tags") or ()}
    start = int(span["startTime"]) * 1000
    parents: list[Mapping[str, Any]] = []
    links: list[Mapping[str, Any]] = []
    for reference in span.get("references") or ():
        own = reference.get("refType") == "CHILD_OF" and reference["traceID"] == span["traceID"]
        (parents if own else links).append(reference)
    code = str(tags.get("otel.status_code") or ("ERROR" if tags.get("error") in (True, "true") else "UNSET"))
    fields = {
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
    scoped = {"scope": {"name": name, "version": version}, "spans": [fields]}
    pairs = [_pair(tag) for tag in resource]
    return {"resourceSpans": [{"resource": {"attributes": pairs}, "scopeSpans": [scoped]}]}


def _pair(tag: Mapping[str, Any]) -> dict[str, Any]:
    return {"key": tag["key"], "value": {_TYPES.get(tag.get("type", ""), "stringValue"): tag.get("value")}}


def _event(log: Mapping[str, Any]) -> dict[str, Any]:
    fields = log.get("fields") or ()
    name = next((field["value"] for field in fields if field["key"] == "event"), "")
    pairs = [_pair(field) for field in fields if field["key"] != "event"]
    return {"name": name, "timeUnixNano": int(log["timestamp"]) * 1000, "attributes": pairs}
