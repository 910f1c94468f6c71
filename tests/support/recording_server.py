"""An HTTP server on loopback that records what it is sent, and answers well or badly, as it is told."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

__all__ = ["RecordedRequest", "RecordingServer", "Reply", "recording_server"]


@dataclass(frozen=True)
class RecordedRequest:
    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    raw: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.raw) if self.raw else None


@dataclass
class Reply:
    status: int = 200
    body: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0
    dies: bool = False
    """Closes the connection in the middle of the answer."""
    endless: bool = False
    """Goes on sending until the client leaves."""


class RecordingServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.requests: list[RecordedRequest] = []
        self.reply: Callable[[RecordedRequest], Reply] = lambda _: Reply()
        self.ending = threading.Event()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that leaves is expected here."""

    def answer(self, request: RecordedRequest) -> Reply:
        self.requests.append(request)
        return self.reply(request)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or each answer waits 40 ms for an acknowledgement
    server: RecordingServer

    def handle_any(self) -> None:
        raw = self._body()
        parts = urlsplit(self.path)
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = RecordedRequest(self.command, parts.path, parse_qs(parts.query), headers, raw)
        reply = self.server.answer(request)
        self.server.ending.wait(reply.delay)
        self.send_response(reply.status)
        for name, value in {"Content-Type": "application/json", **reply.headers}.items():
            self.send_header(name, value)
        self._send(reply)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            pieces = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                pieces += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return pieces
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _send(self, reply: Reply) -> None:
        if not reply.endless:
            self.send_header("Content-Length", str(len(reply.body) + (1000 if reply.dies else 0)))
        self.end_headers()
        self.wfile.write(reply.body)
        if reply.endless:
            while not self.server.ending.is_set():
                self.wfile.write(b" ")
                self.wfile.flush()
                time.sleep(0.005)
        if reply.dies or reply.endless:
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the base class named it)
        pass


@contextmanager
def recording_server() -> Iterator[RecordingServer]:
    """A server that runs until the block is left."""
    with RecordingServer() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server
        finally:
            server.ending.set()
            server.shutdown()
            thread.join()
