"""Azure Monitor's ingestion endpoint on loopback: accepts everything, and keeps the telemetry items."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.support.recording_server import RecordedRequest, RecordingServer, Reply, recording_server


class AzureIngestion:
    def __init__(self, server: RecordingServer) -> None:
        key = "00000000-0000-0000-0000-000000000000"
        self.connection_string = (
            f"InstrumentationKey={key};IngestionEndpoint={server.url};LiveEndpoint={server.url}"
        )
        """The value of APPLICATIONINSIGHTS_CONNECTION_STRING; live metrics are sent here too."""
        self._items: list[dict[str, Any]] = []
        server.reply = self._accept

    def of_type(self, name: str) -> list[dict[str, Any]]:
        """Items of one type, such as `RemoteDependency`: their data, with their trace id as `trace_id`."""
        return [
            {**item["data"]["baseData"], "trace_id": item.get("tags", {}).get("ai.operation.id", "")}
            for item in self._items
            if item["name"] == f"Microsoft.ApplicationInsights.{name}"
        ]

    def _accept(self, request: RecordedRequest) -> Reply:
        packed = request.headers.get("content-encoding") == "gzip"
        body = gzip.decompress(request.raw) if packed else request.raw
        items = json.loads(body) if request.path.endswith("/track") else []
        self._items += items
        answer = {"itemsReceived": len(items), "itemsAccepted": len(items), "errors": []}
        return Reply(body=json.dumps(answer).encode())


@contextmanager
def azure_ingestion() -> Iterator[AzureIngestion]:
    """An endpoint that listens until the block is left."""
    with recording_server() as server:
        yield AzureIngestion(server)
