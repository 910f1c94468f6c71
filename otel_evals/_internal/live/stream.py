"""The texts of a stream, which leave by sentences, and generators that run in a context of their own."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Generator
from typing import Any

from otel_evals._internal.util.inside import Inside

# One sign, without backtracking: linear in long runs of signs and line breaks.
_SENTENCE_END = re.compile(r"[.!?…][\"'”’)\]]*+\s++(?=\S)|[。！？](?=\S)|\n(?=\S)")  # noqa: RUF001
_LONGEST_END = 16
"""Characters before a chunk that may be part of a sentence's end."""


class Stream:
    """The texts of a stream, which leave by sentences."""

    def __init__(self) -> None:
        self.text = ""
        self._left = 0

    def add(self, text: str) -> str | None:
        """Add a text; returns the answer so far up to its last whole sentence, if that has not left."""
        searched = max(self._left, len(self.text) - _LONGEST_END)
        self.text += text
        end = max((found.end() for found in _SENTENCE_END.finditer(self.text, searched)), default=0)
        return self.text[:end] if end > self._left else None

    def release(self, so_far: str) -> str:
        """Return the part of the answer so far that has not left."""
        start, self._left = self._left, len(so_far)
        return so_far[start:]


async def each_later(source: Any, inside: Any) -> AsyncGenerator[Any, None]:
    try:
        while True:
            try:
                item = await Inside(inside, source.__anext__())
            except StopAsyncIteration:
                return
            yield item
    finally:
        await Inside(inside, source.aclose())


def each_now(source: Any, inside: Any) -> Generator[Any, None, None]:
    try:
        while True:
            try:
                item = inside.run(next, source)
            except StopIteration:
                return
            yield item
    finally:
        inside.run(source.close)
