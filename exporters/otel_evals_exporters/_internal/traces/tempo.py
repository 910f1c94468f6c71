"""Traces from Grafana Tempo's HTTP API, found by TraceQL."""

from __future__ import annotations

import base64
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from otel_evals.destinations import HttpOptions, base_url, client, needed
from otel_evals.errors import DestinationError
from otel_evals.model import SpanRecord
from otel_evals.sources import LARGEST_ANSWER, TraceQuery, ask
from otel_evals_exporters._internal.traces.span_records import by_trace, in_parts, spans_of

_log = logging.getLogger(__name__)

_PAGE = 200
_SECOND = 1_000_000_000


class TempoTraces:
    """The traces that a TraceQL query finds, `{}` if there is none. Traces given in part are left out."""

    name = "tempo"
    needs = ("TEMPO_URL",)

    def __init__(
        self,
        *,
        url: str | None = None,
        user: str | None = None,
        token: str | None = None,
        tenant: str | None = None,
        http: HttpOptions | Mapping[str, Any] | None = None,
    ) -> None:
        """Name the server; nothing is asked yet.

        Args:
            url: base URL; TEMPO_URL, or http://localhost:3200, unless given.
            user: for Grafana Cloud, with the token as its password; TEMPO_USER unless given.
            token: sent as a bearer token where there is no user; TEMPO_TOKEN unless given.
            tenant: sent as X-Scope-OrgID; TEMPO_TENANT unless given.
            http: timeout, proxy, certificates and further headers: the fields of `HttpOptions`.

        Raises:
            ConfigError: an option is wrong.
        """
        where = base_url(needed(url, "url", "TEMPO_URL", default="http://localhost:3200"), "url")
        given = {"user": user, "token": token, "tenant": tenant}
        user, token, tenant = (
            needed(value, name, f"TEMPO_{name.upper()}", default=" ") for name, value in given.items()
        )
        basic = base64.b64encode(f"{user}:{token}".encode()).decode()
        headers = {"x-scope-orgid": tenant, "authorization": f"Basic {basic}" if user else f"Bearer {token}"}
        absent = {"x-scope-orgid": not tenant, "authorization": not token}
        sent = {name: value for name, value in headers.items() if not absent[name]}
        self._http = client(where, sent, token, basic, http=http)
        self._newest = True

    async def read_traces(self, query: TraceQuery) -> AsyncIterator[Sequence[SpanRecord]]:
        """The traces that the filter finds in the query's range of time."""
        seen: set[str] = set()

        async def find(start: int, end: int) -> Sequence[str] | None:
            return await self._find(query.filter or "{}", start, end)

        async for trace_id in in_parts(query.since, query.until, _SECOND, find):
            if trace_id not in seen:
                seen.add(trace_id)
                for trace in by_trace(await self._spans(trace_id)).values():
                    yield trace

    async def shutdown(self) -> None:
        """Close the connections."""
        await self._http.close()

    async def _find(self, query: str, start: int, end: int) -> Sequence[str] | None:
        params = {"q": query, "start": start // _SECOND, "end": -(-end // _SECOND), "limit": _PAGE, "spss": 1}
        found = (await ask(self._http, "GET", "/api/search", params=params)).get("traces") or ()
        # It leaves out zeros at the front.
        return None if len(found) >= _PAGE else [str(each["traceID"]).zfill(32) for each in found]

    async def _spans(self, trace_id: str) -> list[SpanRecord]:
        if self._newest:
            try:
                path = f"/api/v2/traces/{trace_id}"
                found = await ask(self._http, "GET", path, most=LARGEST_ANSWER)
            except DestinationError as error:
                if error.status != 404:
                    raise
                self._newest = False
            else:
                if found.get("status") == "PARTIAL":
                    _log.warning("trace %s is given in part: left out: %s", trace_id, found.get("message"))
                    return []
                return spans_of(found.get("trace") or found)
        found = await ask(self._http, "GET", f"/api/traces/{trace_id}", most=LARGEST_ANSWER)
        return spans_of({"resourceSpans": [_block(each) for each in found.get("batches") or ()]})


def _block(batch: Mapping[str, Any]) -> dict[str, Any]:
    """A batch, from before OTLP had scopes too."""
    old = batch.get("instrumentationLibrarySpans") or ()
    scoped = [{"scope": each.get("instrumentationLibrary"), "spans": each.get("spans")} for each in old]
    return {"resource": batch.get("resource"), "scopeSpans": batch.get("scopeSpans") or scoped}
