"""Assembly: spans to runs, and runs to conversations."""

from __future__ import annotations

from otel_evals.assembly.runs import find_runs, subruns

__all__ = ["find_runs", "subruns"]
