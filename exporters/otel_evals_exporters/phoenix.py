"""Scores as annotations in Arize Phoenix, and its traces and annotations read back.

Phoenix stores neither resource nor scope of a span.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from msgspec.structs import replace

from otel_evals.destinations import ApiDestination, HttpSettings, ScoreItem, server_url
from otel_evals.errors import DestinationError
from otel_evals.model import SpanRecord
from otel_evals.sources import LARGEST_ANSWER, TraceQuery, ask, paged
from otel_evals_exporters._internal.requests import bearer, present
from otel_evals_exporters._internal.span_records import by_trace, spans_in

__all__ = ["PhoenixDestination"]

_RESERVED = "note"  # Phoenix reserves this name and refuses a whole batch that contains it
_TRACES = 25  # ids are part of the URL
_SPANS = 500
_FLATTENED = ("metadata", "tool.parameters", "llm.prompt_template.variables")


class PhoenixDestination(ApiDestination):
    """Annotates judged spans, their traces and sessions in Phoenix, one annotation per score.

    Phoenix shows a trace's own annotations in its list of traces and at the top of a trace's page, also if
    the judged agent is below another span, such as that of an HTTP server.
    Phoenix answers at once and attaches an annotation when its span arrives, for about ten minutes.
    A score sent twice overwrites itself; another version of the scorer gets an annotation of its own.
    PHOENIX_PROJECT_NAME limits what is read back to one project.
    """

    name = "phoenix"
    needs = ("PHOENIX_COLLECTOR_ENDPOINT",)
    most = 256
    at_once = 1  # later annotations must overwrite earlier ones
    otlp_path = "/v1/traces"

    def __init__(
        self,
        *,
        url: str | None = None,
        api_key: str | None = None,
        content: bool = True,
        http: HttpSettings = None,
    ) -> None:
        """Configure the destination; no request is sent.

        Args:
            url: base URL; by default PHOENIX_COLLECTOR_ENDPOINT, or http://localhost:6006.
            api_key: sent as a bearer token; by default PHOENIX_API_KEY.
            content: whether to send explanations, which may quote the conversation.
            http: timeout, proxy, certificates and extra headers: the fields of `HttpOptions`.

        Raises:
            ConfigError: `url` is not an http URL, an option is wrong, or httpx is not installed.
        """
        default = "http://localhost:6006"
        where = server_url(url, "PHOENIX_COLLECTOR_ENDPOINT", default=default, without="/v1/traces")
        key = api_key or os.environ.get("PHOENIX_API_KEY")
        super().__init__(where, bearer(key), content=content, http=http)

    async def send(self, items: Sequence[ScoreItem]) -> None:
        runs = [item for item in items if item.evaluation.span_id == item.run.root_span_id]
        # Each run of a trace has its own annotation; Phoenix shows their mean.
        annotations = {
            "span": [_annotation(i, span_id=i.span_id) for i in items],
            "trace": [
                _annotation(i, f"/{i.evaluation.span_id}", trace_id=i.evaluation.trace_id) for i in runs
            ],
            "session": [_annotation(i, session_id=i.session) for i in items if i.session is not None],
        }
        for kind, data in annotations.items():
            if data:
                await self._http.send("POST", f"/v1/{kind}_annotations", {"data": data})

    def trace_url(self, trace_id: str, span_id: str) -> str | None:
        return f"{self._http.url}/redirects/traces/{trace_id}"

    async def read(self, item: ScoreItem) -> Mapping[str, Any] | None:
        """Return the annotation of the judged span, which Phoenix has once the span has arrived."""
        sent = _annotation(item, span_id=item.span_id)
        for project in await self._projects(None):
            path = f"/v1/projects/{project}/span_annotations"
            async for found in self._items(path, {"span_ids": [item.span_id]}):
                # A span has annotations of other scorers and people, too.
                if all(found.get(key) == sent[key] for key in ("span_id", "name", "identifier")):
                    return dict(found)
        return None

    async def read_traces(self, query: TraceQuery) -> AsyncIterator[Sequence[SpanRecord]]:
        """Yield the traces of a project (from the filter or PHOENIX_PROJECT_NAME), or of all by default.

        The filter is `project=NAME`, and parameters of Phoenix's list of traces, as `session_identifier`.
        """
        words = query.words()
        for project in await self._projects(words.pop("project", None)):
            path = f"/v1/projects/{project}"
            asked = {"start_time": query.since_text, "end_time": query.until_text, "limit": _TRACES, **words}
            listed = self._items(f"{path}/traces", asked)
            ids = [str(trace["trace_id"]) async for trace in listed]
            for start in range(0, len(ids), _TRACES):
                for spans in await self._spans(path, ids[start : start + _TRACES]):
                    yield spans

    async def _projects(self, name: str | None) -> list[str]:
        wanted = name or os.environ.get("PHOENIX_PROJECT_NAME")
        if wanted:
            return [quote(wanted, safe="")]
        return [str(each["id"]) async for each in self._items("/v1/projects", {})]

    async def _spans(self, path: str, ids: Sequence[str]) -> list[list[SpanRecord]]:
        listed = self._items(f"{path}/spans/otlpv1", {"trace_id": ids, "limit": _SPANS})
        return by_trace(map(_as_sent, spans_in([span async for span in listed])))

    def _items(self, path: str, asked: Mapping[str, Any]) -> AsyncIterator[Any]:
        async def page(cursor: str | None) -> tuple[Sequence[Any], Any]:
            params = present({**asked, "cursor": cursor})
            try:
                found = await ask(self._http, "GET", path, params=params, most=LARGEST_ANSWER)
            except DestinationError as error:
                if error.status != 404 or not path.endswith("_annotations"):
                    raise
                return (), None  # the project has none of these spans
            return found["data"], found.get("next_cursor")

        return paged(page)


def _annotation(item: ScoreItem, part: str = "", **judged: str | None) -> dict[str, Any]:
    """Return the annotation of what is judged.

    Its identifier differs between the score of a run and of the conversation on the same span.
    """
    whole = "/conversation" if item.session is not None else ""
    result = {"score": item.value, "label": item.label, "explanation": item.explanation}
    return {
        **judged,
        "identifier": f"{item.name}@{item.evaluation.scorer_version}{whole}{part}",
        "name": f"otel_evals.{item.name}" if item.name == _RESERVED else item.name,
        "annotator_kind": item.source,
        "result": present(result),
        "metadata": item.metadata,
    }


def _as_sent(span: SpanRecord) -> SpanRecord:
    """Turn the attributes that Phoenix flattens back into the JSON that was sent."""
    attributes = dict(span.attributes)
    for name in _FLATTENED:
        keys = [key for key in attributes if key.startswith(f"{name}.")]
        values = {key.removeprefix(f"{name}."): attributes.pop(key) for key in keys}
        if values:
            attributes[name] = json.dumps(values, ensure_ascii=False, default=str)
    return replace(span, attributes=attributes)
