"""What a configuration says about the assembly of runs."""

from __future__ import annotations

from otel_evals._internal.config.options import Config
from otel_evals._internal.gather.gatherer import AssemblyLimits

__all__ = ["assembly_limits"]


def assembly_limits(config: Config) -> AssemblyLimits:
    """The bounds of assembly that a Config sets."""
    return AssemblyLimits(
        grace=config.grace,
        max_age=config.max_age,
        max_traces=config.max_open_traces,
        max_spans_per_trace=config.max_spans_per_trace,
        max_bytes=config.max_bytes,
    )
