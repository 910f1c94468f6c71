"""Leaving under real servers: whatever ends a worker, its runs are scored once and its spans leave."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support import PYTHONPATH
from tests.support.otlp_receiver import OtlpReceiver
from tests.support.servers import free_ports
from tests.support.service import check_books
from tests.support.waits import SECONDS, eventually

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs signals and fork"),
]


class Server:
    """A server process in a folder of its own."""

    def __init__(
        self, folder: Path, *command: str, options: dict[str, object], environ: dict[str, str]
    ) -> None:
        self.folder = folder
        self.port = free_ports(1)[0]
        self.log = open(folder / "log", "wb")  # noqa: SIM115  # as long as the process writes to it
        self.process = subprocess.Popen(
            [sys.executable, "-m", *[part.replace("PORT", str(self.port)) for part in command]],
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join([str(folder), PYTHONPATH]),
                "SERVICE_FOLDER": str(folder),
                "SERVICE_OPTIONS": json.dumps(options),
                **environ,
            },
            cwd=folder,
            stdout=self.log,
            stderr=subprocess.STDOUT,
        )

    def get(self, path: str = "/") -> str:
        """One request; waits until the server is up."""
        return str(eventually(lambda: self._get(path)))

    def _get(self, path: str) -> str | None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=SECONDS) as answer:
                return str(answer.read().decode())
        except urllib.error.URLError as error:
            if isinstance(error.reason, ConnectionRefusedError) and self.process.poll() is None:
                return None
            raise

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def ends(self) -> int:
        """Wait for the process; returns its exit status."""
        return self.process.wait(SECONDS)

    def logged(self) -> str:
        return (self.folder / "log").read_text(errors="replace")


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Starts servers; ends those that still run."""
    started: list[Server] = []

    def start(*command: str, options: dict[str, object] | None = None, **environ: str) -> Server:
        started.append(Server(tmp_path, *command, options=options or {}, environ=environ))
        return started[-1]

    yield start
    for server in started:
        if server.process.poll() is None:
            server.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                server.process.wait(SECONDS)
            server.process.kill()
        server.log.close()


GUNICORN = (
    "gunicorn",
    "tests.support.service:application",
    "-b",
    "127.0.0.1:PORT",
    "--graceful-timeout",
    "15",
)


@pytest.mark.parametrize("preload", [True, False], ids=["preload", "each worker imports"])
def test_gunicorn_workers_leave_in_order(serve: Callable[..., Server], tmp_path: Path, preload: bool) -> None:
    """Two workers that end after five requests each, a graceful restart amid them, then the end."""
    server = serve(*GUNICORN, "-w", "2", "--max-requests", "5", *["--preload"] * preload)
    for _ in range(12):
        server.get()
    server.signal(signal.SIGHUP)
    for _ in range(6):
        server.get()
    server.signal(signal.SIGTERM)
    assert server.ends() == 0, server.logged()
    assert "Traceback" not in server.logged()
    check_books(tmp_path, 18)


@pytest.mark.parametrize("preload", [True, False], ids=["preload", "each worker imports"])
def test_metrics_of_gunicorn_workers_add_up(serve: Callable[..., Server], preload: bool) -> None:
    """Each worker has counters of its own: a backend tells them apart by `service.instance.id`."""
    with OtlpReceiver() as receiver:
        environment = {
            "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": f"{receiver.endpoint}/v1/metrics",
            "OTEL_METRIC_EXPORT_INTERVAL": "500",
            "SERVICE_SECONDS": "0.01",
        }
        server = serve(*GUNICORN, "-w", "2", *["--preload"] * preload, **environment)
        sent = 0

        def both_have_a_share() -> bool:
            nonlocal sent
            with ThreadPoolExecutor(4) as pool:
                sent += len(list(pool.map(lambda _: server.get(), range(8))))
            return len(_latest(receiver)) == 2

        server.get()
        sent += 1
        eventually(both_have_a_share)
        eventually(lambda: sum(_latest(receiver).values()) == sent)
        server.signal(signal.SIGTERM)
        assert server.ends() == 0, server.logged()


def _latest(receiver: OtlpReceiver) -> dict[str, float]:
    """The number of eligible runs that each process told last."""
    runs = [each for each in receiver.metrics if each.name == "otel_evals.runs" and each.value]
    return {
        str(each.resource["service.instance.id"]): each.value
        for each in runs
        if each.attributes["otel_evals.outcome"] == "eligible"
    }


