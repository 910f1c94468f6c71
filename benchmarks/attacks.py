"""Attacks of the harness: odd scorers, hostile text, bad neighbours; chosen by one seed."""

from __future__ import annotations

import asyncio
import math
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from otel_evals import NotScored, Run, Score, ScoredRun, Scorer, scorer
from otel_evals.scorers import (
    grounded_in_tools,
    keyword_coverage,
    no_secrets,
    same_language,
    tone_consistency,
    valid_json,
)

__all__ = [
    "OWN_SCORERS",
    "PIECES",
    "Blocking",
    "Down",
    "Fine",
    "Raising",
    "hostile_text",
    "odd_scorer",
    "starting_fails",
]

# --- odd scorers ---


class Liar:
    """Answers every question about itself with an exception."""

    def __str__(self) -> str:
        raise RuntimeError("no")

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no")

    def __hash__(self) -> int:
        raise RuntimeError("no")

    def __float__(self) -> float:
        raise RuntimeError("no")

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("no")


class Unspeakable(Exception):
    """An exception whose text raises."""

    steps = Liar()

    def __str__(self) -> str:
        raise RuntimeError("no")

    __repr__ = __str__


class OddFloat(float):
    """A number that misreports its type and value."""

    def __float__(self) -> float:
        return math.nan

    def __repr__(self) -> str:
        raise RuntimeError("no")


def _many() -> ExceptionGroup[Exception]:
    return ExceptionGroup("many", [ValueError("a"), Unspeakable()])


RETURNED: list[Callable[[], Any]] = [
    lambda: 1.0,
    lambda: True,
    lambda: None,
    lambda: "text",
    Liar,
    lambda: math.nan,
    lambda: math.inf,
    lambda: 10**400,
    lambda: OddFloat(0.5),
    lambda: Score(value=math.nan),
    lambda: Score(value=1.0, steps=None),  # type: ignore[arg-type]
    lambda: Score(value="1"),  # type: ignore[arg-type]
    lambda: Score(value=1.0, label=Liar()),  # type: ignore[arg-type]
    lambda: Score(value=1.0, label="l" * 1_000_000, explanation="e" * 1_000_000),
    lambda: Score(value=1.0, explanation="\ud800\x00\u202e"),
    lambda: NotScored(reason=["a", "list"]),  # type: ignore[arg-type]
    lambda: NotScored(reason="r" * 100_000),
    lambda: NotScored(reason=Liar()),  # type: ignore[arg-type]
    lambda: {"value": 1.0},
    lambda: iter(()),
    lambda: Score,
    object,
]
RAISED: list[Callable[[], BaseException]] = [
    ValueError,
    Unspeakable,
    SystemExit,
    KeyboardInterrupt,
    asyncio.CancelledError,
    GeneratorExit,
    StopIteration,
    StopAsyncIteration,
    MemoryError,
    RecursionError,
    TimeoutError,
    BaseException,
    _many,
    lambda: OSError(24, "Too many open files"),
    lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
]


def _behaviours(draw: random.Random) -> list[Callable[[Run], Any]]:  # noqa: C901  # many small ones
    async def returns(run: Run) -> Any:
        return draw.choice(RETURNED)()

    async def raises(run: Run) -> Any:
        raise draw.choice(RAISED)()

    def in_thread(run: Run) -> Any:
        if draw.random() < 0.5:
            raise draw.choice(RAISED)()
        return draw.choice(RETURNED)()

    async def gathers(run: Run) -> Any:
        async def fail() -> None:
            raise draw.choice(RAISED)()

        await asyncio.gather(fail(), fail(), asyncio.sleep(0.01))

    async def leaves_tasks(run: Run) -> float:
        async def fail() -> None:
            await asyncio.sleep(draw.random() / 100)
            raise draw.choice(RAISED)()

        for _ in range(3):
            asyncio.ensure_future(fail())  # noqa: RUF006  # left alone on purpose
        return 0.5

    async def hangs(run: Run) -> float:
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                if draw.random() < 0.7:
                    raise

    def sleeps(run: Run) -> float:
        time.sleep(draw.random() / 5)
        return 1.0

    async def cancels_itself(run: Run) -> float:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(1)
        return 1.0

    return [returns, returns, raises, raises, in_thread, gathers, leaves_tasks, hangs, sleeps, cancels_itself]


