"""Scores as span annotations in Arize Phoenix."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from otel_evals.destinations import ApiDestination, Errors, HttpOptions, ScoreItem, base_url, client, needed
from otel_evals.errors import ConfigError
from otel_evals.model import Feedback, SpanRecord
from otel_evals.sources import FeedbackQuery, TraceQuery
from otel_evals_exporters._internal.feedback.phoenix import phoenix_feedback
from otel_evals_exporters._internal.traces.phoenix import phoenix_traces

__all__ = ["PhoenixDestination"]

_RESERVED = "note"  # Phoenix keeps this name for notes and refuses the whole batch for it


class PhoenixDestination(ApiDestination):
    """Annotates judged spans in Phoenix, one annotation per score, the traces they are in, and sessions.

    The trace's own annotation is what Phoenix shows in its list of traces and at the top of a trace's page,
    where a judged agent stands below, say, the span of an HTTP server.
    Phoenix answers at once and attaches the annotation when the span has arrived, for about ten minutes.
    A score sent twice overwrites itself; another version of the scorer makes an annotation of its own.
    """

    name = "phoenix"
    needs = ("PHOENIX_COLLECTOR_ENDPOINT",)
    most = 256
    url_option = "endpoint"
    at_once = 1  # what is sent later must overwrite

    def __init__(
        self,
        *,
        endpoint: str | None = None,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        traces: bool = True,
        content: bool = True,
        timeout: float = 10.0,
        http: HttpOptions | Mapping[str, Any] | None = None,
    ) -> None:
        """Name the server; nothing is sent yet.

        Args:
            endpoint: base URL; PHOENIX_COLLECTOR_ENDPOINT, or http://localhost:6006, unless given.
            api_key: sent as a bearer token; PHOENIX_API_KEY unless given.
            headers: sent with every request.
            traces: whether to annotate the trace as well, with the scores of whole runs.
            content: whether to send explanations, which may quote the conversation.
            timeout: seconds a request may take.
            http: further options of requests, the fields of `HttpOptions`; then without `timeout`.

        Raises:
            ConfigError: `endpoint` is no http URL, an option is wrong, or httpx is not installed.
        """
        if not timeout > 0:
            raise ConfigError("timeout", "must be greater than zero")
        default = "http://localhost:6006"
        given = needed(endpoint, "endpoint", "PHOENIX_COLLECTOR_ENDPOINT", default=default)
        self._url = base_url(given, "endpoint", without="/v1/traces")
        key = api_key or os.environ.get("PHOENIX_API_KEY")
        sent = {**(headers or {}), **({"authorization": f"Bearer {key}"} if key else {})}
        options = HttpOptions(timeout=timeout) if http is None else http
        super().__init__(client(self._url, sent, key, http=options), content)
        self._traces = traces

    async def send(self, items: Sequence[ScoreItem]) -> Errors:
        """Send annotations of spans, and those of traces and sessions after them."""
        await self._http.send("POST", "/v1/span_annotations", {"data": [_of_span(item) for item in items]})
        if self._traces and (runs := [item for item in items if _on_root(item)]):
            await self._http.send("POST", "/v1/trace_annotations", {"data": [_of_trace(r) for r in runs]})
        if whole := [item for item in items if item.session is not None]:
            await self._http.send(
                "POST", "/v1/session_annotations", {"data": [_of_session(w) for w in whole]}
            )
        return ()

    def trace_url(self, trace_id: str, span_id: str) -> str | None:
        """The trace's page."""
        return f"{self._url}/redirects/traces/{trace_id}"

    def spans_to(self) -> tuple[str, Mapping[str, str]] | None:
        """Phoenix takes spans beside its API."""
        return f"{self._url}/v1/traces", self._http.headers

    def read_feedback(self, query: FeedbackQuery) -> AsyncIterator[Feedback | None]:
        """The annotations of runs on record."""
        return phoenix_feedback(self._http, query)

    def read_traces(self, query: TraceQuery) -> AsyncIterator[Sequence[SpanRecord]]:
        """The traces of a project, or of all."""
        return phoenix_traces(self._http, query)


def _on_root(item: ScoreItem) -> bool:
    return item.evaluation.span_id == item.run.root_span_id


def _of_span(item: ScoreItem) -> dict[str, Any]:
    return {"span_id": item.evaluation.span_id, "identifier": _identifier(item), **_annotation(item)}


def _of_trace(item: ScoreItem) -> dict[str, Any]:
    # A trace may hold several runs: each keeps its own annotation, and Phoenix shows their mean.
    identifier = f"{_identifier(item)}/{item.evaluation.span_id}"
    return {"trace_id": item.evaluation.trace_id, "identifier": identifier, **_annotation(item)}


def _of_session(item: ScoreItem) -> dict[str, Any]:
    return {"session_id": item.session, "identifier": _identifier(item), **_annotation(item)}


def _annotation(item: ScoreItem) -> dict[str, Any]:
    result = {"score": item.value, "label": item.label, "explanation": item.explanation}
    return {
        "name": f"otel_evals.{item.name}" if item.name == _RESERVED else item.name,
        "annotator_kind": item.source,
        "result": {key: value for key, value in result.items() if value is not None},
        "metadata": item.metadata,
    }


def _identifier(item: ScoreItem) -> str:
    """A run's score and that of the conversation it ends stand on the same span."""
    whole = "/conversation" if item.session is not None else ""
    return f"{item.name}@{item.evaluation.scorer_version}{whole}"
