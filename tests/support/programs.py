"""Programs that run in a process of their own, with the store and the scores file of one test."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support import PYTHONPATH
from tests.support.waits import SECONDS

__all__ = ["run_program"]


def run_program(
    program: str, tmp_path: Path, code: int = 0, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a program, told of `runs.db` and `scores.jsonl`, and check how it ended."""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "runs.db"), str(tmp_path / "scores.jsonl")],
        env={**os.environ, "PYTHONPATH": PYTHONPATH, **environment},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return done
