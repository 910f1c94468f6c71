"""OTLP spans and logs from files: JSON, JSON lines and protobuf."""

from __future__ import annotations

from otel_evals.intake.otlp.files import read_records, read_traces

__all__ = ["read_records", "read_traces"]
