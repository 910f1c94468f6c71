"""From spans to runs."""

from __future__ import annotations

from otel_evals.assembly.build import find_runs, subruns

__all__ = ["find_runs", "subruns"]
