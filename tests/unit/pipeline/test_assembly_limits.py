"""The bounds of assembly are those of the configuration."""

from __future__ import annotations

from otel_evals import Config, Rule
from otel_evals._internal.pipeline.steps import assembly_limits
from otel_evals.scorers import answered


def test_each_bound_is_the_option_s() -> None:
    given = Config(
        rules=[Rule(answered())],
        grace=0.1,
        max_age=20.0,
        max_open_traces=300,
        max_spans_per_trace=40,
        max_bytes=5_000_000,
    )
    limits = assembly_limits(given)
    assert (limits.grace, limits.max_age, limits.max_traces) == (0.1, 20.0, 300)
    assert (limits.max_spans_per_trace, limits.max_bytes) == (40, 5_000_000)
