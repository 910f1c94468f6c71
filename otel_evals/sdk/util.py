"""Helpers that the packages share: retries, redaction, files, and hints for missing extras."""

from otel_evals._internal.redaction.redactor import redact
from otel_evals._internal.util.calls import in_thread
from otel_evals._internal.util.fork import Gate, renew_after_fork
from otel_evals._internal.util.installed import extra, install_hint, this_command
from otel_evals._internal.util.plain import counted, read_json
from otel_evals._internal.util.retry import backoff, retry_after
from otel_evals._internal.util.sqlite_file import FileWatch, make_private

__all__ = [
    "FileWatch",
    "Gate",
    "backoff",
    "counted",
    "extra",
    "in_thread",
    "install_hint",
    "make_private",
    "read_json",
    "redact",
    "renew_after_fork",
    "retry_after",
    "this_command",
]
