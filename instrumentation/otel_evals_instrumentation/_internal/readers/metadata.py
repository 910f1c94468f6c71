"""User, conversation and agent of a metadata attribute that is one JSON object."""

from __future__ import annotations

from typing import Any

from otel_evals_instrumentation._internal.readers.span_reader import SpanReader
from otel_evals_instrumentation._internal.readers.values import is_masked, parse

_THREADS = ("thread_id", "threadId", "conversation_id", "conversationId")
_KEYS = (
    ("agent_name", ("lc_agent_name",)),
    ("user_id", ("langfuse_user_id", "user_id", "userId")),
    ("conversation_id", ("langfuse_session_id", "session_id", "sessionId", *_THREADS)),
)


def read_metadata(reader: SpanReader, value: Any) -> None:
    """Read user, conversation and agent from metadata if no attribute of their own has them."""
    metadata = parse(value)
    if not isinstance(metadata, dict):
        return
    for field, names in _KEYS:
        told = next((metadata[n] for n in names if isinstance(metadata.get(n), str)), None)
        if told and not is_masked(told):
            reader.fields.setdefault(field, told)
