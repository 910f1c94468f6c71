"""A child process, as its parent sees it: a new interpreter, connected by its standard pipes.

`multiprocessing` is not used because it runs the program's main module again and forks helper processes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping

from otel_evals._internal.processes.frames import read_frame, write_frame
from otel_evals._internal.processes.parent import signals_blocked

__all__ = ["Child", "ProcessDiedError", "is_child"]

_PROGRAM = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from {module} import main; main()"
_QUIET: Mapping[str, str] = {"OTEL_SDK_DISABLED": "true", "OTEL_EVALS_CONFIG": "", "OTEL_EVALS_CHILD": "1"}


def is_child() -> bool:
    """Whether this process is such a child, which scores for its parent and must not configure scoring."""
    return os.environ.get("OTEL_EVALS_CHILD") == "1"


class ProcessDiedError(Exception):
    """A child process ended before it had answered."""

    error_type = "process_died"


class Child:
    """A running child process. Methods may be called from any thread, `ask` from one at a time.

    Args:
        module: the module whose `main` the process runs.
        first: the first frame to send.
    """

    def __init__(self, module: str, first: bytes) -> None:
        with signals_blocked():
            self._process = subprocess.Popen(
                [_python(), "-c", _PROGRAM.format(module=module), json.dumps(sys.path)],
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, **_QUIET},
                process_group=0 if os.name == "posix" else None,
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests, self._replies = self._process.stdin, self._process.stdout
        self._sending, self._receiving = threading.Lock(), threading.Lock()
        self._first = first

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process is running."""
        return self._process.poll() is None

    def begin(self) -> bytes:
        """Send the first frame and wait for the first reply, when the process is ready.

        Raises:
            ProcessDiedError: the process ended before it replied.
        """
        return self.ask(self._first)

    def ask(self, request: bytes) -> bytes:
        """Send a frame and wait for the reply.

        Raises:
            ProcessDiedError: the process ended before it replied.
        """
        self.send(request)
        return self.receive()

    def send(self, frame: bytes) -> None:
        """Send a frame.

        Raises:
            ProcessDiedError: the process has ended.
        """
        try:
            with self._sending:
                write_frame(self._requests, frame)
        except (OSError, ValueError) as error:
            raise self._death() from error

    def receive(self) -> bytes:
        """Wait for a frame.

        Raises:
            ProcessDiedError: the process has ended.
        """
        try:
            with self._receiving:
                reply = read_frame(self._replies)
        except (OSError, ValueError):
            reply = None
        if reply is None:
            raise self._death()
        return reply

    def kill(self) -> None:
        """Kill the process; calls that wait for it raise ProcessDiedError."""
        self._process.kill()

    def close(self, timeout: float = 0.5) -> None:
        """Close the pipe and wait for the process to end; kill it if it is busy or takes too long."""
        if self._sending.locked() or self._receiving.locked():
            self.kill()
        with self._sending:
            self._requests.close()
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            self._process.wait()
        with self._receiving:
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
    """The interpreter: where Python is embedded, the one that the program has set for multiprocessing."""
    spawn = sys.modules.get("multiprocessing.spawn")
    return os.fsdecode(spawn.get_executable() or sys.executable) if spawn is not None else sys.executable
