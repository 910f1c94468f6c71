"""A process of ours, seen from its parent: started afresh, spoken to through its standard pipes.

It is not `multiprocessing`, because that runs the program's main module a second time and forks helpers.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping

from otel_evals.isolation.frames import read_frame, write_frame

__all__ = ["Child", "WorkerDiedError", "is_child"]

_PROGRAM = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from {module} import main; main()"
_QUIET: Mapping[str, str] = {"OTEL_SDK_DISABLED": "true", "OTEL_EVALS_CONFIG": "", "OTEL_EVALS_CHILD": "1"}


def is_child() -> bool:
    """Whether this process is one of ours: it scores for another, and nothing of its own."""
    return os.environ.get("OTEL_EVALS_CHILD") == "1"


class WorkerDiedError(Exception):
    """A process of ours ended before it had answered."""

    error_type = "worker_died"


class Child:
    """A running child process. Its methods may be called from any thread, `ask` from one at a time.

    Args:
        module: whose `main` the process runs.
        first: the first frame to send.
    """

    def __init__(self, module: str, first: bytes) -> None:
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
        """Whether the process is still there."""
        return self._process.poll() is None

    def begin(self) -> bytes:
        """Send the first frame and wait for the first reply: the process is ready then.

        Raises:
            WorkerDiedError: it ended before.
        """
        return self.ask(self._first)

    def ask(self, request: bytes) -> bytes:
        """Send a frame and wait for the reply.

        Raises:
            WorkerDiedError: the process ended before it replied.
        """
        self.send(request)
        return self.receive()

    def send(self, *parts: bytes) -> None:
        """Send a frame.

        Raises:
            WorkerDiedError: the process has ended.
        """
        try:
            with self._sending:
                write_frame(self._requests, *parts)
        except (OSError, ValueError) as error:
            raise self._death() from error

    def receive(self) -> bytes:
        """Wait for a frame.

        Raises:
            WorkerDiedError: the process has ended.
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
        """End the process at once; whoever waits for it learns that it died."""
        self._process.kill()

    def close(self, timeout: float = 0.5) -> None:
        """Let the process end by itself, and kill it when it is busy or does not within `timeout` seconds."""
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
        """In a forked copy of the parent: let go of the process, which is the parent's alone."""
        self._requests.close()
        self._replies.close()
        self._process.returncode = 0

    def _death(self) -> WorkerDiedError:
        try:
            code = self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
        return WorkerDiedError(f"the scoring process {self._process.pid} died ({how})")


def _python() -> str:
    """The interpreter, or the one that the program named to multiprocessing because it is not one itself."""
    spawn = sys.modules.get("multiprocessing.spawn")
    return os.fsdecode(spawn.get_executable() or sys.executable) if spawn is not None else sys.executable
