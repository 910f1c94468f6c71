"""Azure Monitor's ingestion endpoint on loopback: accepts everything, and keeps the telemetry items."""

from __future__ import annotations

import gzip
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


class AzureIngestion:
    """Listens while the `with` block lasts."""

    def __init__(self) -> None:
        self.items: list[dict[str, Any]] = []
        """Telemetry items as they came: `name`, `tags` and `data`."""
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.ingestion = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def connection_string(self) -> str:
        """The value of APPLICATIONINSIGHTS_CONNECTION_STRING; live metrics are sent here too."""
        at = f"http://127.0.0.1:{self._server.server_port}"
        key = "00000000-0000-0000-0000-000000000000"
        return f"InstrumentationKey={key};IngestionEndpoint={at};LiveEndpoint={at}"

    def of_type(self, name: str) -> list[dict[str, Any]]:
        """Items of one type, such as `RemoteDependency`: their data, with their trace id as `trace_id`."""
        return [
            {**item["data"]["baseData"], "trace_id": item.get("tags", {}).get("ai.operation.id", "")}
            for item in self.items
            if item["name"] == f"Microsoft.ApplicationInsights.{name}"
        ]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    ingestion: AzureIngestion


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or each answer waits 40 ms for an acknowledgement
    timeout = 5
    server: _Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        items = json.loads(body) if self.path.endswith("/track") else []
        self.server.ingestion.items += items
        answer = {"itemsReceived": len(items), "itemsAccepted": len(items), "errors": []}
        told = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(told)))
        self.end_headers()
        self.wfile.write(told)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the base class named it)
        pass
