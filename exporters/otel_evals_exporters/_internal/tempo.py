"""Reads traces from Grafana Tempo's HTTP API with TraceQL."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Sequence
from functools import partial

from otel_evals.destinations import HttpClient, HttpSettings, server_url
from otel_evals.model import SpanRecord
from otel_evals.sources import LARGEST_ANSWER, TraceQuery, ask
from otel_evals_exporters._internal.requests import basic, bearer
from otel_evals_exporters._internal.span_records import by_trace, in_parts, spans_of

_log = logging.getLogger(__name__)

_PAGE = 200
_SECOND = 1_000_000_000


class TempoTraces:
    """Reads the traces found by a TraceQL query, by default `{}`. Partial traces are skipped."""

    name = "tempo"
    needs = ("TEMPO_URL",)

    def __init__(
        self,
        *,
        url: str | None = None,
        user: str | None = None,
        token: str | None = None,
        tenant: str | None = None,
        http: HttpSettings = None,
    ) -> None:
        """Configure the source; no request is sent.

        Args:
            url: base URL; by default TEMPO_URL, or http://localhost:3200.
            user: user of Grafana Cloud, with the token as password; by default TEMPO_USER.
            token: sent as a bearer token if there is no user; by default TEMPO_TOKEN.
            tenant: sent as X-Scope-OrgID; by default TEMPO_TENANT.
            http: timeout, proxy, certificates and extra headers: the fields of `HttpOptions`.

        Raises:
            ConfigError: an option is wrong.
        """
        where = server_url(url, "TEMPO_URL", default="http://localhost:3200")
        user, token = user or os.environ.get("TEMPO_USER"), token or os.environ.get("TEMPO_TOKEN")
        tenant = tenant or os.environ.get("TEMPO_TENANT")
        headers = basic(user, token) if user and token else bearer(token)
        headers |= {"x-scope-orgid": tenant} if tenant else {}
        self._http = HttpClient(where, headers, http)

    async def read_traces(self, query: TraceQuery) -> AsyncIterator[Sequence[SpanRecord]]:
        seen: set[str] = set()
        find = partial(self._find, query.filter or "{}")
        async for trace_id in in_parts(query.since, query.until, _SECOND, find):
            if trace_id not in seen:
                seen.add(trace_id)
                for trace in by_trace(await self._spans(trace_id)):
                    yield trace

    async def shutdown(self) -> None:
        await self._http.close()

    async def _find(self, query: str, start: int, end: int) -> Sequence[str] | None:
        params = {"q": query, "start": start // _SECOND, "end": -(-end // _SECOND), "limit": _PAGE, "spss": 1}
        found = (await ask(self._http, "GET", "/api/search", params=params)).get("traces") or ()
        # Tempo omits leading zeros.
        return None if len(found) >= _PAGE else [str(each["traceID"]).zfill(32) for each in found]

    async def _spans(self, trace_id: str) -> list[SpanRecord]:
        found = await ask(self._http, "GET", f"/api/v2/traces/{trace_id}", most=LARGEST_ANSWER)
        if found.get("status") == "PARTIAL":
            _log.warning("skipping partial trace %s: %s", trace_id, found.get("message"))
            return []
        return spans_of(found["trace"])
