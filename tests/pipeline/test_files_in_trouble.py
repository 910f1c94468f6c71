"""Files that cannot be written: the application goes on, its runs are scored, and what is lost is counted."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import PYTHONPATH

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="takes rights away as Linux does")

PROGRAM = """
import logging, os, sys, time
from pathlib import Path
import anyio
import otel_evals
from opentelemetry.sdk.trace import TracerProvider
from otel_evals import Rule, Run, scorer
from otel_evals.errors import ConfigError, JudgeUnavailableError
from otel_evals.judges import JudgeRequest
from otel_evals._internal.judges.budget import Budget
from otel_evals._internal.judges.cache import CachedJudge
from otel_evals._internal.judges.judge import Call
from otel_evals._internal.judges.judge import ScriptedJudge
from otel_evals.model import Usage
from tests.support.traffic import agent_run

logging.basicConfig()
folder = Path(sys.argv[1])
CALL = Call(model="m", scorer_id="s", max_input_tokens=1, max_output_tokens=1, max_cost=None)
asked = []

async def use(budget):
    async with budget.around(CALL) as settle:
        asked.append(1)
        settle(Usage(input_tokens=1), None)

def spent(budget):
    try:
        anyio.run(use, budget)
        return True
    except JudgeUnavailableError as error:
        assert str(folder) in str(error), error
        return False

@scorer(version="1")
def one(run: Run) -> float:
    return 1.0

provider = TracerProvider()

def configure(**options):
    global pipeline
    options = {"rules": [one], "metrics": False, "grace": 0.0, **options}
    pipeline = otel_evals.configure(tracer_provider=provider, **options)

def scores(count, seconds=30):
    for _ in range(count):
        agent_run(provider.get_tracer("app"), "Why? " * 200)
    otel_evals.force_flush(100_000)
    stats = otel_evals.stats()
    assert stats.check() == [], stats.check()
    return stats
"""


def run(ending: str, folder: Path, *before: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [*before, sys.executable, "-c", PROGRAM + ending, str(folder)],
        env={**os.environ, "PYTHONPATH": PYTHONPATH},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == code, done.stderr[-4_000:]
    assert "Traceback" not in done.stderr, done.stderr[-4_000:]
    return done


UNPRIVILEGED = """
import ctypes
for right in (1, 2, 3):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER: root, but for files like anybody
    ctypes.CDLL(None).prctl(24, right, 0, 0, 0)
import os, sys
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""

WITHOUT_RIGHTS = """
from otel_evals.errors import StoreError

def refused(name, **options):
    try:
        configure(**options)
    except ConfigError as error:
        assert name in str(error) and str(folder) in str(error), error
        return True
    return False

def denied(path):
    try:
        path.open("a").close()
    except PermissionError:
        return
    sys.exit(77)  # these rights cannot be taken away here

def answers():
    judge = CachedJudge(ScriptedJudge({"a": "so"}), store=folder / "cache.db")
    return anyio.run(judge.ask, JudgeRequest(instructions="a", prompt="b", step="a")).value

def nothing_is_kept():
    try:
        assert not spent(Budget(tokens=100, store=folder / "budget.db"))
    except StoreError as error:
        assert str(folder) in str(error)
    assert not asked, "no call is made that cannot be counted"
    try:
        assert answers() == "so"
    except StoreError as error:
        assert str(folder) in str(error)

os.chmod(folder, 0o500)
denied(folder / "odd")
assert refused("journal", journal=folder / "journal")
assert refused("path", destinations=[{"jsonl": {"path": folder / "scores.jsonl"}}])
nothing_is_kept()

os.chmod(folder, 0o700)
(folder / "journal").mkdir()
files = [folder / name for name in ("cache.db", "budget.db", "scores.jsonl")]
configure(journal=folder / "journal", destinations=[{"jsonl": {"path": folder / "scores.jsonl"}}])
for file in files:
    file.touch()
    os.chmod(file, 0)
os.chmod(folder / "journal", 0o500)
denied(files[0])
stats = scores(3)
assert stats.rules["one"].scored == 3, stats
jsonl = pipeline.destination_stats()["jsonl"]
assert (jsonl.exported, jsonl.failed) == (0, 3), jsonl  # neither written nor kept: counted
otel_evals.shutdown()
nothing_is_kept()
for file in files:
    assert file.stat().st_mode & 0o777 == 0, "rights that were taken away are not given back"
"""


@pytest.mark.slow
def test_without_permission_scoring_goes_on(tmp_path: Path) -> None:
    """A folder that may not be written to, and files that may not be opened."""
    folder = tmp_path / "state"
    folder.mkdir()
    prefix = [sys.executable, "-c", UNPRIVILEGED] if os.geteuid() == 0 else []
    if prefix and not hasattr(ctypes.CDLL(None), "prctl"):
        pytest.skip("rights cannot be taken away here")
    if prefix:
        done = subprocess.run(
            [*prefix, "-c", PROGRAM + WITHOUT_RIGHTS, str(folder)],
            env={**os.environ, "PYTHONPATH": PYTHONPATH},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if done.returncode == 77:
            pytest.skip("rights cannot be taken away here")
        assert done.returncode == 0, done.stderr[-4_000:]
        assert "Traceback" not in done.stderr, done.stderr[-4_000:]
    else:
        run(WITHOUT_RIGHTS, folder)


FULL = """
import shutil
from otel_evals._internal.deliver.jsonl import read_jsonl

budget = Budget(tokens=10_000, store=folder / "budget.db")
judge = CachedJudge(ScriptedJudge({"a": "so"}), store=folder / "cache.db")
configure(journal=folder / "journal", destinations=[{"jsonl": {"path": folder / "scores.jsonl"}}])
assert spent(budget)
stats = scores(3)
assert stats.rules["one"].scored == 3
ballast = (folder / "ballast").open("wb", buffering=0)
try:
    while True:
        ballast.write(b"x" * 512)
except OSError:
    pass
stats = scores(20)
assert stats.rules["one"].scored == 23, stats
before = len(asked)
refused = [not spent(budget) for _ in range(200)]
assert sum(refused) > 0, "the disk is full, and the budget has no capacity to write"
assert len(asked) - before == refused.count(False)
for number in range(50):
    request = JudgeRequest(instructions="a", prompt=str(number) * 500, step="a")
    assert anyio.run(judge.ask, request).value == "so"
os.unlink(folder / "ballast")
ballast.close()
before = len(asked)
for _ in range(100):
    if spent(budget):
        break
    time.sleep(0.1)
assert len(asked) == before + 1, "it goes on when there is capacity again"
stats = scores(5)
assert stats.rules["one"].scored == 28, stats
delivered = pipeline.destination_stats()["jsonl"]
otel_evals.shutdown()
found = [e["evaluation_id"] for line in read_jsonl(folder / "scores.jsonl") for e in line["evaluations"]]
assert len(found) == len(set(found))
assert 8 <= delivered.exported <= len(found), (delivered, len(found))  # the first lines of a batch may fit
assert delivered.exported + delivered.failed + delivered.dropped <= 28, delivered
"""


@pytest.mark.slow
def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    """A file system of 400 KB, filled to the last block: commits fail, lines are cut short, and it heals."""
    if shutil.which("unshare") is None:
        pytest.skip("needs unshare")
    folder = tmp_path / "small"
    folder.mkdir()
    mount = f"mount -t tmpfs -o size=400k none {folder}"
    if subprocess.run(["unshare", "-rm", "sh", "-c", mount], capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    run(FULL, folder, "unshare", "-rm", "sh", "-c", f'{mount} && exec "$0" "$@"')
