"""The engine's process: a pipeline of its own whose spans come through a pipe and whose outcomes go back."""

from __future__ import annotations

import logging
import pickle
import threading
import time
from dataclasses import replace
from typing import Any

from otel_evals.config import Config
from otel_evals.hosted.relay import Books, Relay, Report
from otel_evals.hosted.wire import decode
from otel_evals.isolation.inside import Inside
from otel_evals.isolation.records import pack_record
from otel_evals.isolation.worker import raised
from otel_evals.pipeline import Pipeline

__all__ = ["SPANS", "Host", "main"]

SPANS = b"S"
"""First byte of a frame of captured items; any other frame is a pickled call."""
_BOOKS_SECONDS = 0.1
_AFTER_ALL = ("force_flush", "shutdown")
"""Calls whose answer comes after everything that happened before it; the others are answered at once."""


def main() -> None:
    """Score what comes until nothing more comes."""
    inside = Inside()
    try:
        host = Host(inside, pickle.loads(inside.receive() or b""))
    except BaseException as error:
        inside.send(pickle.dumps(raised(error)))
        return
    inside.send(pickle.dumps(None))
    host.serve()


class Host:
    """Runs the pipeline.

    Args:
        inside: the pipe's end.
        config: as the application configured it.
    """

    def __init__(self, inside: Inside, config: Config) -> None:
        self._inside = inside
        logging.getLogger().addHandler(_Forward(inside))
        relay = Relay(self._books, self._report, releases=config.span_attributes)
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
        self._pipeline = Pipeline(here, attacher=relay)

    def serve(self) -> None:
        """Take frames until the parent wants no more."""
        threading.Thread(target=self._keep_books, name="otel-evals-books", daemon=True).start()
        while (frame := self._inside.receive()) is not None:
            if frame[:1] == SPANS:
                for item in decode(frame[1:]):
                    self._received += 1
                    self._pipeline.intake.put(item)
            else:
                threading.Thread(target=self._call, args=pickle.loads(frame[1:]), daemon=True).start()

    def _call(self, number: int, name: str, arguments: tuple[Any, ...]) -> None:
        """Answer a call of the parent's."""
        try:
            result: Any = getattr(self._pipeline, name)(*arguments)
        except Exception as error:
            result = error
        if name in _AFTER_ALL:
            self._flush()
        self._inside.send(pickle.dumps((number, result)))

    def _flush(self) -> None:
        if self._pipeline.intake.alive:
            self._pipeline.intake.run(self._flushed(), 5.0)
        else:
            self._relay.flush()

    async def _flushed(self) -> None:
        self._relay.flush()

    def _keep_books(self) -> None:
        while True:
            time.sleep(_BOOKS_SECONDS)
            self._pipeline.intake.call(self._relay.flush)

    def _books(self) -> Books:
        pipeline = self._pipeline
        stats = pipeline.stats()
        return Books(
            stats=stats,
            destinations=pipeline.destination_stats(),
            received=self._received,
            open=pipeline.open_items,
            pending=sum(rule.pending for rule in stats.rules.values()),
        )

    def _report(self, report: Report) -> None:
        self._inside.send(pack_record(report))


class _Forward(logging.Handler):
    """Log records go to the application's process, which knows what to do with them."""

    def __init__(self, inside: Inside) -> None:
        super().__init__(logging.WARNING)
        self._inside = inside

    def emit(self, record: logging.LogRecord) -> None:
        """Send a record's text."""
        self._inside.send(pickle.dumps((record.name, record.levelno, self.format(record))))
