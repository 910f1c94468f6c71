"""Real servers on loopback, each with its data in a folder of its own."""

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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

__all__ = ["clean_environment", "free_ports", "interop_program", "served"]


def interop_program(name: str, suffix: str = "") -> Path | None:
    """A command of the interop environment (OTEL_EVALS_INTEROP + suffix), or None if it is not set up."""
    default = Path(__file__).parents[2] / ".venv-interop"
    program = Path(os.environ.get("OTEL_EVALS_INTEROP", str(default)) + suffix) / "bin" / name
    return program if program.exists() else None


@contextmanager
def served(
    command: Callable[[Path], Sequence[str | Path]],
    environment: Callable[[Path], dict[str, str]],
    health: str,
    *,
    start_timeout: float = 150.0,
) -> Iterator[None]:
    """Run a server until the block is left; it has started when `health` answers.

    `command` and `environment` are given the temporary folder that it may write to.
    """
    folder = Path(tempfile.mkdtemp(prefix="otel-evals-interop-"))
    with open(folder / "server.log", "wb") as log:
        process = subprocess.Popen(
            command(folder),
            env=environment(folder),
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=folder,
            start_new_session=True,
        )
    try:
        _wait_until_up(health, process, folder / "server.log", start_timeout)
        yield
    finally:
        _stop(process)
        shutil.rmtree(folder, ignore_errors=True)


def clean_environment(*prefixes: str) -> dict[str, str]:
    """This process's environment without OpenTelemetry's variables and those that start like one given."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", *prefixes))}
    kept.pop("PYTHONPATH", None)
    return kept | {
        "DO_NOT_TRACK": "1",
        "OTEL_EVALS_TRUST_KEY": os.environ.get("OTEL_EVALS_TRUST_KEY", "tests"),
    }


def free_ports(count: int) -> list[int]:
    """That many free ports of loopback."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def _wait_until_up(health: str, process: subprocess.Popen[bytes], log: Path, timeout: float) -> None:
    end = time.monotonic() + timeout
    while time.monotonic() < end and process.poll() is None:
        try:
            with urllib.request.urlopen(health, timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise RuntimeError(f"it did not start in {timeout} s:\n{log.read_text(errors='replace')[-2000:]}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)
