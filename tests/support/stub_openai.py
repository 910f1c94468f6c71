"""An OpenAI-compatible server on loopback: answers by script, remembers requests, misbehaves on command.

    with StubOpenAI(reply={"score": 1}) as stub:
        judge = LiteLLMJudge("openai/any", api_base=stub.url)

A script is one act or a list of acts given in turn, the last one again and again. An act is a value to answer
as JSON text, a `str` to answer as it is, a `CallTool`, `Raw` or `Misbehave`, or a function of the request's
body that returns one.
"""

from __future__ import annotations

import gzip
import json
import socket
import ssl
import struct
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from otel_evals._internal.judges.structured import ladder_of


@dataclass(frozen=True)
class Misbehave:
    """One way not to answer."""

    how: str
    """`status`, `hang`, `drip`, `garbage`, `truncated`, `reset`, `slow`,
    `endless`, `compressed` or `empty`."""
    status: int = 500
    headers: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 30.0


@dataclass(frozen=True)
class CallTool:
    """Answer with a tool call, as a model that wants to use a tool does."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    id: str = "call_1"

    def message(self) -> dict[str, Any]:
        """The assistant's message."""
        function = {"name": self.name, "arguments": json.dumps(dict(self.arguments))}
        return {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": self.id, "type": "function", "function": function}],
        }


@dataclass(frozen=True)
class Raw:
    """Answer with a completion with these fields, in the message, in the choice and at the top."""

    text: str = "so"
    message: Mapping[str, Any] = field(default_factory=dict)
    choice: Mapping[str, Any] = field(default_factory=dict)
    whole: Mapping[str, Any] = field(default_factory=dict)


class StubOpenAI:
    def __init__(
        self, reply: Any = "ok", *, usage: tuple[int, int] = (120, 20), tls: ssl.SSLContext | None = None
    ) -> None:
        self.script: list[Any] = list(reply) if isinstance(reply, list) else [reply]
        self.usage = usage
        self.error_text = ""
        """What a status other than 200 says."""
        self.requests: list[dict[str, Any]] = []
        self.times: list[float] = []
        self.headers: list[dict[str, str]] = []
        self.in_flight = 0
        self.most_in_flight = 0
        self._lock = threading.Lock()
        self._closing = threading.Event()
        stub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # or each answer waits 40 ms for an acknowledgement

            def do_POST(self) -> None:
                stub._serve(self)

            def log_message(self, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._scheme = "http" if tls is None else "https"
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]  # clients may leave
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self._server.server_address[1]}/v1"

    @property
    def prompts(self) -> list[str]:
        """The last user message of each request."""
        return [request["messages"][-1]["content"] for request in self.requests]

    def __enter__(self) -> StubOpenAI:
        ladder_of.cache_clear()  # another server may have had this port
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()

    def _serve(self, http: BaseHTTPRequestHandler) -> None:
        body = json.loads(http.rfile.read(int(http.headers["content-length"])))
        with self._lock:
            self.requests.append(body)
            self.times.append(time.monotonic())
            self.headers.append({key.lower(): value for key, value in http.headers.items()})
            self.in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self.in_flight)
            act = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        try:
            self._act(http, body, act)
        except (BrokenPipeError, ConnectionResetError):
            http.close_connection = True  # the client gave up
        finally:
            with self._lock:
                self.in_flight -= 1

    def _act(  # noqa: C901  # one case for each way to misbehave
        self, http: BaseHTTPRequestHandler, body: dict[str, Any], act: Any
    ) -> None:
        if callable(act):
            act = act(body)
        if not isinstance(act, Misbehave):
            return _send(http, 200, self._completion(body, act))
        match act.how:
            case "status":
                message = self.error_text or f"status {act.status} on command"
                error = {"error": {"message": message, "type": "stub"}}
                return _send(http, act.status, json.dumps(error).encode(), act.headers)
            case "hang":
                self._closing.wait(act.seconds)
                http.close_connection = True
            case "drip":
                http.send_response(200)
                http.send_header("content-length", "1000000")
                http.end_headers()
                while not self._closing.wait(0.05):
                    http.wfile.write(b" ")
                    http.wfile.flush()
            case "endless":
                http.send_response(200)
                http.send_header("connection", "close")
                http.end_headers()
                while not self._closing.is_set():
                    http.wfile.write(b" " * 100_000)
            case "compressed":
                body_bytes = gzip.compress(b" " * 50_000_000 + self._completion(body, "so"))
                return _send(http, 200, body_bytes, {"content-encoding": "gzip"})
            case "slow":
                self._closing.wait(act.seconds)
                return _send(http, 200, self._completion(body, "slow but sure"))
            case "garbage":
                return _send(http, 200, b"<html>this is no JSON at all</html>")
            case "truncated":
                return _send(http, 200, self._completion(body, "")[:40])
            case "empty":
                return _send(http, 200, self._completion(body, ""))
            case "reset":
                linger = struct.pack("ii", 1, 0)  # close with RST
                http.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                http.close_connection = True
        return None

    def _completion(self, body: dict[str, Any], answer: Any) -> bytes:
        raw = answer if isinstance(answer, Raw) else Raw()
        if isinstance(answer, CallTool):
            message, finish = answer.message(), "tool_calls"
        elif isinstance(answer, Raw):
            message, finish = {"role": "assistant", "content": raw.text, **raw.message}, "stop"
        else:
            text = answer if isinstance(answer, str) else json.dumps(answer)
            message, finish = {"role": "assistant", "content": text}, "stop"
        prompt, completion = self.usage
        return json.dumps(
            {
                "id": f"c{len(self.requests)}",
                "object": "chat.completion",
                "created": 1_700_000_000,
                "model": body["model"],
                "choices": [
                    {
                        "index": 0,
                        "message": message,
                        "finish_reason": finish,
                        **raw.choice,
                    }
                ],
                "usage": {
                    "prompt_tokens": prompt,
                    "completion_tokens": completion,
                    "total_tokens": prompt + completion,
                },
                **raw.whole,
            }
        ).encode()


def _send(
    http: BaseHTTPRequestHandler, status: int, body: bytes, headers: Mapping[str, str] | None = None
) -> None:
    http.send_response(status)
    for name, value in {"content-type": "application/json", **(headers or {})}.items():
        http.send_header(name, value)
    http.send_header("content-length", str(len(body)))
    http.end_headers()
    http.wfile.write(body)
