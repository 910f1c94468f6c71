"""Helpers shared by the rooms: files, locks, retries and redaction."""

from otel_evals._internal.redaction.redactor import redact
from otel_evals._internal.util.file_locks import HAS_FILE_LOCKS, try_lock
from otel_evals._internal.util.private_files import make_private
from otel_evals._internal.util.retry import backoff, retry_after

__all__ = [
    "HAS_FILE_LOCKS",
    "backoff",
    "make_private",
    "redact",
    "retry_after",
    "try_lock",
]
