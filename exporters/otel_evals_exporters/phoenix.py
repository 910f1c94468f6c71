"""Scores as span annotations in Arize Phoenix."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from otel_evals.destinations import ApiDestination, Errors, HttpOptions, ScoreItem, client
from otel_evals.errors import ConfigError
from otel_evals.model import Feedback, SpanRecord
from otel_evals.sources import FeedbackQuery, TraceQuery
from otel_evals_exporters._internal.options import present, server_url
from otel_evals_exporters._internal.phoenix import phoenix_feedback, phoenix_traces

__all__ = ["PhoenixDestination"]

_RESERVED = "note"  # Phoenix reserves this name and refuses a whole batch that contains it


class PhoenixDestination(ApiDestination):
    """Annotates judged spans, their traces and sessions in Phoenix, one annotation per score.

    Phoenix shows a trace's own annotations in its list of traces and at the top of a trace's page, also if
    the judged agent is below another span, such as that of an HTTP server.
    Phoenix answers at once and attaches an annotation when its span arrives, for about ten minutes.
    A score sent twice overwrites itself; another version of the scorer gets an annotation of its own.
    """

    name = "phoenix"
    needs = ("PHOENIX_COLLECTOR_ENDPOINT",)
    most = 256
    at_once = 1  # later annotations must overwrite earlier ones

    def __init__(
        self,
        *,
        url: str | None = None,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        traces: bool = True,
        content: bool = True,
        timeout: float = 10.0,
        http: HttpOptions | Mapping[str, Any] | None = None,
    ) -> None:
        """Configure the destination; no request is sent.

        Args:
            url: base URL; by default PHOENIX_COLLECTOR_ENDPOINT, or http://localhost:6006.
            api_key: sent as a bearer token; by default PHOENIX_API_KEY.
            headers: sent with every request.
            traces: whether to annotate traces too, with the scores of whole runs.
            content: whether to send explanations, which may quote the conversation.
            timeout: seconds of a request; ignored if `http` is given.
            http: timeout, proxy, certificates and extra headers: the fields of `HttpOptions`.

        Raises:
            ConfigError: `url` is not an http URL, an option is wrong, or httpx is not installed.
        """
        if not timeout > 0:
            raise ConfigError("timeout", "must be greater than zero")
        default = "http://localhost:6006"
        self._url = server_url(url, "PHOENIX_COLLECTOR_ENDPOINT", default=default, without="/v1/traces")
        key = api_key or os.environ.get("PHOENIX_API_KEY")
        sent = {**(headers or {}), **({"authorization": f"Bearer {key}"} if key else {})}
        options = HttpOptions(timeout=timeout) if http is None else http
        super().__init__(client(self._url, sent, key, http=options), content)
        self._traces = traces

    async def send(self, items: Sequence[ScoreItem]) -> Errors:
        await self._http.send("POST", "/v1/span_annotations", {"data": [_of_span(item) for item in items]})
        whole = [item for item in items if item.evaluation.span_id == item.run.root_span_id]
        if self._traces and (data := [_of_trace(item) for item in whole]):
            await self._http.send("POST", "/v1/trace_annotations", {"data": data})
        if data := [_of_session(item) for item in items if item.session is not None]:
            await self._http.send("POST", "/v1/session_annotations", {"data": data})
        return ()

    def trace_url(self, trace_id: str, span_id: str) -> str | None:
        return f"{self._url}/redirects/traces/{trace_id}"

    def spans_to(self) -> tuple[str, Mapping[str, str]] | None:
        return f"{self._url}/v1/traces", self._http.headers

    def read_feedback(self, query: FeedbackQuery) -> AsyncIterator[Feedback | None]:
        return phoenix_feedback(self._http, query)

    def read_traces(self, query: TraceQuery) -> AsyncIterator[Sequence[SpanRecord]]:
        return phoenix_traces(self._http, query)


def _of_span(item: ScoreItem) -> dict[str, Any]:
    return {"span_id": item.span_id, "identifier": _identifier(item), **_annotation(item)}


def _of_trace(item: ScoreItem) -> dict[str, Any]:
    # Each run of a trace has its own annotation; Phoenix shows their mean.
    identifier = f"{_identifier(item)}/{item.evaluation.span_id}"
    return {"trace_id": item.evaluation.trace_id, "identifier": identifier, **_annotation(item)}


def _of_session(item: ScoreItem) -> dict[str, Any]:
    return {"session_id": item.session, "identifier": _identifier(item), **_annotation(item)}


def _annotation(item: ScoreItem) -> dict[str, Any]:
    result = {"score": item.value, "label": item.label, "explanation": item.explanation}
    return {
        "name": f"otel_evals.{item.name}" if item.name == _RESERVED else item.name,
        "annotator_kind": item.source,
        "result": present(result),
        "metadata": item.metadata,
    }


def _identifier(item: ScoreItem) -> str:
    """Return an id that differs between the score of a run and of the conversation on the same span."""
    whole = "/conversation" if item.session is not None else ""
    return f"{item.name}@{item.evaluation.scorer_version}{whole}"
