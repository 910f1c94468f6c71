"""A real Redis or Valkey for tests, on a free port of loopback."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from pathlib import Path

from tests.support.waits import SECONDS

__all__ = ["RunningRedis", "find_redis"]


def find_redis() -> str | None:
    """The server's program; None where there is none."""
    return shutil.which("redis-server") or shutil.which("valkey-server")


class RunningRedis:
    """A server that keeps nothing on disk and can be killed and started again; use as a context manager.

    Args:
        password: that it requires.
        tls: a folder for a key and a certificate of its own, with which it speaks TLS only.
    """

    def __init__(self, password: str = "secret", tls: Path | None = None) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._password = password
        self.url = f"redis://:{password}@127.0.0.1:{self.port}/0"
        self.certificate = None if tls is None else _certificate(tls)
        if self.certificate is not None:
            self.url = f"rediss{self.url.removeprefix('redis')}?ssl_ca_certs={self.certificate}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        program = find_redis()
        assert program is not None
        options = ["--port", str(self.port)]
        if self.certificate is not None:
            files = ["--tls-cert-file", self.certificate, "--tls-key-file", self.certificate]
            options = ["--port", "0", "--tls-port", str(self.port), *map(str, files)]
            options += ["--tls-auth-clients", "no"]
        options += ["--bind", "127.0.0.1", "--requirepass", self._password]
        quiet = ["--save", "", "--appendonly", "no", "--daemonize", "no"]
        self.process = subprocess.Popen(
            [program, *options, *quiet], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/"
        )
        ends = time.monotonic() + 60
        while time.monotonic() < ends:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                time.sleep(0.05)
        raise RuntimeError("the server does not answer")

    def kill(self) -> None:
        """End it at once; what it held is lost."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(SECONDS)
            self.process = None

    def __enter__(self) -> RunningRedis:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def _certificate(folder: Path) -> Path:
    """A key and its own certificate for 127.0.0.1, in one file."""
    path = folder / "redis.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=redis"]
    names = ["-addext", "subjectAltName=IP:127.0.0.1"]
    made = subprocess.run([*command, *names, "-keyout", "-"], check=True, capture_output=True)
    path.write_bytes(made.stdout)
    return path
