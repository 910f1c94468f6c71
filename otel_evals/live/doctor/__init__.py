"""`otel_evals.doctor()`: looks at this process and what it needs; names what is wrong and what mends it."""

from __future__ import annotations

from otel_evals.live.doctor.findings import Diagnosis, Finding

__all__ = ["Diagnosis", "Finding"]
