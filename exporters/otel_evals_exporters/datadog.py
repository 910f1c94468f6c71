"""Scores in Datadog LLM Observability, as external evaluations of spans."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal

from otel_evals.destinations import (
    ApiDestination,
    HttpSettings,
    ScoreItem,
    SpansTo,
    cut,
    needed,
    server_url,
    service_of,
)
from otel_evals.errors import ConfigError
from otel_evals_exporters._internal.requests import present

__all__ = ["DatadogDestination"]

_PATH = "/api/intake/llm-obs/v2/eval-metric"
_LABEL = 200


class DatadogDestination(ApiDestination):
    """Sends scores to Datadog: numbers as `score` metrics, labels as separate metrics `<name>_label`.

    Datadog appends: a score sent again after a lost answer may appear twice. A conversation's score is on
    the last run's span.
    """

    name = "datadog"
    needs = ("DD_API_KEY",)
    most = 100
    at_once = 2

    def __init__(
        self,
        *,
        site: str | None = None,
        api_key: str | None = None,
        url: str | None = None,
        ml_app: str | None = None,
        trace_id: Literal["decimal", "hex"] = "decimal",
        content: bool = True,
        http: HttpSettings = None,
    ) -> None:
        """Configure the destination; no request is sent.

        Args:
            site: by default DD_SITE, or datadoghq.com.
            api_key: by default DD_API_KEY.
            url: base URL instead of the site's.
            ml_app: name of the application; by default the run's service name.
            trace_id: format of trace ids.
            content: whether to send explanations, which may quote the conversation.
            http: timeout, proxy, certificates and extra headers: the fields of `HttpOptions`.

        Raises:
            ConfigError: the key is missing, or an option is wrong.
        """
        if trace_id not in ("decimal", "hex"):
            raise ConfigError("trace_id", f"must be decimal or hex, not {trace_id!r}")
        self._decimal = trace_id == "decimal"
        self._site = needed(site, "site", "DD_SITE", default="datadoghq.com")
        self._ml_app = ml_app
        headers = {"dd-api-key": needed(api_key, "api_key", "DD_API_KEY")}
        where = server_url(url, default=f"https://api.{self._site}")
        super().__init__(where, headers, content=content, http=http)

    async def send(self, items: Sequence[ScoreItem]) -> None:
        metrics = [metric for item in items for metric in self._metrics(item)]
        body = {"data": {"type": "evaluation_metric", "attributes": {"metrics": metrics}}}
        await self._http.send("POST", _PATH, body)

    def trace_url(self, trace_id: str, span_id: str) -> str | None:
        host = "app." + self._site if self._site.count(".") == 1 else self._site
        return f"https://{host}/llm/traces?query=%40trace_id%3A{trace_id}"

    def spans_to(self) -> SpansTo:
        headers = {**self._http.headers, "dd-otlp-source": "llmobs"}
        return f"{self._http.url.replace('//api.', '//otlp.')}/v1/traces", headers

    def _metrics(self, item: ScoreItem) -> list[dict[str, Any]]:
        evaluation = item.evaluation
        trace = str(int(evaluation.trace_id, 16)) if self._decimal else evaluation.trace_id
        joined = {"span_id": str(int(item.span_id, 16)), "trace_id": trace}
        fields = {
            "event_kind": "evaluation",
            "eval_scope": "span",
            "join_on": {"span": joined},
            "ml_app": self._ml_app or service_of(item) or "unknown_service",
            "timestamp_ms": item.time // 1_000_000,
            "tags": ["source:otel"],  # makes Datadog wait for spans from OpenTelemetry
            "metadata": item.metadata,
            "reasoning": cut(item.explanation),
        }
        common = present(fields)
        label = _label(item.name)
        number = {**common, "label": label, "metric_type": "score", "score_value": item.value}
        if not item.label:
            return [number]
        category = {"label": f"{label[: _LABEL - 6]}_label", "metric_type": "categorical"}
        return [number, {**common, **category, "categorical_value": item.label}]


def _label(name: str) -> str:
    """Return the name in ASCII letters, digits and underscores, starting with a letter."""
    plain = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return (plain if plain[:1].isalpha() else f"s_{plain}")[:_LABEL]
