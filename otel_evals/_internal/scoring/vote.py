"""The number of the current vote, for which a judge's cache keeps separate answers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_VOTE: ContextVar[int] = ContextVar("otel_evals.vote", default=0)


@contextmanager
def vote(number: int) -> Iterator[None]:
    """Mark questions asked inside as belonging to this vote."""
    token = _VOTE.set(number)
    try:
        yield
    finally:
        _VOTE.reset(token)


def current_vote() -> int:
    """Return the number of the current vote; 0 outside of votes."""
    return _VOTE.get()
