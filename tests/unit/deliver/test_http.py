"""The HTTP client of destinations: its options, its pace, and what it keeps to itself."""

from __future__ import annotations

import base64
import gzip
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import anyio
import pytest

from otel_evals.destinations import HttpClient, HttpOptions, server_url
from otel_evals.errors import ConfigError, DestinationError
from tests.support.certificates import certificates, needs_openssl, server_context
from tests.support.recording_server import RecordingServer, Reply, recording_server

KEY = "sk-very-secret-0123456789"


@pytest.fixture
def server() -> Iterator[RecordingServer]:
    with recording_server() as server:
        yield server


def send(url: str, **options: Any) -> None:
    async def run() -> None:
        client = HttpClient(url, {"authorization": f"Bearer {KEY}"}, options)
        try:
            await client.send("POST", "/scores", {"a": 1})
        finally:
            await client.close()

    anyio.run(run)


def test_a_proxy_is_used(server: RecordingServer) -> None:
    send("http://backend.example:4444", proxy=server.url)
    (request,) = server.requests
    assert request.headers["host"] == "backend.example:4444"


def test_a_proxy_of_the_environment_is_used(server: RecordingServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", server.url)
    monkeypatch.setenv("NO_PROXY", "")
    send("http://backend.example:4444")
    assert len(server.requests) == 1


def test_headers_are_added(server: RecordingServer) -> None:
    send(server.url, headers={"x-team": "search"})
    assert server.requests[0].headers["x-team"] == "search"


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        *((moved, "redirected") for moved in (301, 302, 308)),
        *((401, "unauthorized"), (403, "unauthorized"), (408, "unavailable"), (425, "unavailable")),
        *((409, "conflict"), (413, "too_large"), (402, "refused"), (422, "refused"), (429, "rate_limited")),
    ],
)
def test_a_refusal_has_a_reason(status: int, reason: str, server: RecordingServer) -> None:
    server.reply = lambda _: Reply(status, headers={"Location": "http://elsewhere.example"})
    with pytest.raises(DestinationError) as caught:
        send(server.url)
    assert caught.value.reason == reason


@needs_openssl
def test_a_private_authority_is_trusted_only_when_it_is_named(tmp_path: Path) -> None:
    certificate, key = certificates(tmp_path)
    with HTTPServer(("127.0.0.1", 0), Quiet) as server:
        server.socket = server_context(certificate, key).wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            url = f"https://127.0.0.1:{server.server_port}"
            send(url, ca_file=str(certificate))
            with pytest.raises(DestinationError, match=r"was not reached: ConnectError.*CERTIFICATE_VERIFY"):
                send(url)
        finally:
            server.shutdown()
            thread.join()


class Quiet(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def handle(self) -> None:
        with suppress(OSError):  # a client that does not trust us leaves
            super().handle()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the base class named it)
        pass


def zipped(data: bytes, times: int) -> bytes:
    for _ in range(times):
        data = gzip.compress(data)
    return data


@pytest.mark.parametrize("coding", ["gzip, gzip", "gzip,deflate", "br", "zstd", "GZIP, identity, gzip"])
def test_an_answer_compressed_in_a_way_that_hides_its_size_is_not_read(
    coding: str, server: RecordingServer
) -> None:
    body = zipped(b"0" * 50_000_000, 2)
    server.reply = lambda _: Reply(200, body, {"content-encoding": coding})
    with pytest.raises(DestinationError, match="compression that was not requested"):
        send(server.url)


@pytest.mark.parametrize("where", ["header", "basic", "option", "query", "proxy"])
def test_what_a_server_repeats_of_a_key_is_not_told(where: str, server: RecordingServer) -> None:
    """However it was given: the word after a scheme, a part of an address."""
    key, repeated = "abcdefgh12345678", []

    def refuse(request: Any) -> Reply:
        repeated.append(1)
        return Reply(401, f"there is no {key}".encode())

    server.reply = refuse
    basic = base64.b64encode(f"user:{key}".encode()).decode()
    headers = {"header": {"x-custom": f"Key {key}"}, "basic": {"authorization": f"Basic {basic}"}}.get(
        where, {}
    )
    options: dict[str, Any] = {"headers": {"authorization": f"Token {key}"}} if where == "option" else {}
    if where == "proxy":
        options = {"proxy": server.url.replace("//", f"//user:{key}@")}
    url = f"{server.url}/in?token={key}" if where == "query" else server.url
    client = HttpClient(url, headers, options)

    async def ask() -> None:
        try:
            await client.send("POST", "")
        finally:
            await client.close()

    with pytest.raises(DestinationError) as caught:
        anyio.run(ask)
    assert repeated
    assert key not in str(caught.value)
    assert key not in repr(HttpOptions(**options))


def test_an_error_tells_the_answer_on_one_line_without_keys(server: RecordingServer) -> None:
    server.reply = lambda _: Reply(400, f"no\x1b[31m, {KEY}\nis wrong ".encode() + b"x" * 5000)
    with pytest.raises(DestinationError) as caught:
        send(server.url)
    assert "answered 400: no [31m, *** is wrong xxx" in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"timeout": 0}, "http.timeout: must be greater than zero"),
        ({"ca_file": "/nowhere.pem"}, "http.ca_file: there is no file /nowhere.pem"),
        ({"time_out": 1}, "http.time_out: unknown option; did you mean 'timeout'?"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        HttpClient("http://localhost", {}, options)
    assert str(caught.value).startswith(problem)


@pytest.mark.parametrize(
    "given", ["localhost:5000", "ftp://a", "http://", "https://me:pw-secret@example.com"]
)
def test_an_address_that_is_none_is_named_without_its_password(given: str) -> None:
    with pytest.raises(ConfigError, match=r"^url: .* is not a URL such as") as caught:
        server_url(given)
    assert "pw-secret" not in str(caught.value)


@pytest.mark.parametrize("given", ["http://a/", "http://a/v1/traces", "http://a/v1/traces//", "http://a"])
def test_what_belongs_to_another_api_is_taken_off(given: str) -> None:
    assert server_url(given, without="/v1/traces") == "http://a"
