"""One span while it is being read: its attributes by field, and the fields found so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from otel_evals.model import Availability, Message, SpanRecord, ToolCall
from otel_evals_instrumentation._internal.readers.values import (
    MASKS,
    first_text,
    is_masked,
    mapping,
    unflatten,
    unquoted,
)
from otel_evals_instrumentation._internal.readers.vocabulary import usage_in, with_details, words

_NOTHING = frozenset(("null", "None"))
"""No value, in JSON and in Python."""
SPECIAL = MASKS | {"", *'"nN'}
"""First characters of texts that may be masks, quoted or no value; an empty text has none."""
_METADATA = (
    ("agent_name", ("lc_agent_name",)),
    ("user_id", words("langfuse_user_id user_id userId")),
    (
        "conversation_id",
        words("langfuse_session_id session_id sessionId thread_id threadId conversation_id conversationId"),
    ),
)
CHECKPOINTS = "langgraph_checkpoint_ns"


class SpanReader(msgspec.Struct, eq=False):
    """One span being read: its attributes by field, and the fields found so far."""

    span: SpanRecord
    convention: str
    attributes: Mapping[str, Any]
    """The span's, and those of its events and logs with details."""
    events: list[tuple[str, Any]]
    """Message events of the span and its logs, as (name, body)."""
    found_at: Mapping[str, tuple[str, ...]]
    """By field: the attributes that may contain it, most trusted first; lists end with `.*`."""
    # msgspec copies an empty default for each instance.
    fields: dict[str, Any] = {}
    noted: dict[str, tuple[str, Availability]] = {}
    """By field of content: the attribute that it came from, and its availability."""

    def note(self, field: str, key: str, availability: Availability = Availability.PRESENT) -> None:
        """Record the attribute that a field came from, and its availability."""
        self.noted[field] = key, availability

    def source_of(self, field: str) -> str | None:
        """Return the attribute that a field came from."""
        return self.noted[field][0] if field in self.noted else None

    def text(self, field: str) -> str | None:
        """Return the most trusted non-empty text among a field's attributes."""
        for key in self.found_at.get(field, ()):
            value = self.attributes[key]
            if type(value) is str and value:
                # Most texts need no search for masks or quotes, by their first character.
                if value[0] not in SPECIAL:
                    return value
                if value not in _NOTHING and not is_masked(value):
                    return str(unquoted(value))
            # `str` raises for integers of thousands of digits.
            elif type(value) is int and value.bit_length() <= 64:
                return str(value)
        return None

    def value(self, key: str) -> Any:
        """Return the value of an attribute, or of all with a prefix."""
        prefix = key.removesuffix(".*")
        return self.attributes[key] if prefix == key else unflatten(self.attributes, prefix)

    def mapping(self, key: str) -> dict[str, Any]:
        """Return the JSON object in an attribute, empty if there is none."""
        return mapping(self.attributes.get(key))

    def offer(self, field: str, value: Any) -> None:
        """Set a field that has no value yet, if this is a non-empty text."""
        if isinstance(value, str) and value:
            self.fields.setdefault(field, value)

    def offer_usage(self, counts: Any) -> None:
        """Set the usage if it has no value yet and this object has token counts."""
        usage = usage_in(counts)
        if usage is not None:
            self.fields.setdefault("usage", usage)

    def fill_usage(self, counts: Any) -> None:
        """Add cached and reasoning tokens that a known usage lacks, from an object with token counts."""
        if "usage" in self.fields:
            self.fields["usage"] = with_details(self.fields["usage"], mapping(counts))

    def offer_finish(self, reason: Any) -> None:
        """Set the finish reason, if this is a non-empty text."""
        if isinstance(reason, str) and reason:
            self.fields["finish_reasons"] = (reason,)

    def offer_metadata(self, value: Any) -> None:
        """Set user, conversation and agent that have no value yet from a metadata object."""
        metadata = mapping(value)
        for field, names in _METADATA:
            self.offer(field, first_text(metadata, names))
        self.offer("agent_name", agent_around(metadata.get(CHECKPOINTS)))

    def set_messages(self, side: str, messages: tuple[Message, ...], key: str) -> None:
        """Set the messages of the input or the output, and record the attribute that they came from."""
        self.fields[side + "_messages"] = messages
        self.note(side, key)

    def offer_name(self, name: Any) -> None:
        """Name a tool and its call, if this is a non-empty text."""
        if isinstance(name, str) and name:
            self.fields["name"] = name
            self.change_call(name=name)

    def change_call(self, **changes: Any) -> ToolCall:
        """Change the call of a tool's span, and return it; None is no change."""
        given = {name: value for name, value in changes.items() if value is not None}
        call: ToolCall = replace(self.fields["tool_call"], **given)
        self.fields["tool_call"] = call
        return call

    def rewrite_messages(self, rewrite: Callable[[Message], Message]) -> None:
        """Replace each input and output message."""
        for side in ("input_messages", "output_messages"):
            if side in self.fields:
                self.fields[side] = tuple(map(rewrite, self.fields[side]))


def agent_around(checkpoints: Any) -> str | None:
    """Return the node of the graph around a LangGraph subgraph, from `support:1f2|model:2a9`."""
    *around, _ = checkpoints.split("|") if isinstance(checkpoints, str) else [""]
    return around[-1].partition(":")[0] if around else None
