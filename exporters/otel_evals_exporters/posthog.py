"""Scores in PostHog, as evaluation events over OTLP."""

from __future__ import annotations

from typing import Any

from otel_evals import semconv
from otel_evals.destinations import HttpSettings, ScoreItem, cut, needed, server_url
from otel_evals_exporters._internal.requests import OtlpDestination, bearer

__all__ = ["PosthogDestination"]


class PosthogDestination(OtlpDestination):
    """Sends evaluation events to PostHog's OTLP address, which turns them into evaluations.

    PostHog drops the number of an event with a label, so the label is sent in an attribute of our own. An
    unchanged score sent again appears once, since PostHog computes its id from the whole record.
    """

    name = "posthog"
    needs = ("POSTHOG_API_KEY",)
    signal = "log"
    path = "/i/v0/ai/otel/v1/logs"
    otlp_path = "/i/v0/ai/otel"
    takes_errors = True

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
            url: base URL; by default POSTHOG_HOST, or https://us.i.posthog.com.
            api_key: the project's token; by default POSTHOG_API_KEY.
            content: whether to send explanations and error messages, which may quote the conversation.
            http: timeout, proxy, certificates and extra headers: the fields of `HttpOptions`.

        Raises:
            ConfigError: the token is missing, or an option is wrong.
        """
        where = server_url(url, "POSTHOG_HOST", default="https://us.i.posthog.com")
        key = needed(api_key, "api_key", "POSTHOG_API_KEY")
        super().__init__(where, bearer(key), content=content, http=http)

    def record(self, item: ScoreItem) -> dict[str, Any]:
        reason, message = item.error or (None, None)
        return {
            "timeUnixNano": str(item.time),
            "observedTimeUnixNano": str(item.time),
            "severityNumber": 13 if reason else 9,
            "eventName": semconv.GEN_AI_EVALUATION_RESULT,
            "traceId": item.evaluation.trace_id,
            "spanId": item.span_id,
            "attributes": {
                semconv.GEN_AI_EVALUATION_NAME: item.name,
                semconv.GEN_AI_EVALUATION_SCORE_VALUE: item.value,
                semconv.GEN_AI_EVALUATION_EXPLANATION: cut(message or item.explanation),
                semconv.ERROR_TYPE: reason,
                f"{semconv.SCORE_PREFIX}label": item.label,
                **{f"otel_evals.{key}": value for key, value in item.metadata.items()},
            },
        }

    def trace_url(self, trace_id: str, span_id: str) -> str | None:
        """Return the trace's page, in the project selected there."""
        return f"{self._http.url.replace('.i.posthog.com', '.posthog.com')}/llm-analytics/traces/{trace_id}"
