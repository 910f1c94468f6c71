"""Scores in Arize AX, as annotations of spans and sessions."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from otel_evals.destinations import (
    ApiDestination,
    HttpSettings,
    ScoreItem,
    SpansTo,
    cut,
    needed,
    server_url,
)
from otel_evals_exporters._internal.requests import bearer, present

__all__ = ["ArizeDestination"]


class ArizeDestination(ApiDestination):
    """Annotates spans in Arize AX, and sessions with the scores of conversations.

    The space needs an annotation configuration with each scorer's name. An annotation overwrites an older one
    of the same name on the same span. Arize refuses a whole request that contains an unknown span; the
    request is halved until that span is alone, and its score is retried later.
    """

    name = "arize"
    needs = ("ARIZE_API_KEY", "ARIZE_PROJECT_ID")
    most = 100
    at_once = 2
    finds_traces = True

    def __init__(
        self,
        *,
        url: str | None = None,
        api_key: str | None = None,
        project_id: str | None = None,
        content: bool = True,
        http: HttpSettings = None,
    ) -> None:
        """Configure the destination; no request is sent.

        Args:
            url: base URL; by default https://api.arize.com; a region has api.<region>.arize.com.
            api_key: by default ARIZE_API_KEY.
            project_id: id of the spans' project; by default ARIZE_PROJECT_ID.
            content: whether to send explanations, which may quote the conversation.
            http: timeout, proxy, certificates and extra headers: the fields of `HttpOptions`.

        Raises:
            ConfigError: key or project is missing, or an option is wrong.
        """
        self._key = needed(api_key, "api_key", "ARIZE_API_KEY")
        where = server_url(url, default="https://api.arize.com")
        super().__init__(where, bearer(self._key), content=content, http=http)
        self._project = needed(project_id, "project_id", "ARIZE_PROJECT_ID")

    def together(self, item: ScoreItem) -> str:
        return "SESSION" if item.session else "SPAN"

    async def send(self, items: Sequence[ScoreItem]) -> None:
        """Send annotations: each record once, with the last value of each name."""
        records: dict[str, dict[str, Any]] = {}
        for item in items:
            values = records.setdefault(item.session or item.span_id, {})
            text = cut(item.explanation)
            value = {"name": item.name, "score": item.value, "label": item.label, "text": text}
            # A record has one value of each name.
            values[item.name] = present(value)
        annotations = [{"record_id": id, "values": list(named.values())} for id, named in records.items()]
        body = {"project_id": self._project, "granularity": self.together(items[0])}
        await self._http.send("POST", "/v2/spans/annotate", {**body, "annotations": annotations})

    def spans_to(self) -> SpansTo:
        """Return Arize's OTLP address, which also needs ARIZE_SPACE_ID."""
        headers = {"api_key": self._key, "space_id": os.environ.get("ARIZE_SPACE_ID", "")}
        return f"{self._http.url.replace('//api.', '//otlp.')}/v1/traces", headers
