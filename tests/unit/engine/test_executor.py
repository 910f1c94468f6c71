from __future__ import annotations

import contextvars
import subprocess
import sys

import pytest

from otel_evals._internal.engine.event_loop import ContextExecutor
from tests.support.waits import SECONDS

WHO = contextvars.ContextVar("who", default="nobody")

AT_EXIT = """
import atexit
from otel_evals._internal.engine.event_loop import ContextExecutor

executor = ContextExecutor()

def late():
    print(executor.submit(max, 3, 4).result(5))
    error = executor.submit(int, "x").exception(5)
    print(type(error).__name__)

atexit.register(late)
"""


def test_functions_run_in_the_callers_context() -> None:
    with ContextExecutor(max_workers=1) as executor:
        token = WHO.set("caller")
        future = executor.submit(WHO.get)
        WHO.reset(token)
        assert future.result(5) == "caller"
        assert executor.submit(WHO.get).result(5) == "nobody"


@pytest.mark.skipif(
    sys.version_info[:3] < (3, 12, 2) and sys.version_info[:2] == (3, 12), reason="no threads then"
)
def test_functions_run_in_exit_handlers_too() -> None:
    """Python has closed its executors by then; what is left when a program ends is still to be scored."""
    done = subprocess.run(
        [sys.executable, "-c", AT_EXIT], capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.stdout.split() == ["4", "ValueError"], done.stderr
