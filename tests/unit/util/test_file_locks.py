from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from otel_evals._internal.util import file_locks

pytestmark = pytest.mark.skipif(not file_locks.HAS_FILE_LOCKS, reason="this system has no file locks")

HOLDER = """
import sys
from otel_evals._internal.util.file_locks import try_lock
file = open(sys.argv[1], "ab")
print(try_lock(file.fileno()), flush=True)
sys.stdin.read()
"""


def test_a_lock_is_free_again_when_the_process_that_has_it_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout
    assert holder.stdout.readline() == "True\n"
    with path.open("ab") as file:
        assert not file_locks.try_lock(file.fileno())
        holder.kill()
        holder.communicate()
        assert file_locks.try_lock(file.fileno())
        assert file_locks.try_lock(file.fileno())


def test_without_such_locks_none_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_locks, "HAS_FILE_LOCKS", False)
    file = os.open(tmp_path / "lock", os.O_CREAT | os.O_RDWR)
    assert not file_locks.try_lock(file)
    os.close(file)
