"""The engine's thread: one daemon thread with its own event loop, fed by a bounded deque.

Handing over an item costs an append and at most one wake-up, which batches everything that arrives in the
next few milliseconds. A run that ends is taken at once, unless that happens too often.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from math import inf
from typing import Any, Final, TypeVar

from otel_evals._internal.capture.backlog import Backlog, IntakeLevel
from otel_evals._internal.engine.event_loop import ContextExecutor, new_loop, report_death, run_to_the_end
from otel_evals._internal.util.error_log import log_error
from otel_evals._internal.util.threads import OSThread, Wakeup

_logger = logging.getLogger(__name__)
_Result = TypeVar("_Result")

_GATHER_SECONDS: Final = 0.005
"""Seconds from the first item of a batch until it is taken, if no run ends or many have."""
_CHUNK: Final = 256  # items, after which scorers and timers get a turn
_AT_ONCE: Final = 32
"""Batches that may be taken at once after a rest; one more per gathering time."""
_IDLE_SECONDS = 5.0
_AFTER_ERROR_SECONDS = 1.0
_LONGEST_START = 5.0
_LOOK_SECONDS = 0.002  # polled: the frame that would set an event may be interrupted by the caller
_START_AGAIN_SECONDS = 0.1


class EngineThread:
    """Runs work on its own thread and event loop, which start on first use.

    At most `capacity` items of about `max_bytes` wait. All work of `Stages` runs in copies of `context`.
    """

    def __init__(
        self,
        work: Any,
        *,
        capacity: int = 50_000,
        max_bytes: int = 2**28,
        context: contextvars.Context | None = None,
    ) -> None:
        self._work, self._context = work, context or contextvars.Context()
        self._limits = capacity, max_bytes
        self.reset()

    def reset(self) -> None:
        """Begin again, as in a forked child, where the parent's thread does not exist."""
        self._items: deque[Any] = deque()
        self.taken = 0
        self.backlog = Backlog(*self._limits)
        self.beat: float | None = None
        """Time of the loop's last batch or tick, in `time.monotonic` seconds; at least every 5 s."""
        self._armed = False
        """True if the waiting items will be taken without another wake-up."""
        self._eager = False
        """True if the next run is taken as soon as it ends."""
        self._paid_until = -inf
        """Each batch pays for one gathering time, on the loop's clock."""
        self._starting = threading.Lock()
        self._ready = False
        """True once the thread works, or could not be started."""
        self._start_again = 0.0  # on the monotonic clock; 0 without a failure
        self._thread: OSThread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._tick_timer: asyncio.TimerHandle | None = None
        self._batch_timer: asyncio.TimerHandle | None = None

    # --- from any thread ---

    def put(self, item: Any, ends_run: bool = False) -> None:
        """Hand over an item. Never waits or raises; if the deque is full, the item is refused and counted."""
        waiting = len(self._items)
        if waiting >= self.backlog.free and not self.backlog.admits(item, waiting):
            return
        self._items.append(item)
        if ends_run and self._eager:
            self._eager = False
            self._arm(self._pump)
        elif not self._armed:
            self._arm(self._wake)

    def put_all(self, items: Sequence[Any]) -> None:
        """Hand over items that belong together, even beyond the capacity."""
        self.backlog.add(items, len(self._items))
        self._items.extend(items)
        self._arm(self._wake)

    def _arm(self, begin: Callable[[], object]) -> None:
        self._armed = True
        loop = self._loop or self._started()
        if loop is not None:
            self._call_soon(loop, begin)
        elif self._thread is None:
            self._armed = False  # the next item tries again

    @property
    def waiting(self) -> int:
        return len(self._items)

    @property
    def level(self) -> IntakeLevel:
        """The items that wait, and the capacity for more."""
        waiting = len(self._items)
        return IntakeLevel(waiting, self.backlog.bytes, self.backlog.left(waiting), self.taken)

    @property
    def here(self) -> bool:
        return self._loop is not None and asyncio._get_running_loop() is self._loop

    @property
    def started(self) -> bool:
        return self._thread is not None

    @property
    def unstartable(self) -> bool:
        return self._thread is None and self._start_again > 0

    @property
    def starting(self) -> bool:
        return self._thread is not None and not self._ready

    @property
    def alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def call(self, function: Callable[[], object], wait: float = _LONGEST_START) -> None:
        """Call a function on the thread; waits for the thread's start."""
        loop = self._loop or self._started(wait)
        if loop is not None:
            self._call_soon(loop, function)

    def _call_soon(self, loop: asyncio.AbstractEventLoop, function: Callable[[], object]) -> None:
        """Call a function on the thread, in its own copy of the context: none can be entered twice."""
        try:
            loop.call_soon_threadsafe(function, context=self._context.copy())
        except RuntimeError:  # the loop is closed
            _logger.debug("the scoring thread has already ended")

    def run(self, coroutine: Coroutine[Any, Any, _Result], timeout: float) -> _Result | None:
        """Run a coroutine on the engine's loop and wait for its result; None if it takes too long."""
        loop = self._loop or self._started(timeout)
        if loop is None or self.here or not self.alive:
            coroutine.close()
            return None
        ended = Wakeup()
        tasks: list[asyncio.Task[_Result]] = []

        def begin() -> None:
            task = loop.create_task(coroutine)
            tasks.append(task)
            task.add_done_callback(lambda _: ended.set())

        # Not in the caller's context: draining and ticks handle items of other callers too.
        self._call_soon(loop, begin)
        if ended.wait(timeout) and not tasks[0].cancelled():
            return tasks[0].result()
        self._call_soon(loop, lambda: [task.cancel() for task in tasks])
        if not tasks and not self.alive:  # or Python warns that it was never awaited
            coroutine.close()
        return None

    def stop(self, timeout: float) -> None:
        """Refuse further items and end the thread, waiting at most `timeout` seconds for it."""
        self.backlog.close()  # before the loop is read: a loop that starts later reads this
        if self._loop is not None and self._stop is not None:  # it is set before the loop is
            self._call_soon(self._loop, self._stop.set)
        if self._thread is not None and not self.here:
            self._thread.join(max(0.0, timeout))
        if not self.alive:
            self._end()

    # --- the start ---

    def _started(self, wait: float = 0.0) -> asyncio.AbstractEventLoop | None:
        """Start the thread if there is none; returns its loop, after at most `wait` seconds."""
        # Never waits for the lock: a signal handler may have interrupted the frame that holds it.
        if self._starting.acquire(blocking=False):
            try:
                if self._thread is None and time.monotonic() >= self._start_again:
                    self._start()
            finally:
                self._starting.release()
        until = time.monotonic() + min(wait, _LONGEST_START)
        while not self._ready and time.monotonic() < until:
            time.sleep(_LOOK_SECONDS)
        return self._loop

    def _start(self) -> None:
        # Some Pythons have a thread inherit the context of the code that starts it.
        begin, args = self._context.copy().run, (_main, weakref.ref(self))
        thread = OSThread(begin, args, "otel-evals")
        self._ready = False
        self._executor = ContextExecutor(thread_name_prefix="otel-evals-executor")
        self._thread = thread  # before it starts: others may find its loop
        try:
            self._executor.keep_threads()  # not on the new thread, which may start too late for it
            thread.start()
        except RuntimeError:  # the interpreter is shutting down, or threads ran out
            self._not_started()

    def _not_started(self) -> None:
        """Let the next item or waiting caller try again after a failure to start the thread or its loop."""
        first, self._start_again = not self._start_again, time.monotonic() + _START_AGAIN_SECONDS
        self._thread, self._armed = None, False
        self._ready = True
        if first:
            _logger.warning("the scoring thread cannot be started; nothing is scored yet")

    # --- on the engine's thread ---

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        background = asyncio.ensure_future(self._work.background())
        background.add_done_callback(report_death)
        self._loop = asyncio.get_running_loop()
        self._loop.set_default_executor(self._executor)
        self._ready = True
        self._wake()
        if self.backlog.capacity == 0:  # `stop` came before there was a loop
            self._stop.set()
        await self._stop.wait()
        self._end()
        background.cancel()
        await asyncio.wait({background}, timeout=1.0)

    def drain(self, until: float = inf) -> None:
        """Take all waiting items now, or stop at `until`."""
        while self._items and time.monotonic() < until:
            self._take_chunk()
        self._tick()

    def _wake(self) -> None:
        """Take a batch after the gathering time."""
        if self._batch_timer is None:
            self._batch_timer = asyncio.get_running_loop().call_later(_GATHER_SECONDS, self._pump)

    def _pump(self) -> None:
        """Take a batch. Unless the next may be taken at once, look again soon, which saves the wake-up."""
        loop = asyncio.get_running_loop()
        if self._batch_timer is not None:
            self._batch_timer.cancel()
            self._batch_timer = None
        took, now = self._take_chunk(), loop.time()
        if took:
            # A rest saves up at most `_AT_ONCE` batches: a steady load is gathered.
            saved = max(self._paid_until, now - (_AT_ONCE - 1) * _GATHER_SECONDS)
            self._paid_until = min(saved, now) + _GATHER_SECONDS
        self._eager = eager = self._paid_until <= now
        if eager or not took:
            # Before the check of the items: an item added after it wakes the thread.
            self._armed = False
        if self._items:
            self._armed = True
            loop.call_soon(self._pump)  # others on the loop get a turn in between
        elif self._armed:
            self._wake()
        if self._tick_timer is None:
            self._tick()

    def _take_chunk(self) -> bool:
        items, waiting = self._items, len(self._items)
        batch = [items.popleft() for _ in range(min(_CHUNK, waiting))]
        self.taken += len(batch)
        if self.backlog.bytes:
            self.backlog.taken(waiting, waiting - len(batch))
        if batch:
            self._do(lambda: self._work.take(batch))
        return bool(batch)

    def _tick(self) -> None:
        self._do(self._work.tick)

    def _do(self, work: Callable[[], float]) -> None:
        """Do some work, and set the timer for the next tick."""
        self.beat = time.monotonic()
        try:
            due = work()
        except BaseException as error:  # a rule's code may even raise SystemExit
            log_error(_logger, "error in the scoring thread", error=error)
            due = time.monotonic() + _AFTER_ERROR_SECONDS
        if self._tick_timer is not None:
            self._tick_timer.cancel()
        delay = min(max(0.0, due - time.monotonic()), _IDLE_SECONDS)
        self._tick_timer = asyncio.get_running_loop().call_later(delay, self._tick)

    def _end(self) -> None:
        """Count the remaining items; on the engine's thread, or after its end."""
        items = [self._items.popleft() for _ in range(len(self._items))]
        self.backlog.refuse(len(items))
        try:
            self._context.copy().run(self._work.end, items)
        except BaseException as error:
            log_error(_logger, "error while counting what was not scored", error=error)


def _main(me: weakref.ref[EngineThread]) -> None:
    if (engine := me()) is not None:
        try:
            with new_loop() as loop:
                run_to_the_end(loop, engine._serve())
        except BaseException as error:
            log_error(_logger, "the scoring thread died", error=error)
            if engine._loop is None:  # too many open files, for example
                engine._not_started()
