"""Scores in Arize AX, as annotations of spans and sessions."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
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

__all__ = ["ArizeDestination"]

_TEXT = 10_000


class ArizeDestination(ApiDestination):
    """Annotates spans in Arize AX, and sessions with the scores of conversations.

    The space needs an annotation configuration with each scorer's name. An annotation overwrites the one of
    the same name on the same span. One span that is not there yet has Arize refuse a whole request; it is
    then halved until that span is alone, and tried again later.
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
        http: HttpOptions | Mapping[str, Any] | None = None,
    ) -> None:
        """Name the account; nothing is sent yet.

        Args:
            url: base URL; https://api.arize.com unless given. Regions have their own: api.<region>.arize.com.
            api_key: ARIZE_API_KEY unless given.
            project_id: id of the project that the spans are in; ARIZE_PROJECT_ID unless given.
            content: whether to send explanations, which may quote the conversation.
            http: timeout, proxy, certificates and further headers: the fields of `HttpOptions`.

        Raises:
            ConfigError: key or project is missing, or an option is wrong.
        """
        key = needed(api_key, "api_key", "ARIZE_API_KEY")
        where = base_url(url or "https://api.arize.com", "url")
        super().__init__(client(where, {"authorization": f"Bearer {key}"}, key, http=http), content)
        self._key = key
        self._project = needed(project_id, "project_id", "ARIZE_PROJECT_ID")

    def together(self, item: ScoreItem) -> str:
        """A request is about spans or about sessions."""
        return "SESSION" if item.session else "SPAN"

    async def send(self, items: Sequence[ScoreItem]) -> Errors:
        """Send annotations: each record once, with each name once, of which the last counts."""
        records: dict[str, dict[str, Any]] = {}
        for item in items:
            values = records.setdefault(item.session or item.evaluation.span_id, {})
            values[item.name] = _value(item)
        annotations = [{"record_id": id, "values": list(named.values())} for id, named in records.items()]
        body = {
            "project_id": self._project,
            "granularity": self.together(items[0]),
            "annotations": annotations,
        }
        await self._http.send("POST", "/v2/spans/annotate", body)
        return ()

    def spans_to(self) -> tuple[str, Mapping[str, str]] | None:
        """Arize's OTLP address; it asks for the space too."""
        headers = {"api_key": self._key, "space_id": os.environ.get("ARIZE_SPACE_ID", "")}
        return f"{self._http.url.replace('//api.', '//otlp.')}/v1/traces", headers


def _value(item: ScoreItem) -> dict[str, Any]:
    value = {
        "name": item.name,
        "score": item.value,
        "label": item.label,
        "text": cut(item.explanation, _TEXT),
    }
    return {key: given for key, given in value.items() if given is not None}
