"""Scores in PostHog, which takes evaluation events by OTLP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from otel_evals import semconv
from otel_evals.destinations import (
    ApiDestination,
    Errors,
    HttpOptions,
    ScoreItem,
    attributes_of,
    base_url,
    client,
    cut,
    needed,
    one_resource,
    service_of,
)

__all__ = ["PosthogDestination"]

_PATH = "/i/v0/ai/otel"
_EXPLANATION = 10_000


class PosthogDestination(ApiDestination):
    """Sends evaluation events to PostHog's OTLP address, which makes evaluations of them.

    PostHog drops the number of an event that has a label, so the label is sent under a name of our own. It
    makes an id of the whole record: an unchanged score sent again stands once.
    """

    name = "posthog"
    kind = "otel"
    needs = ("POSTHOG_API_KEY",)
    most = 100  # more are refused
    at_once = 2
    takes_errors = True

    def __init__(
        self,
        *,
        url: str | None = None,
        api_key: str | None = None,
        content: bool = True,
        http: HttpOptions | Mapping[str, Any] | None = None,
    ) -> None:
        """Name the project; nothing is sent yet.

        Args:
            url: base URL; POSTHOG_HOST, or https://us.i.posthog.com, unless given.
            api_key: the project's token; POSTHOG_API_KEY unless given.
            content: whether to send explanations and error messages, which may quote the conversation.
            http: timeout, proxy, certificates and further headers: the fields of `HttpOptions`.

        Raises:
            ConfigError: the token is missing, or an option is wrong.
        """
        where = base_url(needed(url, "url", "POSTHOG_HOST", default="https://us.i.posthog.com"), "url")
        key = needed(api_key, "api_key", "POSTHOG_API_KEY")
        super().__init__(client(where, {"authorization": f"Bearer {key}"}, key, http=http), content)

    def together(self, item: ScoreItem) -> str:
        """The events of a request are of one service."""
        return service_of(item)

    async def send(self, items: Sequence[ScoreItem]) -> Errors:
        """Send evaluation events."""
        body = one_resource("log", [_event(item) for item in items], service_of(items[0]))
        await self._http.send("POST", f"{_PATH}/v1/logs", body)
        return ()

    def trace_url(self, trace_id: str, span_id: str) -> str | None:
        """The trace's page, in the project that is chosen there."""
        return f"{self._http.url.replace('.i.posthog.com', '.posthog.com')}/llm-analytics/traces/{trace_id}"

    def spans_to(self) -> tuple[str, Mapping[str, str]] | None:
        """PostHog's OTLP address for spans of AI."""
        return f"{self._http.url}{_PATH}", self._http.headers


def _event(item: ScoreItem) -> dict[str, Any]:
    reason, message = item.error or (None, None)
    attributes = {
        semconv.GEN_AI_EVALUATION_NAME: item.name,
        semconv.GEN_AI_EVALUATION_SCORE_VALUE: item.value,
        semconv.GEN_AI_EVALUATION_EXPLANATION: cut(message or item.explanation, _EXPLANATION),
        semconv.ERROR_TYPE: reason,
        f"{semconv.SCORE_PREFIX}label": item.label,
        **{f"otel_evals.{key}": value for key, value in item.metadata.items()},
    }
    return {
        "timeUnixNano": str(item.time),
        "observedTimeUnixNano": str(item.time),
        "severityNumber": 13 if reason else 9,
        "eventName": semconv.GEN_AI_EVALUATION_RESULT,
        "traceId": item.evaluation.trace_id,
        "spanId": item.evaluation.span_id,
        "attributes": attributes_of(attributes),
    }
