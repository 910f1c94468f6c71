"""Scores in Braintrust, as score spans below the judged span."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

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

__all__ = ["BraintrustDestination"]

_OUTPUT = 10_000


class BraintrustDestination(ApiDestination):
    """Sends score spans to Braintrust's OTLP address: children of the judged span, as its own SDK makes them.

    They take no time, begin where the run ended, and have ids made of the evaluations': sent again, the same
    span comes again. They go to Braintrust alone. It takes scores from 0 to 1 only.
    """

    name = "braintrust"
    kind = "otel"
    needs = ("BRAINTRUST_API_KEY", "BRAINTRUST_PARENT")
    most = 100
    at_once = 2

    def __init__(
        self,
        *,
        url: str | None = None,
        api_key: str | None = None,
        parent: str | None = None,
        org: str | None = None,
        content: bool = True,
        http: HttpOptions | Mapping[str, Any] | None = None,
    ) -> None:
        """Name the account; nothing is sent yet.

        Args:
            url: base URL; BRAINTRUST_API_URL, or https://api.braintrust.dev, unless given.
            api_key: BRAINTRUST_API_KEY unless given.
            parent: the project, as in `project_name:shop`; BRAINTRUST_PARENT unless given.
            org: name of the organisation, for links to traces only; BRAINTRUST_ORG_NAME unless given.
            content: whether to send explanations, which may quote the conversation.
            http: timeout, proxy, certificates and further headers: the fields of `HttpOptions`.

        Raises:
            ConfigError: key or parent is missing, or an option is wrong.
        """
        default = "https://api.braintrust.dev"
        where = base_url(needed(url, "url", "BRAINTRUST_API_URL", default=default), "url")
        key = needed(api_key, "api_key", "BRAINTRUST_API_KEY")
        self._parent = needed(parent, "parent", "BRAINTRUST_PARENT")
        headers = {"authorization": f"Bearer {key}", "x-bt-parent": self._parent}
        super().__init__(client(where, headers, key, http=http), content)
        self._org = org or os.environ.get("BRAINTRUST_ORG_NAME")

    def together(self, item: ScoreItem) -> str:
        """The spans of a request are of one service."""
        return service_of(item)

    def refuses(self, item: ScoreItem) -> str | None:
        """Scores beyond 0 to 1 are refused."""
        reason = super().refuses(item)
        return reason or (None if item.value is None or 0.0 <= item.value <= 1.0 else "out_of_range")

    async def send(self, items: Sequence[ScoreItem]) -> Errors:
        """Send score spans."""
        body = one_resource("span", [_span(item) for item in items], service_of(items[0]))
        await self._http.send("POST", "/otel/v1/traces", body)
        return ()

    def trace_url(self, trace_id: str, span_id: str) -> str | None:
        """The trace's page, where organisation and project are known by name."""
        kind, _, project = self._parent.partition(":")
        if self._org is None or kind != "project_name":
            return None
        page = f"{os.environ.get('BRAINTRUST_APP_URL', 'https://www.braintrust.dev')}/app/{quote(self._org)}"
        return f"{page}/p/{quote(project)}/logs?r={trace_id}&s={span_id}"

    def spans_to(self) -> tuple[str, Mapping[str, str]] | None:
        """Braintrust's OTLP address."""
        return f"{self._http.url}/otel/v1/traces", self._http.headers


def _span(item: ScoreItem) -> dict[str, Any]:
    shown = {"type": "score", "name": item.name}
    attributes = {
        "braintrust.scores": json.dumps({item.name: item.value}),
        "braintrust.span_attributes": json.dumps(shown),
        "braintrust.metadata": json.dumps({**item.metadata, "label": item.label}),
        "braintrust.output_json": json.dumps({"explanation": cut(item.explanation, _OUTPUT)}),
        "otel_evals.internal": True,
    }
    return {
        "traceId": item.evaluation.trace_id,
        "spanId": hashlib.sha256(item.id.encode("utf-8", "replace")).hexdigest()[:16],
        "parentSpanId": item.evaluation.span_id,
        "name": item.name,
        "kind": 1,
        "startTimeUnixNano": str(item.time),
        "endTimeUnixNano": str(item.time),
        "attributes": attributes_of(attributes),
    }
