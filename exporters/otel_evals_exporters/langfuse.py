"""Scores in Langfuse, on observations and sessions, and its traces and scores read back.

Langfuse stores a span's attributes and messages separately.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from otel_evals.destinations import ApiDestination, HttpSettings, ScoreItem, cut, needed, server_url
from otel_evals.model import SpanRecord
from otel_evals.sdk.util import read_json
from otel_evals.sources import LARGEST_ANSWER, TraceQuery, ask, moment, paged
from otel_evals_exporters._internal.requests import basic, present
from otel_evals_exporters._internal.span_records import by_trace

__all__ = ["LangfuseDestination"]

_ENVIRONMENT = re.compile(r"(?!langfuse)[a-z0-9_-]{1,40}")
_COMMENT = 20_000
_PAGE = 100
_OBSERVATIONS = "/api/public/v2/observations"
_ALL = {
    "fields": "core,basic,time,io,metadata,model,usage",
    "expandMetadata": "attributes,resourceAttributes,scope",
}


class LangfuseDestination(ApiDestination):
    """Sends scores to Langfuse: numbers as NUMERIC, labels as separate CATEGORICAL scores `<name>.label`.

    Langfuse stores one score per id, name and day of its timestamp. The timestamp is the run's end, so a
    score sent again overwrites itself. Scores may arrive before their trace.
    """

    name = "langfuse"
    needs = ("LANGFUSE_PUBLIC_KEY", "LANGFUSE_SECRET_KEY")
    otlp_path = "/api/public/otel/v1/traces"

    def __init__(
        self,
        *,
        url: str | None = None,
        public_key: str | None = None,
        secret_key: str | None = None,
        content: bool = True,
        http: HttpSettings = None,
    ) -> None:
        """Configure the destination; no request is sent.

        Args:
            url: base URL; by default LANGFUSE_BASE_URL, LANGFUSE_HOST, or https://cloud.langfuse.com.
            public_key: by default LANGFUSE_PUBLIC_KEY.
            secret_key: by default LANGFUSE_SECRET_KEY.
            content: whether to send explanations, which may quote the conversation.
            http: timeout, proxy, certificates and extra headers: the fields of `HttpOptions`.

        Raises:
            ConfigError: a key is missing, or an option is wrong.
        """
        where = server_url(url, "LANGFUSE_BASE_URL", "LANGFUSE_HOST", default="https://cloud.langfuse.com")
        public = needed(public_key, "public_key", "LANGFUSE_PUBLIC_KEY")
        secret = needed(secret_key, "secret_key", "LANGFUSE_SECRET_KEY")
        super().__init__(where, basic(public, secret), content=content, http=http)

    async def send(self, items: Sequence[ScoreItem]) -> None:
        for item in items:
            for score in _scores(item):
                await self._http.send("POST", "/api/public/scores", score)

    def trace_url(self, trace_id: str, span_id: str) -> str | None:
        """Return an address that redirects to the trace's page."""
        return f"{self._http.url}/trace/{trace_id}"

    async def read(self, item: ScoreItem) -> Mapping[str, Any] | None:
        """Return the score stored by Langfuse, available some seconds after it was sent."""
        return dict((await self._http.send("GET", f"/api/public/v2/scores/{item.id}")).json())

    async def read_traces(self, query: TraceQuery) -> AsyncIterator[Sequence[SpanRecord]]:
        """Yield the traces with an observation that began in the range and matches the filter.

        The filter is parameters of Langfuse's list of observations: `environment=production userId=u-1`.
        """
        seen: set[str] = set()
        asked = {"fromStartTime": query.since_text, "toStartTime": query.until_text, **query.words()}
        asked |= {"fields": "core,basic"}
        async for each in self._pages(asked):
            trace_id = str(each["traceId"])
            # Each observation of a trace is listed.
            if trace_id in seen:
                continue
            seen.add(trace_id)
            found = self._pages({"traceId": trace_id, **_ALL})
            for trace in by_trace([_span(each) async for each in found]):
                yield trace

    def _pages(self, asked: Mapping[str, Any]) -> AsyncIterator[Any]:
        async def page(cursor: str | None) -> tuple[Sequence[Any], Any]:
            params = present({**asked, "limit": _PAGE, "cursor": cursor})
            found = await ask(self._http, "GET", _OBSERVATIONS, params=params, most=LARGEST_ANSWER)
            return found["data"], found["meta"].get("cursor")

        return paged(page)


def _scores(item: ScoreItem) -> list[dict[str, Any]]:
    judged = {"traceId": item.evaluation.trace_id, "observationId": item.span_id}
    environment = _ENVIRONMENT.fullmatch(str(item.run.resource.get("deployment.environment.name", "")))
    fields = {
        "timestamp": item.timestamp,
        "metadata": item.metadata,
        "comment": cut(item.explanation, _COMMENT),
        "environment": environment and environment[0],
        **({"sessionId": item.session} if item.session is not None else judged),
    }
    common = present(fields)
    number = {"id": item.id, "name": item.name, "value": item.value, "dataType": "NUMERIC"}
    label = {"id": f"{item.id}-label", "name": f"{item.name}.label", "dataType": "CATEGORICAL"}
    return [{**number, **common}] + ([{**label, "value": item.label, **common}] if item.label else [])


def _span(found: Mapping[str, Any]) -> SpanRecord:
    metadata = _mapping(found.get("metadata"))
    scope = _mapping(metadata.get("scope"))
    end = found.get("endTime")
    return SpanRecord(
        trace_id=str(found["traceId"]),
        span_id=str(found["id"]),
        parent_span_id=found.get("parentObservationId") or None,
        name=str(found.get("name") or ""),
        start_time=moment(found["startTime"]),
        end_time=moment(end) if end else None,
        attributes={**_observed(found), **_mapping(metadata.get("attributes"))},
        status="ERROR" if found.get("level") == "ERROR" else "UNSET",
        status_message=str(found.get("statusMessage") or ""),
        scope_name=str(scope.get("name") or ""),
        scope_version=str(scope.get("version") or ""),
        resource=_mapping(metadata.get("resourceAttributes")),
    )


def _observed(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that Langfuse stores apart from the attributes, as attributes of its SDK."""
    fields = {
        "type": str(found.get("type") or "span").lower(),
        "input": found.get("input"),
        "output": found.get("output"),
        "level": found.get("level"),
        "status_message": found.get("statusMessage"),
        "model.name": found.get("model") or found.get("providedModelName"),
        "usage_details": found.get("usageDetails"),
    }
    return {f"langfuse.observation.{name}": _text(value) for name, value in fields.items() if value}


def _mapping(value: Any) -> dict[str, Any]:
    """Return a mapping, also from its JSON; empty for anything else."""
    try:
        value = read_json(value) if isinstance(value, str) else value
    except ValueError:
        return {}
    return dict(value) if isinstance(value, Mapping) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
