"""The number of the current vote, so that a judge's cache keeps votes apart."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_VOTE: ContextVar[int] = ContextVar("otel_evals.vote", default=0)


@contextmanager
def vote(number: int) -> Iterator[None]:
    """Questions asked inside belong to this vote."""
    token = _VOTE.set(number)
    try:
        yield
    finally:
        _VOTE.reset(token)


def current_vote() -> int:
    """Number of the current vote; 0 outside of votes."""
    return _VOTE.get()
