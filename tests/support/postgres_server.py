"""A real PostgreSQL for tests, in a folder of its own, on a free port of loopback."""

from __future__ import annotations

import glob
import os
import pwd
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["PostgresServer", "find_postgres", "postgres_server"]


def find_postgres() -> Path | None:
    """The folder of its programs; None where there are none."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"))
    named = found[-1] if found else shutil.which("initdb")
    return Path(named).resolve().parent if named else None


class PostgresServer:
    """A server that can be stopped and started again."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self._data, self._programs = folder / "data", programs
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"postgresql://tester:secret@127.0.0.1:{self.port}/postgres"
        # The server refuses to run as root.
        self._user = "nobody" if os.getuid() == 0 else None
        if self._user:
            account = pwd.getpwnam(self._user)
            os.chown(folder, account.pw_uid, account.pw_gid)
        self._run("initdb", "-D", str(self._data), "-U", "tester", "--auth=trust", "--no-sync")

    def start(self) -> None:
        """Start it, and wait until it answers."""
        options = f"-p {self.port} -h 127.0.0.1 -c unix_socket_directories='' -c fsync=off"
        log = self._data.parent / "log"
        self._run("pg_ctl", "-D", str(self._data), "-w", "-t", "60", "-l", str(log), "-o", options, "start")

    def stop(self) -> None:
        """Stop it at once."""
        self._run("pg_ctl", "-D", str(self._data), "-m", "immediate", "stop")
        time.sleep(0.1)

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._programs / program), *arguments]
        subprocess.run(
            command,
            check=True,
            timeout=120,
            cwd="/",
            user=self._user,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )


@contextmanager
def postgres_server(folder: Path) -> Iterator[PostgresServer]:
    """A running server with an empty database."""
    programs = find_postgres()
    assert programs is not None
    server = PostgresServer(folder, programs)
    server.start()
    try:
        yield server
    finally:
        server.stop()
