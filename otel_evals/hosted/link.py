"""The application's end: one thread sends what was captured, one receives what came of it.

The thread that sends also looks after the process: it starts it when there is something to send, and again
when it died, after a pause that grows with every death.
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

from otel_evals.capture import EndedSpan, LogOfSpan
from otel_evals.hosted.host import SPANS
from otel_evals.hosted.relay import Report
from otel_evals.hosted.wire import encode
from otel_evals.isolation.child import Child, WorkerDiedError

__all__ = ["Link"]

_logger = logging.getLogger(__name__)
_HOST = "otel_evals.hosted.host"
_CHUNK = 256
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 5.0
_START_SECONDS = 60.0
_GROWN_UP_SECONDS = 30.0


class _Call:
    """A question to the process, and its answer."""

    def __init__(self, frame: bytes) -> None:
        self.frame = frame
        self.answered = threading.Event()
        self.answer: Any = None


class Link:
    """Sends captured items to the engine's process, and asks it questions.

    Args:
        packed: the configuration, packed.
        report: takes what the process reports, on the receiving thread.
        died: told of each death and of how many items the process that died had been sent.
        gather: seconds between the first item that comes and its being sent, with all that came since.
        capacity: how many items may wait; more are refused.
    """

    def __init__(
        self,
        packed: bytes,
        report: Callable[[Report], None],
        died: Callable[[WorkerDiedError, int], None],
        *,
        gather: float,
        capacity: int = 50_000,
    ) -> None:
        self._packed = packed
        self._report = report
        self._died = died
        self._gather = gather
        self._capacity = capacity
        self._starting = threading.Lock()
        self._numbers = itertools.count()
        self._reset()

    def _reset(self) -> None:
        self._items: deque[EndedSpan | LogOfSpan] = deque()
        self._asked: deque[int] = deque()
        self._calls: dict[int, _Call] = {}
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._child: Child | None = None
        self._sent = 0
        self._stopping = threading.Event()
        self._refusing = threading.Lock()
        self.refused = 0
        """Items that found no room."""
        self.ready = False
        """Whether the process has started and answers."""
        self.deaths = 0
        """How often the process died."""

    def put(self, item: EndedSpan | LogOfSpan) -> None:
        """Take an item. Never waits, never raises; counts what has no room."""
        if len(self._items) >= self._capacity:
            self._refuse(1)
            return
        self._items.append(item)
        if not self._wake.is_set():
            self._wake.set()
            if self._thread is None:
                self._start()

    @property
    def waiting(self) -> int:
        """Items that have not been sent yet."""
        return len(self._items)

    @property
    def started(self) -> bool:
        """Whether there was ever anything to send."""
        return self._thread is not None

    @property
    def pid(self) -> int | None:
        """The engine's process, while it is there."""
        child = self._child
        return child.pid if child is not None else None

    @property
    def here(self) -> bool:
        """Whether the caller is on one of our own threads."""
        return threading.current_thread().name.startswith("otel-evals-link")

    def ask(self, name: str, *arguments: Any, timeout: float) -> Any:
        """Call a method of the process's pipeline, after all that was put before; None without an answer.

        Raises:
            Exception: what the method raised.
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
        """End the process and the threads; what the process still has is counted as lost with it."""
        self._stopping.set()
        self._wake.set()
        child, thread = self._child, self._thread
        if child is not None:
            child.close(timeout)
        if thread is not None and not self.here:
            thread.join(max(0.1, timeout))

    def after_fork(self) -> None:
        """In a forked copy: start anew with a process of its own."""
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
        young_deaths = 0
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                self._live()
            except WorkerDiedError as error:
                young_deaths = 0 if time.monotonic() - began > _GROWN_UP_SECONDS else young_deaths + 1
                self._bury(error)
                self._stopping.wait(min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** max(0, young_deaths - 1)))
            except Exception:
                _logger.exception("the engine's process could not be started")
                self._stopping.wait(_LONGEST_PAUSE)

    def _live(self) -> None:
        """The life of one process.

        Raises:
            WorkerDiedError: it is over.
        """
        self._sent = 0
        self._child = child = Child(_HOST, self._packed)
        impatient = threading.Timer(_START_SECONDS, child.kill)
        impatient.daemon = True
        impatient.start()
        problem = pickle.loads(child.begin())
        impatient.cancel()
        if problem is not None:
            raise WorkerDiedError(f"the configuration cannot be loaded there: {problem.message}")
        over: list[WorkerDiedError] = []
        receiver = threading.Thread(
            target=self._receive, args=(child, over), name="otel-evals-link-in", daemon=True
        )
        receiver.start()
        self.ready = True
        try:
            self._send_all(child, over)
        finally:
            self.ready = False
            receiver.join()

    def _send_all(self, child: Child, over: list[WorkerDiedError]) -> None:
        while True:
            self._wake.wait()
            if not (self._asked or over):
                time.sleep(self._gather)
            self._wake.clear()
            if over:
                raise over[0]
            self._send_items(child)
            while self._asked:
                call = self._calls.get(self._asked.popleft())
                if call is not None:
                    child.send(call.frame)

    def _send_items(self, child: Child) -> None:
        items = self._items
        while items:
            batch = [items.popleft() for _ in range(min(_CHUNK, len(items)))]
            try:
                data = encode(batch)
            except Exception:
                _logger.exception("%d captured items cannot be sent to the engine's process", len(batch))
                self._refuse(len(batch))
                continue
            self._sent += len(batch)
            child.send(SPANS, data)

    def _refuse(self, count: int) -> None:
        with self._refusing:
            self.refused += count

    def _bury(self, error: WorkerDiedError) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            child.close()
        self._wake.set()
        self._died(error, self._sent)
        if not self._stopping.is_set():
            self.deaths += 1
            if self.deaths == 1:
                _logger.warning("%s; another one is started", error)
        for number in list(self._calls):
            call = self._calls.get(number)
            if call is not None and number not in self._asked:
                call.answered.set()

    # --- the receiving thread ---

    def _receive(self, child: Child, over: list[WorkerDiedError]) -> None:
        try:
            while True:
                self._take(pickle.loads(child.receive()))
        except WorkerDiedError as error:
            over.append(error)
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
