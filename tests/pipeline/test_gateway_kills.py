"""A gateway that is killed under load, again and again: what was acknowledged is judged, or forwarded."""

from __future__ import annotations

import os
import random
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.test_gateway import body, recorded
from tests.support.gateways import GatewayProcess, post
from tests.support.otlp_receiver import OtlpReceiver
from tests.support.waits import SECONDS, eventually

KILLS = int(os.environ.get("OTEL_EVALS_KILLS", "10"))
"""In each mode."""
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300 + 30 * KILLS)]


class Sender:
    """Sends one run per request, by itself and again until it is answered, as exporters do."""

    def __init__(self) -> None:
        self.endpoint = ""
        self.acknowledged: list[str] = []
        """Trace ids."""
        self.sent = 0
        """Spans, each counted once."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        waiting: list[tuple[str, bytes]] = []
        while not self._stop.is_set() or waiting:
            if not waiting:
                spans = recorded()
                waiting = [(f"{spans[0].context.trace_id:032x}", body(spans))]
                self.sent += len(spans)
            try:
                status = post(f"{self.endpoint}/v1/traces", waiting[0][1])[0]
            except OSError:
                status = 0
            if status == 200:
                self.acknowledged.append(waiting.pop()[0])
            time.sleep(0.005)

    def __enter__(self) -> Sender:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()


@pytest.mark.parametrize("mode", ["tap", "inline"])
def test_nothing_that_was_acknowledged_is_lost_however_often_it_is_killed(mode: str, tmp_path: Path) -> None:
    random.seed(7)
    with OtlpReceiver() as backend:
        section: dict[str, Any] = {"quiet": 0.3, "idle": 1.0}
        if mode == "inline":
            section |= {"mode": "inline", "forward": backend.endpoint}
        journal = tmp_path / "journal"
        gateway = GatewayProcess(tmp_path, ["answered"], section, journal=str(journal))
        gateway.start()
        sender = Sender()
        sender.endpoint = gateway.endpoint
        with sender:
            for number in range(KILLS):
                before = len(sender.acknowledged)
                if number % 5 == 4:  # a file of which nothing is done for minutes is set aside
                    eventually(lambda: len(list(journal.iterdir())) == 1)
                eventually(lambda before=before: len(sender.acknowledged) > before + 3, seconds=120)  # type: ignore[misc]
                time.sleep(random.random() * 0.5)
                gateway.kill()
                gateway.start()
                sender.endpoint = gateway.endpoint
        wanted = set(sender.acknowledged)
        assert len(wanted) == len(sender.acknowledged) == sender.sent // 3
        eventually(lambda: {record["trace_id"] for record in gateway.records()} >= wanted)
        if mode == "inline":
            eventually(lambda: len({span.span_id for span in backend.spans}) == sender.sent)
        assert gateway.stop() == 0
    records = gateway.records()
    by_trace: dict[str, set[str]] = {}
    for record in records:
        by_trace.setdefault(record["trace_id"], set()).update(
            e["evaluation_id"] for e in record["evaluations"]
        )
    assert {len(ids) for ids in by_trace.values()} == {1}, "a run judged twice has one evaluation id"
