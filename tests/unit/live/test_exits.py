"""Ways out that run no exit handlers: each has us leave, whether or not what ends it was loaded before us."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waits import SECONDS

PROGRAM = """
import os, sys
{first}
from otel_evals._internal.live.signals import register_exit_hook

def leave():
    with open({path!r}, "a") as file:
        file.write(f"{{os.getpid() == MAIN}} ")

MAIN = os.getpid()
register_exit_hook(leave)
register_exit_hook(leave)
{then}
"""


def left(folder: Path, first: str, then: str) -> list[str]:
    """Who left: `True` for the program itself, `False` for a child of it."""
    path = folder / "left"
    program = PROGRAM.format(first=first, then=then, path=str(path))
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=SECONDS
    )
    assert (done.returncode, done.stderr) == (0, "")
    return path.read_text().split() if path.exists() else []


CHILD = """
child = multiprocessing.get_context("fork").Process(target=int)
child.start()
child.join(20)
assert child.exitcode == 0
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_of_multiprocessing_leaves(tmp_path: Path) -> None:
    loaded = "import multiprocessing.util, multiprocessing.process"
    assert set(left(tmp_path, loaded, "import multiprocessing" + CHILD)) == {"False"}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_also_where_multiprocessing_was_loaded_after_us(tmp_path: Path) -> None:
    assert set(left(tmp_path, "", "import multiprocessing" + CHILD)) == {"False"}


def test_nothing_is_loaded_for_it(tmp_path: Path) -> None:
    loaded = "assert not {'multiprocessing.util', 'celery'} & set(sys.modules), sorted(sys.modules)"
    assert left(tmp_path, "", loaded) == [], "the program's own exit handlers are elsewhere"
