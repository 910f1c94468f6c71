"""Reads traces from version 3 of Jaeger's query API, which returns OTLP."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from functools import partial

from otel_evals.destinations import HttpClient, HttpSettings, iso, server_url
from otel_evals.errors import ConfigError, DestinationError
from otel_evals.model import SpanRecord
from otel_evals.sources import LARGEST_ANSWER, TraceQuery, ask
from otel_evals_exporters._internal.requests import bearer
from otel_evals_exporters._internal.span_records import by_trace, in_parts, spans_of

_PAGE = 100
_MILLISECOND = 1_000_000


class JaegerTraces:
    """Reads the traces of a service, or of all services by default.

    The filter is `service=NAME` and `operation=NAME`.
    Times are as recorded, without Jaeger's adjustment of clock skew.
    """

    name = "jaeger"
    needs = ("JAEGER_URL",)

    def __init__(
        self,
        *,
        url: str | None = None,
        token: str | None = None,
        http: HttpSettings = None,
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
        self._http = HttpClient(where, bearer(token or os.environ.get("JAEGER_TOKEN")), http)

    async def read_traces(self, query: TraceQuery) -> AsyncIterator[Sequence[SpanRecord]]:
        words = query.words()
        services = [words.pop("service")] if "service" in words else await self._services()
        operation = words.pop("operation", "")
        if words:
            raise ConfigError("--filter", f"takes service=NAME and operation=NAME, not {', '.join(words)}")
        # A trace of several services is found once for each.
        seen: set[str] = set()
        for name in services:
            find = partial(self._find, name, operation)
            async for trace in in_parts(query.since, query.until, _MILLISECOND, find):
                if trace[0].trace_id not in seen:
                    seen.add(trace[0].trace_id)
                    yield trace

    async def shutdown(self) -> None:
        await self._http.close()

    async def _services(self) -> list[str]:
        return list((await ask(self._http, "GET", "/api/v3/services")).get("services") or ())

    async def _find(
        self, service: str, operation: str, start: int, end: int
    ) -> Sequence[list[SpanRecord]] | None:
        asked = {"service_name": service, "start_time_min": iso(start), "start_time_max": iso(end)}
        # Version 2.13 reads the first name, later versions the second.
        asked |= {"num_traces": str(_PAGE), "search_depth": str(_PAGE), "raw_traces": "true"}
        asked |= {"operation_name": operation} if operation else {}
        params = {f"query.{name}": value for name, value in asked.items()}
        try:
            answer = await ask(self._http, "GET", "/api/v3/traces", params=params, most=LARGEST_ANSWER)
        except DestinationError as error:
            if error.status == 404:
                return ()  # no traces
            if error.reason == "too_large" and end - start > _MILLISECOND:
                return None
            raise
        traces = by_trace(spans_of(answer["result"]))
        return None if len(traces) >= _PAGE else traces