@pytest.mark.parametrize(
    ("worker", "application", "options"),
    [
        # Uvicorn raises SIGTERM again after it has drained, so the worker needs a handler of its own.
        ("uvicorn.workers.UvicornWorker", "app", {"handle_sigterm": True}),
        # Each request runs an event loop of the application, next to the engine's.
        ("gevent", "application", {}),
    ],
)
def test_gunicorn_s_other_workers_answer_and_leave_in_order(
    serve: Callable[..., Server], tmp_path: Path, worker: str, application: str, options: dict[str, object]
) -> None:
    pytest.importorskip(worker.partition(".")[0])
    command = [part.replace(":application", f":{application}") for part in GUNICORN]
    server = serve(*command, "-k", worker, options=options)
    for _ in range(20):  # one at a time: greenlets share a thread, which runs one event loop
        server.get()
    server.signal(signal.SIGTERM)
    assert server.ends() == 0, server.logged()
    assert "Traceback" not in server.logged()
    check_books(tmp_path, 20)


def test_a_gunicorn_worker_that_is_aborted_leaves_its_runs(
    serve: Callable[..., Server], tmp_path: Path
) -> None:
    """A worker hangs and is killed; what the journal kept of it another one scores, once."""
    options = {"journal": str(tmp_path / "journal"), "grace": 0.05}
    server = serve(*GUNICORN, "-w", "1", "--timeout", "1", options=options, SERVICE_SECONDS="4")
    server.get()
    with contextlib.suppress(OSError):
        server.get("/hang")
    eventually(lambda: "SIGKILL" in server.logged() or "SIGABRT" in server.logged())
    server.get()
    eventually(lambda: scored(tmp_path) == 3)
    server.signal(signal.SIGTERM)
    assert server.ends() == 0, server.logged()
    assert scored(tmp_path) == 3


def scored(folder: Path) -> int:
    file = folder / "scores.jsonl"
    lines = file.read_text().splitlines() if file.exists() else []
    return len({json.loads(line)["trace_id"] for line in lines})


UVICORN = (
    "uvicorn",
    "tests.support.service:app",
    "--host",
    "127.0.0.1",
    "--port",
    "PORT",
    "--log-level",
    "warning",
)


@pytest.mark.parametrize("chained", [True, False], ids=["handle_sigterm", "lifespan"])
def test_uvicorn_drains_and_then_everything_is_scored(
    serve: Callable[..., Server], tmp_path: Path, chained: bool
) -> None:
    """A request that is under way at SIGTERM is answered, and its run scored like those before it."""
    environment = {} if chained else {"SERVICE_LEAVES": "1"}
    server = serve(*UVICORN, options={"handle_sigterm": chained}, **environment)
    for _ in range(3):
        server.get()
    with ThreadPoolExecutor() as pool:
        last = pool.submit(server.get, "/slow")
        eventually((tmp_path / "slow").exists)
        server.signal(signal.SIGTERM)
        assert last.result()
    assert server.ends() == -signal.SIGTERM, server.logged()
    assert "Traceback" not in server.logged()
    check_books(tmp_path, 4)


@pytest.mark.parametrize("how", [("--reload", "--reload-dir", "watched"), ("--workers", "2")], ids=" ".join)
def test_uvicorn_children_drain_and_leave(
    serve: Callable[..., Server], tmp_path: Path, how: tuple[str, ...]
) -> None:
    """The same in the processes that uvicorn starts itself, which import the application while they serve."""
    (tmp_path / "watched").mkdir()
    server = serve(*UVICORN, *how, options={"handle_sigterm": True})
    for _ in range(3):
        server.get()
    with ThreadPoolExecutor() as pool:
        last = pool.submit(server.get, "/slow")
        eventually((tmp_path / "slow").exists)
        if "--reload" in how:
            (tmp_path / "watched" / "changed.py").write_text("changed = True\n")
        else:
            server.signal(signal.SIGTERM)
        assert last.result()
    if "--reload" in how:
        eventually(lambda: scored(tmp_path) == 4)
        server.signal(signal.SIGTERM)
    server.ends()
    assert "Traceback" not in server.logged(), server.logged()
    check_books(tmp_path, 4)
