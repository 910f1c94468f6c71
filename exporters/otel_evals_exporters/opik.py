"""Scores in Opik, on traces, spans and threads."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

from otel_evals.errors import DestinationError
from otel_evals.export.api import ApiDestination, Errors, client, needed
from otel_evals.export.http import HttpOptions, base_url
from otel_evals.export.items import ScoreItem, cut
from otel_evals.export.retry import TRACE_NOT_FOUND

__all__ = ["OpikDestination"]

_CANDIDATES = 16
_REMEMBERED = 10_000
_REASON = 10_000


class OpikDestination(ApiDestination):
    """Sends scores to Opik: of whole runs to their trace, of agents to spans, of conversations to threads.

    Opik gives traces that came by OpenTelemetry an id of its own, made of the trace id and of the time at
    which the first span that it saw had started. Which span that was is found out by asking for the ids that
    the run's spans would have led to. One score per name stands on each; sent again, it overwrites itself.
    """

    name = "opik"
    needs = ("OPIK_API_KEY", "OPIK_WORKSPACE")
    most = 100
    at_once = 4

    def __init__(
        self,
        *,
        url: str | None = None,
        api_key: str | None = None,
        workspace: str | None = None,
        project: str | None = None,
        content: bool = True,
        http: HttpOptions | Mapping[str, Any] | None = None,
    ) -> None:
        """Name the server; nothing is sent yet.

        Args:
            url: base URL; OPIK_URL_OVERRIDE, or https://www.comet.com/opik/api, unless given.
            api_key: OPIK_API_KEY unless given; a server of your own needs none.
            workspace: OPIK_WORKSPACE unless given.
            project: OPIK_PROJECT_NAME, or `Default Project`, unless given.
            content: whether to send explanations, which may quote the conversation.
            http: timeout, proxy, certificates and further headers: the fields of `HttpOptions`.

        Raises:
            ConfigError: the key of Comet's own server is missing, or an option is wrong.
        """
        cloud = "https://www.comet.com/opik/api"
        where = base_url(needed(url, "url", "OPIK_URL_OVERRIDE", default=cloud), "url")
        own = "comet.com" not in where
        key = needed(api_key, "api_key", "OPIK_API_KEY", default="none" if own else None)
        space = needed(workspace, "workspace", "OPIK_WORKSPACE", default="default")
        headers = {"comet-workspace": space} | ({} if key == "none" else {"authorization": key})
        super().__init__(client(where, headers, key, http=http), content)
        self._project = needed(project, "project", "OPIK_PROJECT_NAME", default="Default Project")
        self._times: OrderedDict[str, int] = OrderedDict()

    def together(self, item: ScoreItem) -> str:
        """Traces, spans and threads have an address each."""
        return "traces/threads" if item.session else "traces" if item.whole_run else "spans"

    async def send(self, items: Sequence[ScoreItem]) -> Errors:
        """Send the scores whose traces are there."""
        kind = self.together(items[0])
        scores, errors = [], []
        for item in items:
            try:
                scores.append(self._score(item, await self._target(item)))
            except DestinationError as error:
                if error.reason != TRACE_NOT_FOUND:
                    raise
                errors.append((item, error))
        if scores:
            await self._http.send("PUT", f"/v1/private/{kind}/feedback-scores", {"scores": scores})
        return errors

    def spans_to(self) -> tuple[str, Mapping[str, str]] | None:
        """Opik's OTLP address."""
        headers = {**self._http.headers, "projectname": self._project}
        return f"{self._http.url}/v1/private/otel/v1/traces", headers

    async def read(self, item: ScoreItem) -> Mapping[str, Any] | None:
        """The score among those that Opik has of the trace."""
        if not item.whole_run:
            return None
        answer = await self._http.send("GET", f"/v1/private/traces/{(await self._target(item))['id']}")
        scores = answer.json().get("feedback_scores") or ()
        return next((dict(score) for score in scores if score.get("name") == item.name), None)

    def _score(self, item: ScoreItem, target: Mapping[str, str]) -> dict[str, Any]:
        score = {
            **target,
            "project_name": self._project,
            "name": item.name,
            "value": item.value,
            "category_name": item.label,
            "reason": cut(item.explanation, _REASON),
            "source": "sdk",
        }
        return {key: value for key, value in score.items() if value is not None}

    async def _target(self, item: ScoreItem) -> Mapping[str, str]:
        if item.session is not None:
            return {"thread_id": item.session}
        started = await self._started(item)
        judged = item.evaluation.trace_id if item.whole_run else item.evaluation.span_id
        return {"id": str(opik_id(judged, started))}

    async def _started(self, item: ScoreItem) -> int:
        """The time in a trace's id, in milliseconds."""
        trace = item.evaluation.trace_id
        if trace in self._times:
            return self._times[trace]
        for started in _starts(item):
            try:
                await self._http.send("GET", f"/v1/private/traces/{opik_id(trace, started)}")
            except DestinationError as error:
                if error.status == 404:
                    continue
                raise
            self._times[trace] = started
            if len(self._times) > _REMEMBERED:
                self._times.popitem(last=False)
            return started
        raise DestinationError(f"no trace {trace} yet", retryable=True, reason=TRACE_NOT_FOUND, status=404)


def opik_id(hex_id: str, milliseconds: int) -> UUID:
    """The id that Opik gives a trace or span: a UUID of version 7, with a hash in place of random bits."""
    digest = hashlib.sha256(bytes.fromhex(hex_id)).digest()[:10]
    number = int.from_bytes(milliseconds.to_bytes(6, "big") + digest, "big")
    return UUID(int=number & ~(0xF << 76) & ~(0x3 << 62) | 0x7 << 76 | 0x2 << 62)


def _starts(item: ScoreItem) -> Iterator[int]:
    """When the trace's first span may have started: the root's start, then the others', without repeats."""
    times = [item.run.start_time, *(operation.span.start_time for operation in item.run.operations)]
    yield from list(dict.fromkeys(t // 1_000_000 for t in times if t))[:_CANDIDATES]
