"""What the tests of results share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from otel_evals_monitor._internal.store.writer import ResultsStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ResultsStore]:
    """An empty results store in a file."""
    opened = ResultsStore(tmp_path / "results.db")
    yield opened
    opened.close()