OWN_SCORERS: list[Callable[..., Any]] = [
    grounded_in_tools,
    keyword_coverage,
    no_secrets,
    same_language,
    tone_consistency,
    valid_json,
]


def odd_scorer(draw: random.Random, name: str) -> Scorer:
    """A scorer that misbehaves, or one of the package's own, which hostile text is for."""
    if draw.random() < 0.35:
        schema = {"properties": {"a": {"pattern": "^(a|a)+b"}}}
        return draw.choice([*OWN_SCORERS[:-1], lambda: valid_json(schema=schema)])()
    return scorer(id=name, version="1")(draw.choice(_behaviours(draw)))


# --- hostile text ---

PIECES = [
    "token:", '{"token":"a1b2c3d4",', "-----BEGIN PRIVATE KEY-----", "sk-", "eyJ-", "://a:", "a", "中", " ",
    "\n", ".", "```\n", "<", "[", '{"a":', "a@", "1-", "4111111111111111 ", "\u0301", "\ud800", "\x00",
    "\u202e", "\x1b]0;x\x07", "</data-", "[1,", "I can't ", "order 1042 costs $12.50. ",
]  # fmt: skip


def hostile_text(draw: random.Random, most: int = 200_000) -> str:
    """A text that is slow, or odd, for somebody."""
    size = draw.choice([0, 1, 30, 1_000, 50_000, most])
    piece = draw.choice(PIECES) if draw.random() < 0.7 else "".join(draw.choices(PIECES, k=4))
    if draw.random() < 0.2:
        return '{"a": "' + "a" * min(size, 5_000) + '"}'
    return piece * (size // len(piece))


# --- neighbours ---


class Fine(SpanExporter):
    """Counts the application's spans, by id."""

    def __init__(self) -> None:
        self.seen: Counter[int] = Counter()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        for span in spans:
            if span.context and "otel_evals.internal" not in (span.attributes or {}):
                self.seen[span.context.span_id] += 1
        return SpanExportResult.SUCCESS


class Raising(SpanExporter):
    """Raises often, out of everything."""

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        if self._draw.random() < 0.5:
            raise ConnectionError("no route")
        return SpanExportResult.FAILURE

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        raise ConnectionError("no route")


class Blocking(SpanExporter):
    """Takes its time."""

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        time.sleep(self._draw.random() / 4)
        return SpanExportResult.SUCCESS


class Down:
    """A destination that fails in every way, now and then."""

    def __init__(self, draw: random.Random, name: str) -> None:
        self.name = name
        self._draw = draw

    async def export(self, batch: Sequence[ScoredRun]) -> None:
        if self._draw.random() < 0.4:
            raise self._draw.choice(RAISED)()
        await asyncio.sleep(self._draw.random() / 20)

    async def shutdown(self) -> None:
        if self._draw.random() < 0.2:
            raise self._draw.choice(RAISED)()


# --- the machine ---


@contextmanager
def starting_fails(seconds: float) -> Iterator[None]:
    """No thread of ours can be started for a while."""
    start, until = threading.Thread.start, time.monotonic() + seconds

    def refuse(thread: threading.Thread) -> None:
        if time.monotonic() < until and thread.name.startswith("otel-evals"):
            raise RuntimeError("can't start new thread")
        start(thread)

    threading.Thread.start = refuse  # type: ignore[method-assign]
    try:
        yield
    finally:
        threading.Thread.start = start  # type: ignore[method-assign]
