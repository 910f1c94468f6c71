"""Children that are forked while other threads are at work."""

from __future__ import annotations

import importlib
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import otel_evals._internal.util.fork  # noqa: F401
from tests.support.forked import exit_code


def test_a_child_can_import_what_a_thread_of_ours_was_importing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slow_import.py").write_text("import time\n\ntime.sleep(0.3)\n")
    monkeypatch.syspath_prepend(tmp_path)
    ours: dict[str, Any] = {}
    exec(compile("def load():\n    import slow_import", "otel_evals/ours.py", "exec"), ours)
    thread = threading.Thread(target=ours["load"])
    thread.start()
    time.sleep(0.05)
    child = os.fork()
    if not child:
        importlib.import_module("slow_import")
        os._exit(0)
    assert exit_code(child) == 0
    thread.join()
