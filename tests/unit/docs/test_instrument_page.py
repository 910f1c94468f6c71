"""The page on instrumenting by hand names every method and every span."""

from __future__ import annotations

from pathlib import Path

import otel_evals_instrumentation as instrumentation

PAGE = Path(__file__).parents[3] / "docs" / "instrument.md"
TEXT = PAGE.read_text(encoding="utf-8")


def test_every_method_of_a_span_is_named() -> None:
    spans = [getattr(instrumentation, name) for name in instrumentation.__all__ if name.endswith("Span")]
    methods = {name for span in spans for name in dir(span) if name.startswith(("set_", "add_"))}
    assert [name for name in methods if f"`{name}`" not in TEXT] == []
    assert [span.__name__ for span in spans if f"`{span.__name__}`" not in TEXT] == []
