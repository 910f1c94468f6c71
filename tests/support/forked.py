"""Children that a test forks."""

from __future__ import annotations

import os
import time


def exit_code(child: int) -> int:
    """Return the exit code of a forked child, 99 if it hangs."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return 99
