"""Scores in Langfuse, on observations and sessions."""

from __future__ import annotations

import base64
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from otel_evals.destinations import (
    ApiDestination,
    Errors,
    HttpOptions,
    ScoreItem,
    base_url,
    client,
    cut,
    needed,
)
from otel_evals.errors import DestinationError
from otel_evals.model import Feedback, SpanRecord
from otel_evals.sources import FeedbackQuery, TraceQuery
from otel_evals_exporters._internal.feedback.langfuse import langfuse_feedback
from otel_evals_exporters._internal.traces.langfuse import langfuse_traces

__all__ = ["LangfuseDestination"]

_PATH = "/api/public/scores"
_ENVIRONMENT = re.compile(r"(?!langfuse)[a-z0-9_-]{1,40}")
_COMMENT = 20_000


class LangfuseDestination(ApiDestination):
    """Sends scores to Langfuse: numbers as NUMERIC, their labels beside them as CATEGORICAL `<name>.label`.

    Langfuse keeps one score per id, name and day of its timestamp; the timestamp is the run's end, so that
    a score sent again overwrites itself. Scores may arrive before their trace.
    """

    name = "langfuse"
    needs = ("LANGFUSE_PUBLIC_KEY", "LANGFUSE_SECRET_KEY")
    most = 7  # a request takes 15 scores, and labels stand beside
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
        """Name the server; nothing is sent yet.

        Args:
            url: base URL; LANGFUSE_BASE_URL, LANGFUSE_HOST, or https://cloud.langfuse.com, unless given.
            public_key: LANGFUSE_PUBLIC_KEY unless given.
            secret_key: LANGFUSE_SECRET_KEY unless given.
            project_id: for links to traces only.
            content: whether to send explanations, which may quote the conversation.
            http: timeout, proxy, certificates and further headers: the fields of `HttpOptions`.

        Raises:
            ConfigError: a key is missing, or an option is wrong.
        """
        default = "https://cloud.langfuse.com"
        where = base_url(needed(url, "url", "LANGFUSE_BASE_URL", "LANGFUSE_HOST", default=default), "url")
        public = needed(public_key, "public_key", "LANGFUSE_PUBLIC_KEY")
        secret = needed(secret_key, "secret_key", "LANGFUSE_SECRET_KEY")
        token = base64.b64encode(f"{public}:{secret}".encode()).decode()
        super().__init__(
            client(where, {"authorization": f"Basic {token}"}, secret, token, http=http), content
        )
        self._url = where
        self._project_id = project_id
        self._takes_lists: bool | None = None

    async def send(self, items: Sequence[ScoreItem]) -> Errors:
        """Send scores in one list; servers before 4.59 take them one by one."""
        scores = [score for item in items for score in _scores(item)]
        if self._takes_lists is False:
            await self._one_by_one(scores)
            return ()
        try:
            answer = await self._http.send("POST", _PATH, scores)
        except DestinationError as error:
            if error.status != 400 or self._takes_lists:
                raise
            await self._http.send("POST", _PATH, scores[0])  # refused too where the score is what is wrong
            self._takes_lists = False
            await self._one_by_one(scores[1:])
            return ()
        self._takes_lists = True
        if answer.status == 207 and (told := answer.json()).get("rejected"):
            # It does not say which; those that were accepted overwrite themselves when they are sent alone.
            why = "; ".join(str(error.get("message")) for error in told.get("errors", ()))
            raise DestinationError(self._http.scrub(why), retryable=False, reason="refused", status=422)
        return ()

    def trace_url(self, trace_id: str, span_id: str) -> str | None:
        """The trace's page; without the project's id, the address that leads there."""
        project = f"/project/{self._project_id}/traces" if self._project_id else "/trace"
        return f"{self._url}{project}/{trace_id}"

    def spans_to(self) -> tuple[str, Mapping[str, str]] | None:
        """Langfuse's OTLP address."""
        return f"{self._url}/api/public/otel/v1/traces", self._http.headers

    async def read(self, item: ScoreItem) -> Mapping[str, Any] | None:
        """The score as Langfuse has it, some seconds after it was sent."""
        return dict((await self._http.send("GET", f"/api/public/v2/scores/{item.id}")).json())

    def read_feedback(self, query: FeedbackQuery) -> AsyncIterator[Feedback | None]:
        """Scores that were not sent from here."""
        return langfuse_feedback(self._http, query)

    def read_traces(self, query: TraceQuery) -> AsyncIterator[Sequence[SpanRecord]]:
        """The traces of the project."""
        return langfuse_traces(self._http, query)

    async def _one_by_one(self, scores: Sequence[Mapping[str, Any]]) -> None:
        for score in scores:
            await self._http.send("POST", _PATH, score)


def _scores(item: ScoreItem) -> list[dict[str, Any]]:
    common: dict[str, Any] = {"timestamp": item.timestamp, "metadata": item.metadata}
    if item.session is not None:
        common["sessionId"] = item.session
    else:
        common |= {"traceId": item.evaluation.trace_id, "observationId": item.evaluation.span_id}
    environment = str(item.run.resource.get("deployment.environment.name", ""))
    if _ENVIRONMENT.fullmatch(environment):
        common["environment"] = environment
    if item.explanation:
        common["comment"] = cut(item.explanation, _COMMENT)
    number = {"id": item.id, "name": item.name, "value": item.value, "dataType": "NUMERIC"}
    label = {"id": f"{item.id}-label", "name": f"{item.name}.label", "dataType": "CATEGORICAL"}
    return [{**number, **common}] + ([{**label, "value": item.label, **common}] if item.label else [])
