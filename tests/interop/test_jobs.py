"""The jobs of new users, as scripts that end in the state that the job asks for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.servers import clean_environment

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]
JOBS = sorted((Path(__file__).parent / "jobs").glob("*.py"))


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.stem)
def test_a_job_ends_in_the_state_that_it_asks_for(job: Path, tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = clean_environment() | {"PATH": path}
    done = subprocess.run(
        [sys.executable, str(job)], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
