"""No test leaves a pipeline behind, and the programs that tests start can be interrupted."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import otel_evals

# Samples depend on the deployment's key; without one, on the machine's last start.
os.environ["OTEL_EVALS_TRUST_KEY"] = "tests"
# How long an example takes says how busy the machine is, nothing about the code.
settings.register_profile(
    "otel-evals", deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("otel-evals")


def pytest_configure() -> None:
    """Give the programs that tests start the default handlers of signals that end a program.

    A shell has its background jobs ignore SIGINT, and what starts another program passes that on. A handler
    that does nothing leaves these tests as they were, and is not passed on.
    """
    gc.disable()  # until all is collected: next to none of it is garbage
    for name in ("SIGINT", "SIGTERM", "SIGQUIT"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the tests against real servers if all of them are deselected: their imports take seconds."""
    unnamed = not any("interop" in name for name in config.args)
    if collection_path.name == "interop" and unnamed and "not interop" in config.option.markexpr:
        return True
    return None


def pytest_collection_finish() -> None:
    """Exempt what the imports left from garbage collection: each full one would walk a million objects."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def no_live_worker() -> Iterator[None]:
    """Stop what a test configured, and fail it if a scoring thread is still alive."""
    yield
    otel_evals.shutdown(2_000)
    left = [t for t in threading.enumerate() if t.name == "otel-evals"]
    for thread in left:
        thread.join(2.0)
    frames = sys._current_frames()
    at = [frames[t.ident] for t in left if t.is_alive() and t.ident in frames]
    assert not at, "a pipeline was not shut down:\n" + "\n".join(
        map("".join, map(traceback.format_stack, at))
    )


@pytest.fixture
def brokers() -> Iterator[str]:
    """The address of a Kafka broker."""
    from tests.support.kafka_broker import kafka_broker

    with kafka_broker() as address:
        yield address
