"""Nothing that is keyed by names from spans grows for ever."""

from __future__ import annotations

import ast
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from otel_evals._internal.util.bounded_cache import BoundedCache
from otel_evals.conventions import Conventions, load_conventions
from otel_evals.model import SpanRecord

ROOT = Path(__file__).parents[3]
FOLDERS = (
    "otel_evals/_internal/read",
    "otel_evals/_internal/model",
    "otel_evals/_internal/otlp",
    "otel_evals/_internal/model/convention.py",
    "instrumentation",
)
BOUNDED = {
    "Conventions._ranks": "markers of the installed conventions",
    "Conventions._by_marker": "markers of the installed conventions",
    "Conventions._named": "span names of the installed conventions",
    "Conventions.failing": "installed conventions",
    "FieldsByAttribute._fields": "names of a convention",
    "FieldsByAttribute._lists": "names of a convention",
    "SpanFactory._attributes": "attributes of one decorator",
    "MessageCalls._by_id": "calls of one run",
    "MessageCalls._reused": "calls of one run",
    "MessageCalls._alike": "calls of one run",
    "_SpanCalls._by_id": "spans of one run",
    "_SpanCalls.calls": "spans of one run",
    "_SpanCalls._with_id": "spans of one run",
    "_SpanCalls._alike": "spans of one run",
    "Mentioned._left": "calls of one run",
    "Mentioned._by_id": "calls of one run",
    "Mentioned._by_name": "calls of one run",
    "SplitRuns._since": "held runs, at most `window`",
    "Spill._held": "records in memory, at most `memory` bytes",
}
"""Dicts that need no cache of their own, and what they hold."""


_KINDS = ("dict", "set", "defaultdict", "Counter")


def dict_attributes() -> Iterator[str]:
    """The dicts and sets that methods of our classes keep on themselves."""
    for folder in FOLDERS:
        path = ROOT / folder
        for file in [path] if path.is_file() else sorted(path.rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef):
                    yield from (f"{node.name}.{name}" for name in _kept(node))


def _kept(node: ast.ClassDef) -> Iterator[str]:
    for each in ast.walk(node):
        target = each.target if isinstance(each, ast.AnnAssign) else None
        if isinstance(each, ast.Assign):
            target = each.targets[0]
        value = getattr(each, "value", None)
        is_own = isinstance(target, ast.Attribute) and getattr(target.value, "id", "") == "self"
        is_dict = isinstance(value, ast.Dict | ast.DictComp) or (
            isinstance(value, ast.Call)
            and getattr(value.func, "id", "") in ("dict", "set", "defaultdict", "Counter")
        )
        if is_own and is_dict:
            yield target.attr  # type: ignore[union-attr]


def test_every_dict_that_lives_on_is_bounded() -> None:
    assert set(dict_attributes()) <= set(BOUNDED), "use BoundedCache, or say what bounds it"


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
