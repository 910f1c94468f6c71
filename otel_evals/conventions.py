"""Conventions: the interface to read one span convention as operations.

Register a convention under the entry-point group `otel_evals_convention`.
"""

from otel_evals._internal.model.convention import Convention, Conventions, load_conventions
from otel_evals._internal.model.operations import CONTENT, is_pseudo_tool
from otel_evals._internal.model.records import Record, recovered
from otel_evals._internal.util.bounded_cache import BoundedCache
from otel_evals._internal.util.plain import plain_value

__all__ = [
    "CONTENT",
    "BoundedCache",
    "Convention",
    "Conventions",
    "Record",
    "is_pseudo_tool",
    "load_conventions",
    "plain_value",
    "recovered",
]
