"""Scores in Dynatrace, as business events next to the trace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from otel_evals import semconv
from otel_evals.destinations import (
    ApiDestination,
    Errors,
    HttpSettings,
    ScoreItem,
    cut,
    needed,
    server_url,
    service_of,
)
from otel_evals.errors import DestinationError
from otel_evals.sdk.util import read_json
from otel_evals_exporters._internal.requests import present

__all__ = ["DynatraceDestination"]

_PAGES, _APIS = ".apps.dynatrace.com", ".live.dynatrace.com"


class DynatraceDestination(ApiDestination):
    """Sends scores to Dynatrace as business events of type `gen_ai.evaluation.result`.

    Dynatrace appends: a score sent again after a lost answer appears twice, with the same
    `otel_evals.evaluation_id`. The score of a conversation names the conversation and the span of its last
    run.
    """

    name = "dynatrace"
    needs = ("DT_ENV_URL", "DT_API_TOKEN")
    most = 50
    at_once = 2
    otlp_path = "/api/v2/otlp/v1/traces"  # needs the scope `openTelemetryTrace.ingest` too

    def __init__(
        self,
        *,
        url: str | None = None,
        api_token: str | None = None,
        content: bool = True,
        http: HttpSettings = None,
    ) -> None:
        """Configure the destination; no request is sent.

        Args:
            url: URL of the environment, such as https://abc12345.live.dynatrace.com; by default DT_ENV_URL or
                DT_ENVIRONMENT.
            api_token: access token with the scope `bizevents.ingest`; by default DT_API_TOKEN.
            content: whether to send explanations, which may quote the conversation.
            http: timeout, proxy, certificates and extra headers: the fields of `HttpOptions`.

        Raises:
            ConfigError: address or token is missing, or an option is wrong.
        """
        # People usually know the address of the web pages; the API has another host.
        where = server_url(url, "DT_ENV_URL", "DT_ENVIRONMENT", without="/api/v2/otlp|/api/v2|/api")
        where = where.replace(_PAGES, _APIS)
        token = needed(api_token, "api_token", "DT_API_TOKEN")
        scheme = "Bearer" if token.startswith("dt0s") else "Api-Token"  # platform tokens, and access tokens
        super().__init__(where, {"authorization": f"{scheme} {token}"}, content=content, http=http)

    async def send(self, items: Sequence[ScoreItem]) -> Errors | None:
        """Send business events; Dynatrace accepts the valid events of a request with invalid ones."""
        events = [_event(item) for item in items]
        try:
            await self._http.send("POST", "/api/v2/bizevents/ingest", events)
        except DestinationError as error:
            # Halving would send the accepted ones again, and Dynatrace appends.
            if error.status != 400 or not (refused := _refused(error.answer, len(items))):
                raise
            problems = ((items[at], f"Dynatrace refused the event: {why}") for at, why in refused.items())
            scrub = self._http.scrub
            return [(item, DestinationError(scrub(p), retryable=False, status=400)) for item, p in problems]
        return None

    def trace_url(self, trace_id: str, span_id: str) -> str | None:
        """Return the trace's page in Distributed Tracing; None for an address other than Dynatrace's own."""
        if not self._http.url.endswith(_APIS):
            return None
        page = f"{self._http.url.replace(_APIS, _PAGES)}/ui/apps/dynatrace.distributedtracing/explorer"
        return f"{page}?traceId={trace_id}&spanId={span_id}"


def _refused(answer: bytes, sent: int) -> dict[int, str]:
    """Return the reason for each refused event by its index in the request; empty if the answer has none."""
    try:
        errors = read_json(answer)["errors"]
        refused = {int(each["index"]): str(each.get("message")) for each in errors}
    except (ValueError, TypeError, KeyError, AttributeError):
        return {}
    return refused if all(0 <= at < sent for at in refused) else {}


def _event(item: ScoreItem) -> dict[str, Any]:
    metadata = item.metadata
    fields = {
        "event.type": semconv.GEN_AI_EVALUATION_RESULT,
        "event.provider": "otel-evals",
        "timestamp": item.timestamp,
        "trace_id": item.evaluation.trace_id,
        "span_id": item.span_id,
        "dt.service.name": service_of(item) or None,
        semconv.GEN_AI_CONVERSATION_ID: item.session,
        semconv.GEN_AI_EVALUATION_NAME: item.name,
        semconv.GEN_AI_EVALUATION_SCORE_VALUE: item.value,
        semconv.GEN_AI_EVALUATION_SCORE_LABEL: item.label,
        semconv.GEN_AI_EVALUATION_EXPLANATION: cut(item.explanation),
        "gen_ai.evaluation.spec_id": item.name,
        "gen_ai.evaluation.version": item.evaluation.scorer_version,
        "gen_ai.evaluation.type": "custom",
        "gen_ai.evaluation.method": "llm_as_judge" if item.source == "LLM" else "code",
        semconv.GEN_AI_REQUEST_MODEL: metadata.get("judge_model"),
        **{f"otel_evals.{key}": value for key, value in metadata.items()},
    }
    return present(fields)
