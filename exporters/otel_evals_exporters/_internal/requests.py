"""What destinations share to write requests: fields, credentials, and scores as OTLP records."""

from __future__ import annotations

import base64
import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from otel_evals.destinations import ApiDestination, ScoreItem, attributes_of, one_resource, service_of
from otel_evals.errors import DestinationError

_REJECTED = re.compile(rb'"rejected(Spans|LogRecords)":\s*"?[1-9]')
"""In OTLP's answer to a request that was accepted in part."""


def basic(user: str, password: str) -> dict[str, str]:
    """Return the header with a user and a password."""
    credentials = base64.b64encode(f"{user}:{password}".encode()).decode()
    return {"authorization": f"Basic {credentials}"}


def bearer(token: str | None) -> dict[str, str]:
    """Return the header with a token; empty without one."""
    return {"authorization": f"Bearer {token}"} if token else {}


def present(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


class OtlpDestination(ApiDestination):
    """Sends one span or log record per score; each request contains records from a single service."""

    kind = "otel"
    most = 100  # PostHog refuses more
    at_once = 2
    signal: ClassVar[Literal["span", "log"]]
    path: ClassVar[str]
    """Path of the OTLP address for the records."""

    @abstractmethod
    def record(self, item: ScoreItem) -> dict[str, Any]:
        """Return a record in OTLP/JSON, with `attributes` as a mapping."""

    def together(self, item: ScoreItem) -> str:
        return service_of(item)

    async def send(self, items: Sequence[ScoreItem]) -> None:
        records = [self.record(item) for item in items]
        for each in records:
            each["attributes"] = attributes_of(each["attributes"])
        body = one_resource(self.signal, records, service_of(items[0]))
        answer = await self._http.send("POST", self.path, body)
        if _REJECTED.search(answer.body):
            # The backends know the records by their ids, so those accepted already may be sent again.
            said = self._http.scrub(answer.body.decode(errors="replace"))
            raise DestinationError(f"records were rejected: {said}", retryable=False, status=400)
