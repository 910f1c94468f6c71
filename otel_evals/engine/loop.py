"""The engine's thread: one daemon thread with an event loop of its own, fed by a bounded deque.

Handing over an item is an append and at most one armed wake-up, which gathers everything that arrives in
the next few milliseconds into one batch.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, Generic, TypeVar

__all__ = ["EngineLoop", "gather_seconds"]

_logger = logging.getLogger(__name__)
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

_GATHER_SECONDS = 0.02
_DURABLE_GATHER_SECONDS = 0.002
_CHUNK = 256
_IDLE_SECONDS = 5.0


def gather_seconds(*, durable: bool) -> float:
    """Seconds to gather what is captured before it is handled; short where a store is to have it soon."""
    return _DURABLE_GATHER_SECONDS if durable else _GATHER_SECONDS


class EngineLoop(Generic[_Item]):
    """Runs `handle` on batches of items and `tick` whenever it asks to be woken, on a thread of its own.

    Args:
        handle: given up to 256 items at a time.
        tick: called after each batch and when due; returns when to be called again, in `time.monotonic`
            seconds, or None.
        background: a coroutine that runs beside, such as the delivery to destinations.
        capacity: how many items may wait; `put` refuses more.
        gather: seconds between the first item that comes and its being handled, with all that came since.
    """

    def __init__(
        self,
        handle: Callable[[list[_Item]], None],
        tick: Callable[[], float | None],
        background: Callable[[], Coroutine[Any, Any, None]],
        *,
        capacity: int = 50_000,
        gather: float = _GATHER_SECONDS,
    ) -> None:
        self._handle = handle
        self._tick = tick
        self._background = background
        self._capacity = capacity
        self._gather = gather
        self._starting = threading.Lock()
        self._reset()

    def _reset(self) -> None:
        self._items: deque[_Item] = deque()
        self._armed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._ready = threading.Event()
        self._stop: asyncio.Event | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._gathering = False
        self._refusing = threading.Lock()
        self.refused = 0
        """Items that found no room."""
        self.beat: float | None = None
        """When the loop last turned, in `time.monotonic` seconds; at least every five seconds."""

    def after_fork(self) -> None:
        """Start anew in a forked child, where the parent's thread does not exist."""
        self._starting = threading.Lock()
        self._reset()

    def put(self, item: _Item) -> None:
        """Hand over an item. Never waits, never raises; counts what has no room."""
        if len(self._items) >= self._capacity:
            with self._refusing:
                self.refused += 1
            return
        self._items.append(item)
        if not self._armed:
            self._armed = True
            loop = self._loop or self._started()
            if loop is not None:
                _call_soon(loop, self._wake)

    @property
    def waiting(self) -> int:
        """Items that have not been handled yet."""
        return len(self._items)

    @property
    def here(self) -> bool:
        """Whether the caller is on the engine's thread."""
        return threading.current_thread() is self._thread

    def call(self, function: Callable[[], object]) -> None:
        """Have a function called on the engine's thread."""
        loop = self._loop or self._started(wait=True)
        if loop is not None:
            _call_soon(loop, function)

    def run(self, coroutine: Coroutine[Any, Any, _Result], timeout: float) -> _Result | None:
        """Run a coroutine on the engine's loop and wait for it; None when it does not finish in time."""
        loop = self._loop if self._loop and self.started else self._started(wait=True)
        try:
            if loop is None or self.here or not self.alive:
                return None
            future: Future[_Result] = asyncio.run_coroutine_threadsafe(coroutine, loop)
            return future.result(max(0.0, timeout))
        except FutureTimeoutError:
            future.cancel()
            return None
        except (CancelledError, RuntimeError):  # the thread has just ended
            return None
        finally:
            if inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED:
                coroutine.close()

    @property
    def started(self) -> bool:
        """Whether the thread was ever started."""
        return self._thread is not None

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread is not None and self._thread.is_alive()

    def drain(self) -> None:
        """Handle what waits, now; only on the engine's thread."""
        while self._items:
            self._pump_chunk()
        self._reschedule()

    def reschedule(self) -> None:
        """Ask `tick` again when it wants to be called; only on the engine's thread."""
        self._reschedule()

    def stop(self, timeout: float) -> None:
        """End the thread, waiting at most `timeout` seconds for it; what comes from now on is refused."""
        self._capacity = 0
        loop, thread = self._loop, self._thread
        if loop is not None and thread is not None:
            _call_soon(loop, self._stopping)
            if not self.here:
                thread.join(max(0.0, timeout))
        if not self.alive:
            with self._refusing:
                self.refused += len(self._items)
                self._items.clear()

    def _stopping(self) -> None:
        if self._stop is not None:
            self._stop.set()

    def _started(self, *, wait: bool = False) -> asyncio.AbstractEventLoop | None:
        with self._starting:
            if self._thread is None:
                me = weakref.ref(self)
                thread = threading.Thread(target=_main, args=(me,), name="otel-evals", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # the interpreter is shutting down, or no thread can be had
                    _logger.warning("the scoring thread cannot be started; nothing will be scored")
                    return None
                self._thread = thread
        if wait:
            self._ready.wait(5.0)
        return self._loop

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        background = asyncio.ensure_future(self._background())
        background.add_done_callback(_report)
        self._loop = asyncio.get_running_loop()
        self._loop.set_default_executor(_ContextExecutor(thread_name_prefix="otel-evals-executor"))
        self._ready.set()
        self._wake()
        await self._stop.wait()
        background.cancel()
        await asyncio.wait({background}, timeout=1.0)

    def _wake(self) -> None:
        if not self._gathering:
            self._gathering = True
            asyncio.get_running_loop().call_later(self._gather, self._pump)

    def _pump(self) -> None:
        self._gathering = False
        self._armed = False
        self._pump_chunk()
        if self._items:
            asyncio.get_running_loop().call_soon(self._pump)
        self._reschedule()

    def _pump_chunk(self) -> None:
        self.beat = time.monotonic()
        items = self._items
        batch = [items.popleft() for _ in range(min(_CHUNK, len(items)))]
        try:
            if batch:
                self._handle(batch)
        except Exception:
            _logger.exception("a batch of %d captured items could not be handled", len(batch))

    def _reschedule(self) -> None:
        self.beat = time.monotonic()
        if self._timer is not None:
            self._timer.cancel()
        try:
            due = self._tick()
        except Exception:
            _logger.exception("the engine's tick failed")
            due = None
        delay = _IDLE_SECONDS if due is None else max(0.0, due - time.monotonic())
        self._timer = asyncio.get_running_loop().call_later(min(delay, _IDLE_SECONDS), self._reschedule)


class _ContextExecutor(ThreadPoolExecutor):
    """Carries the caller's context along, as `asyncio.to_thread` does: what a scorer calls stays marked."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        return super().submit(contextvars.copy_context().run, fn, *args, **kwargs)


def _main(me: weakref.ref[EngineLoop[Any]]) -> None:
    engine = me()
    if engine is not None:
        try:
            asyncio.run(engine._serve())
        except Exception:
            _logger.exception("the scoring thread ended")


def _report(task: asyncio.Future[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        _logger.error("delivery to destinations ended", exc_info=task.exception())


def _call_soon(loop: asyncio.AbstractEventLoop, function: Callable[[], object]) -> None:
    try:
        loop.call_soon_threadsafe(function)
    except RuntimeError:  # the loop is closed: we are leaving
        _logger.debug("the scoring thread has already ended")
