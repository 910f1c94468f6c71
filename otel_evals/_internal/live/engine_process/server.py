"""The engine's process: runs an engine on captured items from a pipe, and sends the outcomes back."""

from __future__ import annotations

import gc
import logging
import pickle
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from otel_evals._internal.config.options import Config
from otel_evals._internal.dialect import load_dialects
from otel_evals._internal.evaluate.isolated_worker import raised
from otel_evals._internal.live.engine_process.complete_roots import ToldOpenSpans
from otel_evals._internal.live.engine_process.relay import Counts, Relay, Report
from otel_evals._internal.live.engine_process.wire import decode
from otel_evals._internal.pipeline.engine import LocalEngine
from otel_evals._internal.processes.parent import Parent

__all__ = ["SPANS", "EngineServer", "main"]

SPANS = b"S"
"""First byte of a frame of captured items; any other frame is a pickled call."""
_REPORT_SECONDS = 0.1
_COLLECT_AFTER = 5_000
"""New objects until Python looks for cycles, in this process alone: what is in flight outlives young ones."""
_AFTER_ALL = ("flush", "shutdown")
"""Calls that are answered after the reports of everything before them; the others are answered at once."""


def _shutdown(engine: LocalEngine, timeout: float) -> None:
    deadline = time.monotonic() + timeout
    engine.shutdown(deadline)
    engine.close(deadline)


_CALLS: Mapping[str, Callable[..., Any]] = {
    "explain": LocalEngine.explain,
    "flush": LocalEngine.flush,
    "health": lambda engine, stalled_after: engine.health(stalled_after, closed=False),
    "shutdown": _shutdown,
}
"""The calls that the parent may make."""


def main() -> None:
    """Score what arrives on the pipe until it is closed."""
    parent = Parent()
    try:
        server = EngineServer(parent, pickle.loads(parent.receive() or b""))
    except BaseException as error:
        parent.send(pickle.dumps(raised(error)))
        return
    parent.send(pickle.dumps(None))
    server.serve()


class EngineServer:
    """Runs the engine.

    Args:
        parent: the pipe's end.
        config: as the application configured it.
    """

    def __init__(self, parent: Parent, config: Config) -> None:
        self._parent = parent
        logging.getLogger().addHandler(_Forward(parent))
        relay = Relay(self._counts, self._report, releases=config.span_attributes)
        here = replace(
            config,
            isolation="thread",
            metrics=False,
            evaluation_events=False,
            evaluation_spans=False,
            span_attributes=False,
        )
        self._received = 0
        self._relay = relay
        self._open_spans = ToldOpenSpans()
        self._engine = LocalEngine(here, load_dialects(), relay, lambda: self._open_spans)

    def serve(self) -> None:
        """Process frames until the parent closes the pipe."""
        gc.freeze()  # what is loaded stays until the end
        gc.set_threshold(_COLLECT_AFTER, 20, 20)
        threading.Thread(target=self._keep_reporting, name="otel-evals-reports", daemon=True).start()
        while (frame := self._parent.receive()) is not None:
            if frame[:1] == SPANS:
                roots, items = decode(frame[1:])
                self._open_spans.tell(roots, self._received)
                for item in items:
                    self._received += 1
                    self._engine.thread.put(item)
            else:
                threading.Thread(target=self._call, args=pickle.loads(frame[1:]), daemon=True).start()

    def _call(self, number: int, name: str, arguments: tuple[Any, ...]) -> None:
        """Answer a call from the parent."""
        try:
            result: Any = _CALLS[name](self._engine, *arguments)
        except Exception as error:
            result = error
        if name in _AFTER_ALL:
            self._flush()
        self._parent.send(pickle.dumps((number, result)))

    def _flush(self) -> None:
        if self._engine.thread.alive:
            self._engine.thread.run(self._flushed(), 5.0)
        else:
            self._relay.flush()

    async def _flushed(self) -> None:
        self._relay.flush()

    def _keep_reporting(self) -> None:
        while True:
            time.sleep(_REPORT_SECONDS)
            self._engine.thread.call(self._relay.flush)

    def _counts(self) -> Counts:
        stats = self._engine.stats()
        return Counts(
            stats=stats,
            destinations=self._engine.destination_stats(),
            received=self._received,
            open=self._engine.open_items,
            pending=sum(rule.pending for rule in stats.rules.values()),
            failing=self._engine.failing(),
        )

    def _report(self, report: Report) -> None:
        self._parent.send(pickle.dumps(report))


class _Forward(logging.Handler):
    """Sends log records to the application's process, where logging is configured."""

    def __init__(self, parent: Parent) -> None:
        super().__init__(logging.WARNING)
        self._parent = parent

    def emit(self, record: logging.LogRecord) -> None:
        """Send a formatted record."""
        self._parent.send(pickle.dumps((record.name, record.levelno, self.format(record))))
