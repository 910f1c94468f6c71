"""Dialects: the interface to read one span convention as operations.

Register a dialect under the entry-point group `otel_evals_dialect`.
"""

from __future__ import annotations

from otel_evals._internal.dialect import ENTRY_POINT_GROUP, Dialect, Dialects, load_dialects
from otel_evals._internal.model.derived import recovered
from otel_evals._internal.model.operations import CONTENT
from otel_evals._internal.model.spans import Record
from otel_evals._internal.util.fields import field_values

__all__ = [
    "CONTENT",
    "ENTRY_POINT_GROUP",
    "Dialect",
    "Dialects",
    "Record",
    "field_values",
    "load_dialects",
    "recovered",
]
