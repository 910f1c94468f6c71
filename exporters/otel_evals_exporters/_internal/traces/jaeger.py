"""Traces from Jaeger's query API: version 3, which speaks OTLP, or the one before it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from otel_evals.destinations import HttpOptions, base_url, client, iso, needed
from otel_evals.errors import DestinationError
from otel_evals.model import SpanRecord
from otel_evals.sources import LARGEST_ANSWER, TraceQuery, ask
from otel_evals_exporters._internal.traces.jaeger_tags import older_spans
from otel_evals_exporters._internal.traces.span_records import by_trace, in_parts, spans_of

_PAGE = 100
_MILLISECOND = 1_000_000


class JaegerTraces:
    """The traces of a service, or of all of them.

    The filter is `service=NAME`, `operation=NAME` and attributes, `NAME=VALUE`, which some span has, or its
    resource. Times are as they were recorded: clock skew is not adjusted.
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
        """Name the server; nothing is asked yet.

        Args:
            url: base URL; JAEGER_URL, or http://localhost:16686, unless given.
            token: sent as a bearer token; JAEGER_TOKEN unless given.
            http: timeout, proxy, certificates and further headers: the fields of `HttpOptions`.

        Raises:
            ConfigError: an option is wrong.
        """
        where = base_url(needed(url, "url", "JAEGER_URL", default="http://localhost:16686"), "url")
        key = needed(token, "token", "JAEGER_TOKEN", default=" ")
        headers = {} if not key else {"authorization": f"Bearer {key}"}
        self._http = client(where, headers, key, http=http)
        self._otlp = True

    async def read_traces(self, query: TraceQuery) -> AsyncIterator[Sequence[SpanRecord]]:
        """The traces that began in the query's range of time, service by service."""
        words = query.words()
        services = await self._services()
        if (service := words.pop("service", None)) is not None:
            services = [service]
        operation = words.pop("operation", "")
        seen: set[str] = set()
        for name in services:

            async def find(start: int, end: int, name: str = name) -> Sequence[list[SpanRecord]] | None:
                return await self._find(name, operation, start, end)

            async for trace in in_parts(query.since, query.until, _MILLISECOND, find):
                if trace[0].trace_id not in seen and all(_has(trace, *word) for word in words.items()):
                    seen.add(trace[0].trace_id)
                    yield trace

    async def shutdown(self) -> None:
        """Close the connections."""
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
                return ()  # there is none
            if error.reason == "too_large" and end - start > _MILLISECOND:
                return None
            raise
        spans = spans_of(answer["result"]) if self._otlp else list(older_spans(answer["data"] or ()))
        traces = by_trace(spans)
        return None if len(traces) >= _PAGE else list(traces.values())


def _newer(service: str, operation: str, start: int, end: int) -> dict[str, Any]:
    asked = {"service_name": service, "start_time_min": iso(start), "start_time_max": iso(end)}
    # One name of it is that of version 2.13, the other that of those after it.
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
