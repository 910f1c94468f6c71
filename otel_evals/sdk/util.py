"""Helpers shared by the rooms: files, locks, retries and redaction."""

from otel_evals._internal.redaction.redactor import redact
from otel_evals._internal.util.calls import in_thread
from otel_evals._internal.util.file_locks import HAS_FILE_LOCKS, try_lock
from otel_evals._internal.util.retry import backoff, retry_after
from otel_evals._internal.util.sqlite_file import make_private

__all__ = [
    "HAS_FILE_LOCKS",
    "backoff",
    "in_thread",
    "make_private",
    "redact",
    "retry_after",
    "try_lock",
]
