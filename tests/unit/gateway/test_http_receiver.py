"""The HTTP receiver and senders that do not keep to the rules: the right answer, and the next is served."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from otel_evals_gateway import GatewayOptions
from otel_evals_gateway._internal.receiver import http_receiver
from otel_evals_gateway._internal.receiver.access import BearerTokens
from otel_evals_gateway._internal.receiver.answers import ExportAnswer
from otel_evals_gateway._internal.receiver.decoder import ExportRequest
from otel_evals_gateway._internal.receiver.http_receiver import HttpReceiver
from otel_evals_gateway._internal.receiver.receiver import RequestLimits
from tests.support.bombs import BOMBS
from tests.support.certificates import certificates, needs_openssl
from tests.support.gateways import post
from tests.support.waits import SECONDS, eventually


class Served:
    """A receiver in a thread that keeps what it is given."""

    def __init__(
        self,
        seconds: float = 20.0,
        most: int = 10,
        *,
        fails: bool = False,
        tls: ssl.SSLContext | None = None,
        **options: Any,
    ) -> None:
        self.gateway = GatewayOptions(
            max_body=10_000, max_decompressed=50_000, request_timeout=seconds, max_requests=most
        )
        self.taken: list[ExportRequest] = []
        self.answer = ExportAnswer()
        self.wait = 0.0
        self.limits: Any = None
        self.port = 0
        self._options, self._fails, self._tls = options, fails, tls
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1/traces"

    async def _handle(self, request: ExportRequest) -> ExportAnswer:
        await asyncio.sleep(self.wait)
        self.taken.append(request)
        if self._fails:
            raise RuntimeError("secret words")
        return self.answer

    async def _run(self) -> None:
        self._stop = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self.limits = RequestLimits(self.gateway)
        receiver = HttpReceiver(self._handle, ("traces", "logs"), self.limits, **self._options)
        self.port = await receiver.start("127.0.0.1", 0, self._tls)
        self._ready.set()
        await self._stop.wait()
        await receiver.stop_listening()
        await receiver.stop(1.0)

    def __enter__(self) -> Served:
        self._thread.start()
        assert self._ready.wait(20)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()


class ServedInTurns(Served):
    """Notes in which iteration of the event loop each request is taken; the first one blocks the loop."""

    def __init__(self) -> None:
        super().__init__(most=100)
        self.blocked, self.released = threading.Event(), threading.Event()
        self.iteration, self.taken_in = 0, list[int]()

    async def _handle(self, request: ExportRequest) -> ExportAnswer:
        if not self.blocked.is_set():
            self.blocked.set()
            self.released.wait(SECONDS)
            self._count()
        self.taken_in.append(self.iteration)
        return self.answer

    def _count(self) -> None:
        self.iteration += 1
        if len(self.taken_in) < 16:
            self._loop.call_soon(self._count)


def test_requests_that_arrive_together_are_decoded_one_in_an_iteration_of_the_loop() -> None:
    """Others, such as those of a health check, are answered between them."""
    _, _, build = BOMBS["long text"]
    data = build(3_000)
    head = b"POST /v1/traces HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-protobuf\r\n"
    with ServedInTurns() as served, contextlib.ExitStack() as opened:
        senders = [
            opened.enter_context(socket.create_connection(("127.0.0.1", served.port), SECONDS))
            for _ in range(16)
        ]
        for sender in senders:
            sender.sendall(head + b"Content-Length: %d\r\n\r\n" % len(data) + data)
            assert served.blocked.wait(SECONDS)
        served.released.set()
        for sender in senders:
            assert sender.recv(1_000).startswith(b"HTTP/1.1 200")
    assert len(set(served.taken_in)) == 16


@pytest.fixture
def served() -> Iterator[Served]:
    with Served() as each:
        yield each
        assert post(each.url, b"")[0] == each.answer.status  # the next request is served


@pytest.mark.parametrize(
    ("path", "kind", "headers", "body", "status"),
    [
        ("/v1/traces", "application/x-protobuf", {}, b"\xff" * 10, 400),
        ("/v1/traces", "text/plain", {}, b"", 415),
        ("/v1/traces", "application/json", {}, b"{", 400),
        ("/v1/traces", "application/x-protobuf", {"Content_Encoding": "br"}, b"x", 415),
        (
            "/v1/traces",
            "application/x-protobuf",
            {"Content_Encoding": "gzip"},
            gzip.compress(bytes(60_000), mtime=0),
            413,
        ),
        ("/v1/traces", "application/x-protobuf", {}, bytes(10_001), 413),
        ("/v1/metrics", "application/x-protobuf", {}, b"", 404),
        ("/", "application/x-protobuf", {}, b"", 404),
    ],
)
def test_what_cannot_be_taken_has_its_status(
    served: Served, path: str, kind: str, headers: dict[str, str], body: bytes, status: int
) -> None:
    url = served.url.replace("/v1/traces", path)
    got, answer, sent = post(url, body, kind, **headers)
    assert got == status
    assert answer
    assert sent["Content-Type"] == ("application/json" if kind == "text/plain" else kind)
    assert served.taken == []


def test_other_methods_are_refused(served: Served) -> None:
    with socket.create_connection(("127.0.0.1", served.port)) as connection:
        connection.sendall(b"GET /v1/traces HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        answer = _all(connection)
    assert answer.startswith(b"HTTP/1.1 405")
    assert b"Allow: POST" in answer


@pytest.mark.parametrize(
    ("host", "status"),
    [("Localhost.:1", 200), ("[::1]", 200), ("host.docker.internal", 200), ("a.example", 403)],
)
def test_a_web_site_that_names_this_machine_is_refused(served: Served, host: str, status: int) -> None:
    assert post(served.url, b"", Host=host)[0] == status


def test_a_body_without_a_length_is_bounded_too(served: Served) -> None:
    with socket.create_connection(("127.0.0.1", served.port)) as connection:
        connection.sendall(
            b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        with contextlib.suppress(ConnectionError):
            for _ in range(1_000):
                connection.sendall(b"3e8\r\n" + bytes(1_000) + b"\r\n")
        with contextlib.suppress(ConnectionError):
            assert _all(connection)[:12] in (b"", b"HTTP/1.1 413")
    assert served.taken == []


def test_garbage_instead_of_http_is_refused_without_a_log_line(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_connection(("127.0.0.1", served.port)) as connection:
        connection.sendall(b"\x16\x03\x01\x00\xff garbage \r\n\r\n")
        assert b" 400 " in _all(connection).split(b"\r\n")[0]
    with socket.create_connection(("127.0.0.1", served.port)) as connection:
        connection.sendall(b"POST /v1/traces HTTP/1.1\r\nAuthorization : Bearer secret\x00\r\n\r\n")
        answer = _all(connection)
    assert answer.startswith((b"HTTP/1.0 400", b"HTTP/1.1 400"))
    assert b"secret" not in answer
    assert caplog.records == []


@pytest.mark.parametrize(("length", "first"), [(2, b"HTTP/1.1 100"), (10_001, b"HTTP/1.1 413")])
def test_a_sender_that_asks_before_it_sends_its_body_is_answered(
    served: Served, length: int, first: bytes
) -> None:
    """Clients such as curl and .NET wait for the answer to `Expect: 100-continue`, .NET for a second."""
    with socket.create_connection(("127.0.0.1", served.port), SECONDS) as connection:
        connection.sendall(
            b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n"
            b"Expect: 100-continue\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % length
        )
        assert connection.recv(1_000).startswith(first)
        if length == 2:
            connection.sendall(b"\x0a\x00")
            assert _all(connection).startswith(b"HTTP/1.1 200")
            served.taken.clear()


@pytest.mark.parametrize("sent", [b"", b"POST /v1/traces HTTP/1.1\r\nHos"], ids=["nothing", "half"])
def test_a_sender_that_sends_no_request_in_time_is_cut_off(sent: bytes) -> None:
    with Served(seconds=0.3) as served:
        with socket.create_connection(("127.0.0.1", served.port), timeout=20) as connection:
            connection.sendall(sent)
            assert _all(connection) == b""
        assert post(served.url, b"")[0] == 200


def test_a_body_that_does_not_arrive_in_time_is_refused() -> None:
    with Served(seconds=0.3) as served:
        with socket.create_connection(("127.0.0.1", served.port), timeout=20) as connection:
            connection.sendall(
                b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n"
                b"Content-Length: 100\r\n\r\nab"
            )
            assert _all(connection).startswith(b"HTTP/1.1 408")
        assert post(served.url, b"")[0] == 200


def test_more_requests_than_may_be_in_progress_are_asked_to_come_again() -> None:
    with Served(most=1) as served:
        served.wait = 1.0
        first: list[int] = []
        thread = threading.Thread(target=lambda: first.append(post(served.url, b"")[0]))
        thread.start()
        eventually(lambda: served.limits.in_progress)
        status, _, headers = post(served.url, b"")
        thread.join()
        assert (first, status, headers["Retry-After"]) == ([200], 503, "1")


def test_an_error_inside_tells_the_sender_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with Served(fails=True) as served:
        status, answer, _ = post(served.url, b"")
    assert status == 500
    assert b"secret" not in answer
    assert "could not be handled" in caplog.text


def test_tokens_are_required_where_they_are_configured(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("right")
    with Served(tokens=BearerTokens(tmp_path / "tokens")) as served:
        status, _, headers = post(served.url, b"")
        assert (status, headers["WWW-Authenticate"], served.taken) == (401, "Bearer", [])
        assert [post(served.url, b"", Authorization=f"Bearer {each}")[0] for each in ("no", "right")] == [
            401,
            200,
        ]


def _all(connection: socket.socket) -> bytes:
    connection.settimeout(20)
    received = b""
    while part := connection.recv(65_536):
        received += part
    return received


def test_idle_connections_make_room_for_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_receiver, "max_connections", lambda: 5)
    with Served() as served, contextlib.ExitStack() as opened:
        idle = [opened.enter_context(_connection(served)) for _ in range(20)]
        assert post(served.url, b"")[0] == 200
        closed = [each for each in idle if _closed(each)]
        assert len(closed) >= 15
        assert idle[0] in closed, "the longest idle one goes first"


@needs_openssl
def test_connections_that_do_not_finish_their_handshake_are_bounded_in_number_and_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(http_receiver, "max_connections", lambda: 5)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificates(tmp_path))
    with Served(seconds=1.0, tls=context) as served, contextlib.ExitStack() as opened:
        silent = [opened.enter_context(_connection(served)) for _ in range(20)]
        eventually(lambda: sum(map(_closed, silent)) >= 15)
        assert sum(map(_closed, silent)) < 20
        eventually(lambda: all(map(_closed, silent)))


def test_a_request_in_progress_keeps_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_receiver, "max_connections", lambda: 2)
    with Served() as served, contextlib.ExitStack() as opened:
        busy = opened.enter_context(_connection(served))
        busy.sendall(b"POST /v1/traces HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n")
        busy.sendall(b"Content-Type: application/x-protobuf\r\n\r\n")
        eventually(lambda: served.limits.in_progress)
        for _ in range(5):
            opened.enter_context(_connection(served))
        busy.sendall(b"\x0a\x00")
        assert busy.recv(100).startswith(b"HTTP/1.1 200")


def _connection(served: Served) -> socket.socket:
    return socket.create_connection(("127.0.0.1", served.port), timeout=20)


def _closed(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def test_a_small_body_with_too_many_elements_is_refused_before_it_is_decoded(served: Served) -> None:
    """4 KB that decompress to 50 KB, and would take 4 MB once decoded."""
    inner = b"\x12\x00" * 24_000
    spans = b"\x12" + _varint(len(inner)) + inner
    body = gzip.compress(b"\x0a" + _varint(len(spans)) + spans)
    status, answer, _ = post(served.url, body, Content_Encoding="gzip")
    assert (status, served.taken) == (413, [])
    assert b"send smaller requests" in answer


def test_bodies_that_have_not_arrived_whole_count_with_their_memory() -> None:
    """All requests in progress may have 200,000 bytes, so ten bodies that are joined fit in."""
    head = b"POST /v1/traces HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-protobuf\r\n"
    head += b"Content-Length: 10000\r\n\r\n"
    with Served(most=20) as served, contextlib.ExitStack() as opened:
        for _ in range(10):
            sender = opened.enter_context(socket.create_connection(("127.0.0.1", served.port)))
            sender.sendall(head + bytes(9_999))
        eventually(lambda: served.limits.bytes == 10 * 2 * 9_999)
        status, answer, _ = post(served.url, bytes(1_000))
        assert (status, served.taken) == (503, [])
        assert b"too large together" in answer
        opened.close()
        eventually(lambda: served.limits.bytes == 0)


def _varint(number: int) -> bytes:
    return bytes([number & 0x7F | 0x80, number >> 7 & 0x7F | 0x80, number >> 14])
