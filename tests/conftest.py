"""No test leaves a pipeline behind."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

import otel_evals


@pytest.fixture(autouse=True)
def no_live_worker() -> Iterator[None]:
    """Stop what a test configured, and fail it if a scoring thread is still alive."""
    yield
    otel_evals.shutdown(2_000)
    left = [t for t in threading.enumerate() if t.name == "otel-evals"]
    for thread in left:
        thread.join(2.0)
    assert not [t for t in left if t.is_alive()], "a pipeline was not shut down"
