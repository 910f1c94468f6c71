"""The application's end of the connection: one thread sends captured items, another receives outcomes.

The sending thread also supervises the process: it starts it when there is something to send, and restarts it
with exponential backoff when it has died.
"""

from __future__ import annotations

import itertools
import logging
import pickle
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from otel_evals._internal.capture.backlog import Backlog
from otel_evals._internal.capture.items import CapturedItem
from otel_evals._internal.capture.open_spans import OpenSpans
from otel_evals._internal.live.engine_process.complete_roots import complete_roots
from otel_evals._internal.live.engine_process.relay import Report
from otel_evals._internal.live.engine_process.server import SPANS
from otel_evals._internal.live.engine_process.wire import encode_each
from otel_evals._internal.processes.child import Child, ProcessDiedError
from otel_evals._internal.util.error_log import tell
from otel_evals._internal.util.retry import backoff

__all__ = ["Link"]

_logger = logging.getLogger(__name__)
_SERVER = "otel_evals._internal.live.engine_process.server"
_CHUNK = 256
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 5.0
_START_SECONDS = 60.0
_STABLE_SECONDS = 30.0


class _Call:
    """A remote call and its answer."""

    def __init__(self, frame: bytes) -> None:
        self.frame = frame
        self.answered = threading.Event()
        self.answer: Any = None


