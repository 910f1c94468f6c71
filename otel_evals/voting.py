"""Which vote is being cast, for the questions asked meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["current_vote", "vote"]

_VOTE: ContextVar[int] = ContextVar("otel_evals.vote", default=0)


@contextmanager
def vote(number: int) -> Iterator[None]:
    """Everything asked inside belongs to this vote, so that a cache keeps votes apart."""
    token = _VOTE.set(number)
    try:
        yield
    finally:
        _VOTE.reset(token)


def current_vote() -> int:
    """The vote being cast; 0 outside of votes."""
    return _VOTE.get()
