"""A server that is away, hangs or is none: bounded in time, counted, told once, and no secret in any text."""

from __future__ import annotations

import contextlib
import pickle
import socket
import threading
from collections.abc import Iterator

import anyio
import pytest

from otel_evals._internal.judges.judge import Call
from otel_evals._internal.judges.resolver import resolve_judge
from otel_evals._internal.util.redis_server import RedisServer, redis_server
from otel_evals.errors import ConfigError, JudgeError, JudgeUnavailableError, StoreError
from otel_evals.judges import Budget

CALL = Call(model="m", scorer_id="s", max_input_tokens=30, max_output_tokens=10, max_cost=0.01)


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A server that takes connections and never answers."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        listening.setblocking(False)
        yield listening


def address(silent: socket.socket) -> str:
    return f"redis://user:hidden@127.0.0.1:{silent.getsockname()[1]}/0"


def connections(silent: socket.socket) -> int:
    """How many connections were made since the last call."""
    count = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            silent.accept()[0].close()
            count += 1
    return count


@pytest.fixture
def nobody() -> str:
    """Address at which nothing listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"redis://user:hidden@127.0.0.1:{free.getsockname()[1]}/0"


def test_a_silent_server_costs_a_bounded_time_once(
    silent: socket.socket, caplog: pytest.LogCaptureFixture
) -> None:
    server = RedisServer(address(silent))
    for _ in range(50):
        with pytest.raises(StoreError) as told:
            server.add("n", 1, 60)
        assert "hidden" not in str(told.value)
    assert connections(silent) <= 2, "one call waited, the others did not"
    assert server.failures == 50
    (line,) = [r.getMessage() for r in caplog.records if r.name == "otel_evals._internal.util.redis_server"]
    assert "is unavailable" in line
    assert "hidden" not in line


class Answering:
    """A server that gives each request one answer."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"redis://127.0.0.1:{self._listening.getsockname()[1]}/0"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                threading.Thread(target=self._give, args=(connection,), daemon=True).start()

    def _give(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            while connection.recv(65536):
                connection.sendall(self._answer)

    def __enter__(self) -> Answering:
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.close()


ANSWERS = [
    b":1\r\n",
    b":-999999\r\n",
    b"+OK\r\n",
    b"$-1\r\n",
    b"*1\r\n$1\r\nx\r\n",
    b"$2\r\nab\r\n",
    b"!!\r\n",
]


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_lying_server_makes_no_room(answer: bytes) -> None:
    """Whatever it answers, a process keeps within the budget."""
    with Answering(answer) as lying:
        budget = Budget(tokens=100, store=lying.url)
        calls = 0

        async def main() -> None:
            nonlocal calls
            with contextlib.suppress(JudgeError):
                for _ in range(10):
                    async with budget.around(CALL) as settle:
                        calls += 1
                        settle(None, None)

        anyio.run(main)
    assert calls <= 2


def test_while_the_server_is_away_no_call_is_made(nobody: str, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        with pytest.raises(JudgeUnavailableError, match="budget"):
            async with Budget(usd=1, store=nobody).around(CALL):
                raise AssertionError("a call was made that no budget covers")

    anyio.run(main)
    assert "hidden" not in caplog.text


@pytest.mark.parametrize(
    ("words", "field"),
    [
        ({"budget": {"usd": 1, "store": "postgresql://h/d"}}, "budget.store"),
        ({"limits": {"requests": "1/s", "store": "redis://127.0.0.1:1/0"}}, "limits.store"),
        ({"budget": {"usd": 1, "store": "redis://u:hidden@h:port/0"}}, "store"),
    ],
)
def test_wrong_addresses_name_their_field(words: dict[str, object], field: str) -> None:
    with pytest.raises(ConfigError, match=field) as told:
        resolve_judge({"model": "m", "max_tokens": 9, **words})
    assert "hidden" not in str(told.value)


def test_servers_are_one_per_address_in_other_processes_too(nobody: str) -> None:
    server = redis_server(nobody)
    assert pickle.loads(pickle.dumps(server)) is server
    assert "hidden" not in server.name
