"""Messages that do not end as they should: cut off, left by their reader, or ended by an error."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from otel_evals.model import Message, SpanRecord
from otel_evals_instrumentation._internal.readers.events import exceptions_of
from otel_evals_instrumentation._internal.readers.values import parse, without_cut_mark
from otel_evals_instrumentation._internal.readers.vocabulary import words

_FLAGS = words("gen_ai.is_streaming llm.is_streaming gen_ai.request.stream gen_ai.request.streaming")
_PARAMETERS = "llm.invocation_parameters"
STREAMS = frozenset((*_FLAGS, _PARAMETERS))
"""Attributes that say that a response is streamed."""
_STREAMED = re.compile(r'"stream": ?true\b')
_FINISH = re.compile(r'finish_?reason\\*": ?\\*"\w|stop_?reason\\*": ?\\*"\w', re.IGNORECASE)


def repeats_error(span: SpanRecord, text: str) -> bool:
    """Return True if an output repeats the exception of a failed operation."""
    raised = [event.attributes for event in exceptions_of(span)]
    words = [span.status_message, *(event.get("exception.message") for event in raised)]
    if text and text.strip() in words:
        return True
    kinds = [str(event.get("exception.type") or "").rpartition(".")[2] for event in raised]
    return any(kind and re.match(re.escape(kind) + r"\b\s*[(:]", text) for kind in kinds)


def was_left(span: SpanRecord, attributes: Mapping[str, Any]) -> bool:
    """Return True for a streamed response without an end: its reader went away before the finish reason.

    OpenInference says OK for streams that were read to the end.
    """
    streamed = any(attributes.get(name) in (True, "true", "True") for name in _FLAGS)
    if not streamed and not _STREAMED.search(str(attributes.get(_PARAMETERS))):
        return False
    if span.status == "OK" and "openinference.span.kind" in attributes:
        return False
    return not any(_says_the_end(name, value) for name, value in attributes.items())


def may_have_called(attributes: Mapping[str, Any]) -> bool:
    """Return True if a response without content may be a call: it had tools, and has no finish reason."""
    had_tools = any(name.startswith("llm.request.functions.") for name in attributes)
    return had_tools and not any(_says_the_end(name, value) for name, value in attributes.items())


def _says_the_end(name: str, value: Any) -> bool:
    """Return True for an attribute with a finish reason, in its name or in its JSON."""
    if name.endswith(("finish_reason", "finish_reasons", "finishReason", "stop_reason")):
        return bool(parse(value))
    return type(value) is str and value[:1] in ("{", "[") and _FINISH.search(value) is not None


def lost_its_end(
    messages: tuple[Message, ...], attributes: Mapping[str, Any], prefix: str
) -> tuple[Message, ...]:
    """Add an empty message to a list that begins at its beginning, with no attribute after it.

    Some SDKs drop the attributes above a limit, the others the oldest ones.
    """
    # SDKs keep attributes in the order in which they were set.
    if list(attributes)[-1].startswith(prefix) and any(name.startswith(prefix + "0.") for name in attributes):
        return (*messages, Message(role="unknown"))
    return messages


def cut_off(messages: tuple[Message, ...], value: Any) -> tuple[Message, ...]:
    """Mark the last part as truncated, or add an empty message if whole messages are missing."""
    *whole, last = messages
    for part in last.parts[-1:]:
        if part.media is not None or _ends_in(value, part.text):
            media = part.media and replace(part.media, base64=None, size=None, digest=None)
            cut = replace(part, truncated=True, media=media)
            return (*whole, replace(last, parts=(*last.parts[:-1], cut)))
    return (*messages, Message(role="unknown"))


def _ends_in(value: str, text: str | None) -> bool:
    """Return True if JSON was truncated inside this text."""
    if not text:
        return False
    # Writers differ in whether they escape letters outside of ASCII.
    tails = tuple(json.dumps(text, ensure_ascii=escaped)[1:-1][-20:] for escaped in (True, False))
    return without_cut_mark(value).rstrip("\\").endswith(tails)
