"""Leaving from processes that others start and end: multiprocessing, Celery, pytest, a notebook's kernel."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import PYTHONPATH
from tests.support.service import check_books
from tests.support.waits import SECONDS, eventually

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs signals and fork")


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": PYTHONPATH, "SERVICE_FOLDER": str(folder)}


def python(folder: Path, *arguments: str, **environ: str) -> None:
    """Run Python to its end; it ends well and says nothing on stderr."""
    ended = subprocess.run(
        [sys.executable, *arguments],
        env={**environment(folder), **environ},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, ""), ended.stdout


CHILDREN = """
    how = multiprocessing.get_context("METHOD")
    children = [how.Process(target=service.work, args=(3,)) for _ in range(2)]
    for child in children:
        child.start()
    for child in children:
        child.join(100)
        assert child.exitcode == 0, child.exitcode
"""
POOL = """
    with ProcessPoolExecutor(2) as pool:
        assert sum(map(len, pool.map(service.work, [1, 2, 3]))) == 6
"""
TERMINATED = """
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert sum(map(len, pool.map(service.work, [1, 2, 3]))) == 6
        pool.terminate()
        pool.join()
"""
LOOP = """
    async def main():
        await asyncio.gather(*(asyncio.to_thread(service.work, 2) for _ in range(3)))
    asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("work", "options"),
    [
        # Processes that were forked run no exit handlers.
        *((CHILDREN.replace("METHOD", method), "{}") for method in ("fork", "spawn", "forkserver")),
        (POOL, "{}"),
        # The end of a pool's block sends its processes SIGTERM, which they handle when asked to.
        (TERMINATED, '{"handle_sigterm": true}'),
        (LOOP, "{}"),  # which is closed by the time its runs are scored
    ],
    ids=["fork", "spawn", "forkserver", "a pool", "a pool that is terminated", "an event loop"],
)
def test_what_a_program_starts_leaves_in_order(work: str, options: str, tmp_path: Path) -> None:
    """Six runs elsewhere, and one in the program itself."""
    program = tmp_path / "program.py"
    imports = "import asyncio, multiprocessing\nfrom concurrent.futures import ProcessPoolExecutor\n"
    main = f'from tests.support import service\nif __name__ == "__main__":{work}    service.work()\n'
    program.write_text(imports + main)
    python(tmp_path, str(program), SERVICE_OPTIONS=options)
    check_books(tmp_path, 7)


@pytest.mark.slow
def test_celery_workers_leave_in_order(tmp_path: Path) -> None:
    """A warm shutdown after six tasks: prefork workers end by os._exit, with everything scored."""
    command = "celery -A tests.support.service_tasks worker --pool prefork -c 2 -l warning"
    with open(tmp_path / "log", "wb") as log:
        worker = subprocess.Popen(
            [sys.executable, "-m", *command.split()],
            env=environment(tmp_path),
            cwd=tmp_path,
            stdout=log,
            stderr=log,
        )
    try:
        eventually(lambda: traces(tmp_path) >= 6)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(SECONDS) == 0, (tmp_path / "log").read_text()
    finally:
        with contextlib.suppress(ProcessLookupError):
            worker.kill()
    check_books(tmp_path, 6)


def traces(folder: Path) -> int:
    with contextlib.suppress(FileNotFoundError):
        return len((folder / "traces").read_text().split())
    return 0


@pytest.mark.slow
def test_an_application_that_is_tested_with_pytest_leaves_in_order(tmp_path: Path) -> None:
    """Its own test run, whose streams pytest has closed by the time we leave."""
    test = tmp_path / "test_it.py"
    test.write_text(
        "from tests.support.service import work\n\ndef test_it():\n    assert len(work(3)) == 3\n"
    )
    python(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(test))
    check_books(tmp_path, 3)


@pytest.mark.slow
def test_a_notebook_s_kernel_leaves_in_order(tmp_path: Path) -> None:
    """Cells with runs, then the kernel is shut down; runs within cells of a running loop count too."""
    client = pytest.importorskip("jupyter_client")
    manager = client.KernelManager(kernel_name="python3")
    manager.start_kernel(env=environment(tmp_path), cwd=str(tmp_path))
    cells = manager.client()
    try:
        cells.start_channels()
        cells.wait_for_ready(timeout=30)
        for cell in (
            "from tests.support import service; service.work(2)",
            "import asyncio; await asyncio.to_thread(service.work)",
        ):
            reply = cells.execute_interactive(cell, timeout=30, output_hook=lambda _: None)
            assert reply["content"]["status"] == "ok", reply
    finally:
        cells.stop_channels()
        manager.shutdown_kernel()
    check_books(tmp_path, 3)
