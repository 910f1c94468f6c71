"""Nothing that is keyed by names from spans grows for ever."""

from __future__ import annotations

import threading

import pytest

from otel_evals._internal.util.bounded_cache import BoundedCache
from otel_evals.conventions import Conventions, load_conventions
from otel_evals.model import SpanRecord


def test_the_oldest_entry_makes_room() -> None:
    cache: BoundedCache[str, int] = BoundedCache(2)
    for number, key in enumerate("abcb"):
        cache[key] = number
    assert cache == {"b": 3, "c": 2}
    cache["x" * 2_000] = 1
    assert cache.setdefault("d", 4) == 4
    assert set(cache) == {"c", "d"}
    with pytest.raises(TypeError):
        cache.update(a=1)


def test_threads_may_fill_it_together() -> None:
    cache: BoundedCache[int, int] = BoundedCache(50)

    def fill(start: int) -> None:
        for number in range(start, start + 5_000):
            cache[number] = number

    threads = [threading.Thread(target=fill, args=(n * 10_000,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(cache) <= 54


def test_scopes_and_shapes_that_a_sender_invents_are_forgotten() -> None:
    conventions: Conventions = load_conventions()
    for number in range(5_000):
        scope = f"invented {number}"
        span = SpanRecord(
            trace_id="a" * 32,
            span_id="b" * 16,
            scope_name=scope,
            attributes={"gen_ai.operation.name": "chat", f"key {number}": 1},
        )
        conventions.claims(scope, span)
        assert conventions.read(span) is not None
    assert len(conventions.unclaimed()) <= 1_000
    for convention in conventions:
        known = getattr(getattr(convention, "index", None), "known", ())
        assert len(known) <= 1_000
