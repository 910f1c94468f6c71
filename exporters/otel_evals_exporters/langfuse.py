"""Scores in Langfuse, on observations and sessions."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from otel_evals.destinations import ApiDestination, Errors, HttpOptions, ScoreItem, client, cut, needed
from otel_evals.errors import DestinationError
from otel_evals.model import Feedback, SpanRecord
from otel_evals.sources import FeedbackQuery, TraceQuery
from otel_evals_exporters._internal.langfuse import langfuse_feedback, langfuse_traces
from otel_evals_exporters._internal.options import basic, server_url

__all__ = ["LangfuseDestination"]

_PATH = "/api/public/scores"
_ENVIRONMENT = re.compile(r"(?!langfuse)[a-z0-9_-]{1,40}")
_COMMENT = 20_000


class LangfuseDestination(ApiDestination):
    """Sends scores to Langfuse: numbers as NUMERIC, labels as separate CATEGORICAL scores `<name>.label`.

    Langfuse stores one score per id, name and day of its timestamp. The timestamp is the run's end, so a
    score sent again overwrites itself. Scores may arrive before their trace.
    """

    name = "langfuse"
    needs = ("LANGFUSE_PUBLIC_KEY", "LANGFUSE_SECRET_KEY")
    most = 7  # a request takes 15 scores, and a label is another score
    at_once = 4

    def __init__(
        self,
        *,
        url: str | None = None,
        public_key: str | None = None,
        secret_key: str | None = None,
        project_id: str | None = None,
        content: bool = True,
        http: HttpOptions | Mapping[str, Any] | None = None,
    ) -> None:
        """Configure the destination; no request is sent.

        Args:
            url: base URL; by default LANGFUSE_BASE_URL, LANGFUSE_HOST, or https://cloud.langfuse.com.
            public_key: by default LANGFUSE_PUBLIC_KEY.
            secret_key: by default LANGFUSE_SECRET_KEY.
            project_id: for links to traces only.
            content: whether to send explanations, which may quote the conversation.
            http: timeout, proxy, certificates and extra headers: the fields of `HttpOptions`.

        Raises:
            ConfigError: a key is missing, or an option is wrong.
        """
        where = server_url(url, "LANGFUSE_BASE_URL", "LANGFUSE_HOST", default="https://cloud.langfuse.com")
        public = needed(public_key, "public_key", "LANGFUSE_PUBLIC_KEY")
        secret = needed(secret_key, "secret_key", "LANGFUSE_SECRET_KEY")
        token = basic(public, secret)
        headers = {"authorization": f"Basic {token}"}
        super().__init__(client(where, headers, secret, token, http=http), content)
        self._url = where
        self._project_id = project_id
        self._takes_lists: bool | None = None

    async def send(self, items: Sequence[ScoreItem]) -> Errors:
        """Send scores in one list; servers before 4.59 accept single scores only."""
        scores = [score for item in items for score in _scores(item)]
        if self._takes_lists is False:
            await self._one_by_one(scores)
            return ()
        try:
            answer = await self._http.send("POST", _PATH, scores)
        except DestinationError as error:
            if error.status != 400 or self._takes_lists:
                raise
            await self._http.send("POST", _PATH, scores[0])  # fails too if the score itself is wrong
            self._takes_lists = False
            await self._one_by_one(scores[1:])
            return ()
        self._takes_lists = True
        if answer.status == 207 and (result := answer.json()).get("rejected"):
            # The answer does not say which scores; accepted ones overwrite themselves when sent again.
            why = "; ".join(str(error.get("message")) for error in result.get("errors", ()))
            raise DestinationError(self._http.scrub(why), retryable=False, reason="refused", status=422)
        return ()

    def trace_url(self, trace_id: str, span_id: str) -> str | None:
        """Return the trace's page; without the project's id, an address that redirects to it."""
        project = f"/project/{self._project_id}/traces" if self._project_id else "/trace"
        return f"{self._url}{project}/{trace_id}"

    def spans_to(self) -> tuple[str, Mapping[str, str]] | None:
        return f"{self._url}/api/public/otel/v1/traces", self._http.headers

    async def read(self, item: ScoreItem) -> Mapping[str, Any] | None:
        """Return the score stored by Langfuse, available some seconds after it was sent."""
        return dict((await self._http.send("GET", f"/api/public/v2/scores/{item.id}")).json())

    def read_feedback(self, query: FeedbackQuery) -> AsyncIterator[Feedback | None]:
        return langfuse_feedback(self._http, query)

    def read_traces(self, query: TraceQuery) -> AsyncIterator[Sequence[SpanRecord]]:
        return langfuse_traces(self._http, query)

    async def _one_by_one(self, scores: Sequence[Mapping[str, Any]]) -> None:
        for score in scores:
            await self._http.send("POST", _PATH, score)


def _scores(item: ScoreItem) -> list[dict[str, Any]]:
    common: dict[str, Any] = {"timestamp": item.timestamp, "metadata": item.metadata}
    if item.session is not None:
        common["sessionId"] = item.session
    else:
        common |= {"traceId": item.evaluation.trace_id, "observationId": item.span_id}
    environment = str(item.run.resource.get("deployment.environment.name", ""))
    if _ENVIRONMENT.fullmatch(environment):
        common["environment"] = environment
    if item.explanation:
        common["comment"] = cut(item.explanation, _COMMENT)
    number = {"id": item.id, "name": item.name, "value": item.value, "dataType": "NUMERIC"}
    label = {"id": f"{item.id}-label", "name": f"{item.name}.label", "dataType": "CATEGORICAL"}
    return [{**number, **common}] + ([{**label, "value": item.label, **common}] if item.label else [])