class Link:
    """Sends captured items and calls to the engine's process, and receives its reports.

    Args:
        config: the configuration, pickled.
        report: called with each report of the process, on the receiving thread.
        died: called when the process died, with the error and the number of items that were sent to it.
        open_spans: the spans that have not ended.
        gather: seconds between the first item of a batch and its being sent.
        capacity: how many items may wait; more are refused.
        max_bytes: how many bytes of them, approximately.
    """

    def __init__(
        self,
        config: bytes,
        report: Callable[[Report], None],
        died: Callable[[ProcessDiedError, int], None],
        open_spans: OpenSpans,
        *,
        gather: float,
        capacity: int = 50_000,
        max_bytes: int = 2**28,
    ) -> None:
        self._config = config
        self._report = report
        self._died = died
        self._open_spans = open_spans
        self._gather = gather
        self._limits = capacity, max_bytes
        self._starting = threading.Lock()
        self._numbers = itertools.count()
        self._reset()

    def _reset(self) -> None:
        self._items: deque[CapturedItem] = deque()
        self._asked: deque[int] = deque()
        self._calls: dict[int, _Call] = {}
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._child: Child | None = None
        self._sent = 0
        self._stopping = threading.Event()
        self.backlog = Backlog(*self._limits)
        self.ready = False
        """Whether the process has started."""
        self.deaths = 0
        """How often the process died."""

    def put(self, item: CapturedItem) -> None:
        """Queue an item. Never waits, never raises; refuses and counts it if the queue is full."""
        waiting = len(self._items)
        if waiting >= self.backlog.free and not self.backlog.admits(item, waiting):
            return
        self._items.append(item)
        if not self._wake.is_set():
            self._wake.set()
            if self._thread is None:
                self._start()
                if self._thread is None:
                    self._wake.clear()  # the next item tries again

    @property
    def refused(self) -> int:
        """Items refused because too many waited, or because they could not be sent."""
        return self.backlog.refused

    @property
    def waiting(self) -> int:
        """Items that have not been sent yet."""
        return len(self._items)

    @property
    def started(self) -> bool:
        """Whether the sending thread was started, which the first item does."""
        return self._thread is not None

    @property
    def pid(self) -> int | None:
        """The id of the engine's process; None while there is none."""
        child = self._child
        return child.pid if child is not None else None

    @property
    def here(self) -> bool:
        """Whether the caller is on one of this link's threads."""
        return threading.current_thread().name.startswith("otel-evals-link")

    def ask(self, name: str, *arguments: Any, timeout: float) -> Any:
        """Call a method of the engine there, after all items that were put before.

        Returns:
            The result; None if there was no answer within `timeout` seconds.

        Raises:
            Exception: the method raised it.
        """
        number = next(self._numbers)
        call = self._calls[number] = _Call(b"C" + pickle.dumps((number, name, arguments)))
        self._asked.append(number)
        self._wake.set()
        call.answered.wait(max(0.0, timeout))
        self._calls.pop(number, None)
        if isinstance(call.answer, Exception):
            raise call.answer
        return call.answer

    def stop(self, timeout: float) -> None:
        """End the process and the threads; what the process has not reported by then is counted as lost."""
        self._stopping.set()
        self._wake.set()
        child, thread = self._child, self._thread
        if child is not None:
            child.close(timeout)
        if thread is not None and not self.here:
            thread.join(max(0.1, timeout))

    def after_fork(self) -> None:
        """Reset in a forked child, which starts a process of its own."""
        if self._child is not None:
            self._child.disown()
        self._starting = threading.Lock()
        self._reset()

    # --- the sending thread ---

    def _start(self) -> None:
        with self._starting:
            if self._thread is None and not self._stopping.is_set():
                thread = threading.Thread(target=self._serve, name="otel-evals-link", daemon=True)
                try:
                    thread.start()
                    self._thread = thread
                except RuntimeError:  # the interpreter is shutting down, or no thread can be had
                    _logger.warning("the engine's process cannot be started; nothing will be scored")

    def _serve(self) -> None:
        quick_deaths = 0
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                self._run_process()
            except (ProcessDiedError, RuntimeError) as raised:  # RuntimeError: a thread cannot be started
                error = raised if isinstance(raised, ProcessDiedError) else ProcessDiedError(str(raised))
                quick_deaths = 0 if time.monotonic() - began > _STABLE_SECONDS else quick_deaths + 1
                self._handle_death(error)
                self._stopping.wait(
                    backoff(quick_deaths, first=_FIRST_PAUSE, longest=_LONGEST_PAUSE, draw=lambda: 1.0)
                )
            except Exception:
                _logger.exception("the engine's process could not be started")
                self._stopping.wait(_LONGEST_PAUSE)

    def _run_process(self) -> None:
        """Start a process, and send to it until it ends.

        Raises:
            ProcessDiedError: the process has ended.
        """
        self._sent = 0
        self._child = child = Child(_SERVER, self._config)
        start_timeout = threading.Timer(_START_SECONDS, child.kill)
        start_timeout.daemon = True
        start_timeout.start()
        problem = pickle.loads(child.begin())
        start_timeout.cancel()
        if problem is not None:
            raise ProcessDiedError(f"the engine's process cannot load the configuration: {problem.message}")
        death: list[ProcessDiedError] = []
        receiver = threading.Thread(
            target=self._receive, args=(child, death), name="otel-evals-link-in", daemon=True
        )
        receiver.start()
        self.ready = True
        try:
            self._send_all(child, death)
        finally:
            self.ready = False
            receiver.join()

    def _send_all(self, child: Child, death: list[ProcessDiedError]) -> None:
        while True:
            self._wake.wait()
            if not (self._asked or death):
                time.sleep(self._gather)
            self._wake.clear()
            if death:
                raise death[0]
            self._send_items(child)
            while self._asked:
                call = self._calls.get(self._asked.popleft())
                if call is not None:
                    child.send(call.frame)

    def _send_items(self, child: Child) -> None:
        items = self._items
        while items:
            now = self._open_spans.now(lambda: len(items))
            batch = [items.popleft() for _ in range(min(_CHUNK, now.waiting))]
            if self.backlog.bytes:
                self.backlog.taken(now.waiting, now.waiting - len(batch))
            for count, data in encode_each(batch, complete_roots(batch, now), self._lose):
                self._sent += count
                child.send(SPANS, data)

    def _lose(self, item: CapturedItem, error: Exception) -> None:
        tell(_logger, "a captured item cannot be sent to the engine's process", error=error)
        self.backlog.lose(item)

    def _handle_death(self, error: ProcessDiedError) -> None:
        child, self._child = self._child, None
        self.backlog.began_before = time.time_ns()
        if child is not None:
            child.kill()
            child.close()
        self._wake.set()
        self._died(error, self._sent)
        if not self._stopping.is_set():
            self.deaths += 1
            if self.deaths == 1:
                _logger.warning("%s; starting another one", error)
        for number in list(self._calls):
            call = self._calls.get(number)
            if call is not None and number not in self._asked:
                call.answered.set()

    # --- the receiving thread ---

    def _receive(self, child: Child, death: list[ProcessDiedError]) -> None:
        try:
            while True:
                self._take(pickle.loads(child.receive()))
        except ProcessDiedError as error:
            death.append(error)
            self._wake.set()

    def _take(self, message: Any) -> None:
        if isinstance(message, Report):
            try:
                self._report(message)
            except Exception:
                _logger.exception("outcomes could not be attached")
        elif len(message) == 3:
            name, level, text = message
            logging.getLogger(name).log(level, "%s", text)
        elif (call := self._calls.get(message[0])) is not None:
            call.answer = message[1]
            call.answered.set()
