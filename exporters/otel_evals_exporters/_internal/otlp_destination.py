"""Base of destinations that send scores as OTLP records."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from otel_evals.destinations import ApiDestination, Errors, ScoreItem, attributes_of, one_resource, service_of


class OtlpDestination(ApiDestination):
    """Sends one span or log record per score; each request contains records from a single service."""

    kind = "otel"
    most = 100  # PostHog refuses more
    at_once = 2
    signal: ClassVar[Literal["span", "log"]]
    path: ClassVar[str]
    """Path of the OTLP address."""

    @abstractmethod
    def record(self, item: ScoreItem) -> Mapping[str, Any]:
        """Return a record in OTLP/JSON, with `attributes` as a mapping."""

    def together(self, item: ScoreItem) -> str:
        return service_of(item)

    async def send(self, items: Sequence[ScoreItem]) -> Errors:
        records = [dict(self.record(item)) for item in items]
        for each in records:
            each["attributes"] = attributes_of(each["attributes"])
        body = one_resource(self.signal, records, service_of(items[0]))
        await self._http.send("POST", self.path, body)
        return ()
