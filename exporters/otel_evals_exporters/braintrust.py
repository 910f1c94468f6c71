"""Scores in Braintrust, as score spans below the judged span."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from otel_evals.destinations import HttpSettings, ScoreItem, cut, needed, server_url
from otel_evals_exporters._internal.requests import OtlpDestination, bearer

__all__ = ["BraintrustDestination"]


class BraintrustDestination(OtlpDestination):
    """Sends score spans to Braintrust's OTLP address: children of the judged span, as its own SDK does.

    A score span starts and ends at the end of the run. Its id is derived from the evaluation's id, so a score
    sent again is the same span. Only Braintrust receives it. Braintrust accepts scores from 0 to 1 only.
    """

    name = "braintrust"
    needs = ("BRAINTRUST_API_KEY", "BRAINTRUST_PARENT")
    signal = "span"
    path = otlp_path = "/otel/v1/traces"

    def __init__(
        self,
        *,
        url: str | None = None,
        api_key: str | None = None,
        parent: str | None = None,
        content: bool = True,
        http: HttpSettings = None,
    ) -> None:
        """Configure the destination; no request is sent.

        Args:
            url: base URL; by default BRAINTRUST_API_URL, or https://api.braintrust.dev.
            api_key: by default BRAINTRUST_API_KEY.
            parent: the project, such as `project_name:shop`; by default BRAINTRUST_PARENT.
            content: whether to send explanations, which may quote the conversation.
            http: timeout, proxy, certificates and extra headers: the fields of `HttpOptions`.

        Raises:
            ConfigError: key or parent is missing, or an option is wrong.
        """
        where = server_url(url, "BRAINTRUST_API_URL", default="https://api.braintrust.dev")
        key = needed(api_key, "api_key", "BRAINTRUST_API_KEY")
        headers = {**bearer(key), "x-bt-parent": needed(parent, "parent", "BRAINTRUST_PARENT")}
        super().__init__(where, headers, content=content, http=http)

    def refuses(self, item: ScoreItem) -> str | None:
        reason = super().refuses(item)
        return reason or (None if item.value is None or 0.0 <= item.value <= 1.0 else "out_of_range")

    def record(self, item: ScoreItem) -> dict[str, Any]:
        return {
            "traceId": item.evaluation.trace_id,
            "spanId": hashlib.sha256(item.id.encode("utf-8", "replace")).hexdigest()[:16],
            "parentSpanId": item.span_id,
            "name": item.name,
            "kind": 1,
            "startTimeUnixNano": str(item.time),
            "endTimeUnixNano": str(item.time),
            "attributes": {
                "braintrust.scores": json.dumps({item.name: item.value}),
                "braintrust.span_attributes": json.dumps({"type": "score", "name": item.name}),
                "braintrust.metadata": json.dumps({**item.metadata, "label": item.label}),
                "braintrust.output_json": json.dumps({"explanation": cut(item.explanation)}),
                "otel_evals.internal": True,
            },
        }
