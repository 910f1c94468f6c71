"""Scores in Dynatrace, as business events beside the trace."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from otel_evals import semconv
from otel_evals.destinations import (
    ApiDestination,
    Errors,
    HttpOptions,
    ScoreItem,
    base_url,
    client,
    cut,
    needed,
    service_of,
)
from otel_evals.errors import DestinationError

__all__ = ["DynatraceDestination"]

_EXPLANATION = 10_000
_PAGES, _APIS = ".apps.dynatrace.com", ".live.dynatrace.com"


class DynatraceDestination(ApiDestination):
    """Sends scores to Dynatrace as business events of type `gen_ai.evaluation.result`.

    Dynatrace appends: a score that is sent again, because an answer was lost, stands there twice, with one
    `otel_evals.evaluation_id`. The score of a conversation names the conversation and its last run's span.
    """

    name = "dynatrace"
    needs = ("DT_ENV_URL", "DT_API_TOKEN")
    most = 50
    at_once = 2

    def __init__(
        self,
        *,
        url: str | None = None,
        api_token: str | None = None,
        content: bool = True,
        http: HttpOptions | Mapping[str, Any] | None = None,
    ) -> None:
        """Name the environment; nothing is sent yet.

        Args:
            url: the environment's URL, such as https://abc12345.live.dynatrace.com; DT_ENV_URL or
                DT_ENVIRONMENT unless given.
            api_token: an access token with the scope `bizevents.ingest`; DT_API_TOKEN unless given.
            content: whether to send explanations, which may quote the conversation.
            http: timeout, proxy, certificates and further headers: the fields of `HttpOptions`.

        Raises:
            ConfigError: address or token is missing, or an option is wrong.
        """
        given = needed(url, "url", "DT_ENV_URL", "DT_ENVIRONMENT")
        # People have the address of the pages at hand; the API has another host.
        where = base_url(given, "url", without="/api/v2/otlp|/api/v2|/api").replace(_PAGES, _APIS)
        token = needed(api_token, "api_token", "DT_API_TOKEN")
        scheme = "Bearer" if token.startswith("dt0s") else "Api-Token"  # platform tokens, and access tokens
        super().__init__(client(where, {"authorization": f"{scheme} {token}"}, token, http=http), content)

    async def send(self, items: Sequence[ScoreItem]) -> Errors:
        """Send business events; those that are valid are taken even where others are not."""
        events = [_event(item) for item in items]
        try:
            await self._http.send("POST", "/api/v2/bizevents/ingest", events)
        except DestinationError as error:
            if error.status != 400 or not (told := _told(error.answer, len(items))):
                raise
            return [(items[at], self._refusal(message)) for at, message in told.items()]
        return ()

    def trace_url(self, trace_id: str, span_id: str) -> str | None:
        """The trace in Distributed Tracing; None for an address that is not Dynatrace's own."""
        if not self._http.url.endswith(_APIS):
            return None
        page = f"{self._http.url.replace(_APIS, _PAGES)}/ui/apps/dynatrace.distributedtracing/explorer"
        return f"{page}?traceId={trace_id}&spanId={span_id}"

    def spans_to(self) -> tuple[str, Mapping[str, str]] | None:
        """Dynatrace's OTLP address, for a token that has the scope `openTelemetryTrace.ingest` too."""
        return f"{self._http.url}/api/v2/otlp/v1/traces", self._http.headers

    def _refusal(self, message: str) -> DestinationError:
        problem = self._http.scrub(f"Dynatrace refused the event: {message}")
        return DestinationError(problem, retryable=False, status=400)


def _told(answer: bytes, sent: int) -> dict[int, str]:
    """Which events were refused, by their place in the request, and why; empty where that is not told."""
    try:
        errors = json.loads(answer)["errors"]
        told = {int(each["index"]): str(each.get("message")) for each in errors}
    except (ValueError, TypeError, KeyError, AttributeError):
        return {}
    return told if all(0 <= at < sent for at in told) else {}


def _event(item: ScoreItem) -> dict[str, Any]:
    metadata = item.metadata
    event = {
        "event.type": semconv.GEN_AI_EVALUATION_RESULT,
        "event.provider": "otel-evals",
        "timestamp": item.timestamp,
        "trace_id": item.evaluation.trace_id,
        "span_id": item.evaluation.span_id,
        "dt.service.name": service_of(item) or None,
        semconv.GEN_AI_CONVERSATION_ID: item.session,
        semconv.GEN_AI_EVALUATION_NAME: item.name,
        semconv.GEN_AI_EVALUATION_SCORE_VALUE: item.value,
        semconv.GEN_AI_EVALUATION_SCORE_LABEL: item.label,
        semconv.GEN_AI_EVALUATION_EXPLANATION: cut(item.explanation, _EXPLANATION),
        "gen_ai.evaluation.spec_id": item.name,
        "gen_ai.evaluation.version": item.evaluation.scorer_version,
        "gen_ai.evaluation.type": "custom",
        "gen_ai.evaluation.method": "llm_as_judge" if item.source == "LLM" else "code",
        semconv.GEN_AI_REQUEST_MODEL: metadata.get("judge_model"),
        **{f"otel_evals.{key}": value for key, value in metadata.items()},
    }
    return {key: value for key, value in event.items() if value is not None}
