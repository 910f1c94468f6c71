"""A real Phoenix server on loopback, with its data in a folder of its own."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["phoenix_program", "phoenix_server"]


def phoenix_program() -> Path | None:
    """The `phoenix` command of the interop environment (OTEL_EVALS_INTEROP), or None if it is not set up."""
    root = Path(os.environ.get("OTEL_EVALS_INTEROP", Path(__file__).parents[2] / ".venv-interop"))
    program = root / "bin" / "phoenix"
    return program if program.exists() else None


@contextmanager
def phoenix_server(program: Path, *, start_timeout: float = 150.0) -> Iterator[str]:
    """Run Phoenix and yield its base URL. It stores nothing outside a temporary folder and calls nobody."""
    folder = Path(tempfile.mkdtemp(prefix="phoenix-"))
    http, grpc = _free_ports(2)
    with open(folder / "server.log", "wb") as log:
        process = subprocess.Popen(
            [program, "serve"],
            env=_environment(folder, http, grpc),
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=folder,
            start_new_session=True,
        )
    url = f"http://127.0.0.1:{http}"
    try:
        _wait_until_up(url, process, folder / "server.log", start_timeout)
        yield url
    finally:
        _stop(process)
        shutil.rmtree(folder, ignore_errors=True)


def _environment(folder: Path, http: int, grpc: int) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "PHOENIX_"))}
    kept.pop("PYTHONPATH", None)
    return kept | {
        "PHOENIX_WORKING_DIR": str(folder),
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": str(http),
        "PHOENIX_GRPC_PORT": str(grpc),
        "PHOENIX_TELEMETRY_ENABLED": "false",
        "PHOENIX_ALLOW_EXTERNAL_RESOURCES": "false",
        "DO_NOT_TRACK": "1",
    }


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def _wait_until_up(url: str, process: subprocess.Popen[bytes], log: Path, timeout: float) -> None:
    end = time.monotonic() + timeout
    while time.monotonic() < end and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/healthz", timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise RuntimeError(f"Phoenix did not start in {timeout} s:\n{log.read_text(errors='replace')[-2000:]}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)
