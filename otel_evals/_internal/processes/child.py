"""A child process as its parent sees it: a new interpreter, connected by its standard pipes.

`multiprocessing` would run the program's main module again and fork helper processes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping

from otel_evals._internal.processes.parent import read_frame, signals_blocked, write_frame

_PROGRAM = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from {module} import main; main()"
_ENV: Mapping[str, str] = {"OTEL_SDK_DISABLED": "true", "OTEL_EVALS_CONFIG": "", "OTEL_EVALS_CHILD": "1"}


def is_child() -> bool:
    """Return True in such a child process, which scores for its parent and must not configure scoring."""
    return os.environ.get("OTEL_EVALS_CHILD") == "1"


class ProcessDiedError(Exception):
    """A child process ended before it answered."""

    error_type = "process_died"


class Child:
    """A process that runs `main` of a module. Any thread may use it, one at a time `begin` or `ask`."""

    def __init__(self, module: str, first: bytes) -> None:
        with signals_blocked():
            self._process = subprocess.Popen(
                [_python(), "-c", _PROGRAM.format(module=module), json.dumps(sys.path)],
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, **_ENV},
                process_group=0 if os.name == "posix" else None,
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests, self._replies = self._process.stdin, self._process.stdout
        self._asking = threading.Lock()
        self._first = first

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def begin(self) -> bytes:
        """Send the first frame and wait for the reply, which says that the process is ready."""
        return self.ask(self._first)

    def ask(self, request: bytes) -> bytes:
        """Send a frame and wait for the reply; ProcessDiedError if the process ends before it."""
        try:
            with self._asking:
                write_frame(self._requests, request)
                reply = read_frame(self._replies)
        except (OSError, ValueError):
            reply = None
        if reply is None:
            raise self._death()
        return reply

    def kill(self) -> None:
        """Kill the process; a call that waits for it raises ProcessDiedError."""
        self._process.kill()

    def close(self, timeout: float = 0.5) -> None:
        """Close the pipes and wait for the process to end; kill it if it is busy or takes too long."""
        if self._asking.locked():
            self.kill()
        with self._asking:
            self._requests.close()
            try:
                self._process.wait(timeout)
            except subprocess.TimeoutExpired:
                self.kill()
                self._process.wait()
            self._replies.close()

    def disown(self) -> None:
        """In a forked copy of the parent: close the pipes, and leave the process to the parent."""
        self._requests.close()
        self._replies.close()
        self._process.returncode = 0

    def _death(self) -> ProcessDiedError:
        try:
            code = self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
        return ProcessDiedError(f"the scoring process {self._process.pid} died ({how})")


def _python() -> str:
    """Return the interpreter; if Python is embedded, the one that the program set for multiprocessing."""
    spawn = sys.modules.get("multiprocessing.spawn")
    return os.fsdecode(spawn.get_executable() or sys.executable) if spawn is not None else sys.executable
