"""One span while it is being read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import NoneType
from typing import Any

from otel_evals.model import Availability, Source, SpanEvent, SpanRecord
from otel_evals_instrumentation._internal.readers.attribute_names import AttributeNames, FieldsByAttribute
from otel_evals_instrumentation._internal.readers.log_lines import content_lines
from otel_evals_instrumentation._internal.readers.values import MASKS, is_masked, unflatten, unquoted

__all__ = ["SpanReader"]

_INDEX = re.compile(r"\.[0-9]+(?:\.|$)")

_DETAILS = frozenset(
    ("gen_ai.client.inference.operation.details", "gen_ai.content.prompt", "gen_ai.content.completion")
)
_MESSAGES = frozenset(
    (
        "gen_ai.prompt",
        "gen_ai.system.message",
        "gen_ai.user.message",
        "gen_ai.assistant.message",
        "gen_ai.tool.message",
        "gen_ai.choice",
    )
)


_NOTHING = frozenset(("null", "None"))
"""How JSON and Python write that there is no value."""
_SPECIAL = MASKS | frozenset('"nN')
"""What a text may begin with that is none."""


class SpanReader:
    """One span being read: what its attributes hold by field, and what was found so far."""

    __slots__ = (
        "_lists",
        "attributes",
        "availability",
        "dialect",
        "events",
        "fields",
        "found_at",
        "names",
        "sources",
        "span",
    )

    def __init__(
        self, span: SpanRecord, names: AttributeNames, index: FieldsByAttribute, dialect: str
    ) -> None:
        self.span = span
        self.names = names
        self.dialect = dialect
        self.events: list[tuple[str, Any]] = []
        """Message events, of the span and of its logs, as (name, body)."""
        self.attributes: Mapping[str, Any] = span.attributes
        if span.events or span.logs:
            self._read_events()
        there = self.attributes
        if NoneType in set(map(type, there.values())):
            there = {key: value for key, value in there.items() if value is not None}
        keys = tuple(there)
        known = index.known.get(keys)
        self.found_at = index.find(keys) if known is None else known
        """By field: the attributes that may hold it as (rank, name), most trusted first."""
        self._lists: set[str] | None = None
        self.fields: dict[str, Any] = {}
        self.availability: dict[str, Availability] = {}
        self.sources: dict[str, Source] = {}

    def _read_events(self) -> None:
        """Gather message events; what detail events hold is read as if it stood on the span."""
        added: dict[str, Any] = {}
        for event in (*self.span.events, *self.span.logs):
            name: Any = event.name
            if name not in _MESSAGES and name not in _DETAILS:
                name = event.attributes.get("event.name")
            if isinstance(name, str) and name in _DETAILS:
                added.update(event.attributes)
                if isinstance(event.body, dict):
                    added.update(event.body)
            elif isinstance(name, str) and name in _MESSAGES:
                self.events.append((name, _body(event)))
        added.update(content_lines(self.span.logs))
        if added:
            self.attributes = {**added, **self.attributes}

    def note(self, field: str, key: str, availability: Availability = Availability.PRESENT) -> None:
        """Note where a field came from and how whole it is."""
        self.availability[field] = availability
        self.sources[field] = Source(self.span.span_id, key, self.dialect)

    def text(self, field: str) -> str | None:
        """The most trusted of a field's attributes that is a text with something in it."""
        for _, key in self.found_at.get(field, ()):
            value = self.attributes[key]
            if type(value) is str and value:
                if value[0] not in _SPECIAL:
                    return value
                if value not in _NOTHING and not is_masked(value):
                    return str(unquoted(value))
        return None

    def identity(self, field: str) -> str | None:
        """As `text`, for what identifies something: applications write some of these as numbers."""
        if field not in self.found_at:
            return None
        value = self.attributes[self.found_at[field][0][1]]
        if type(value) is str and value and value[0] not in _SPECIAL:
            return value
        text = self.text(field)
        if text is not None:
            return text
        return str(value) if type(value) is int else None

    def number(self, field: str) -> int | None:
        """The most trusted of a field's attributes that is a natural number."""
        for _, key in self.found_at.get(field, ()):
            value = self.attributes[key]
            if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 16:
                value = int(value)
            if isinstance(value, (int, float)) and 0 <= value < 1e15:
                return int(value)
        return None

    def with_lists(self, field: str) -> list[tuple[int, str, Any]]:
        """A field's attributes as (rank, name, value), with the lists that are spelled out in keys."""
        hits = [(rank, key, self.attributes[key]) for rank, key in self.found_at.get(field, ())]
        for rank, key in enumerate(getattr(self.names, field)):
            if key.endswith(".*") and key[:-2] in self._spelled_out():
                hits.append((rank, key, unflatten(self.attributes, key[:-2])))
        return sorted(hits, key=_rank)

    def _spelled_out(self) -> set[str]:
        """The lists that are spelled out in keys."""
        if self._lists is None:
            ends = [(key, _INDEX.search(key)) for key in self.attributes]
            self._lists = {key[: end.start()] for key, end in ends if end is not None}
        return self._lists


def _rank(hit: tuple[int, str, Any]) -> int:
    return hit[0]


def _body(event: SpanEvent) -> Any:
    """A log's body; a span event keeps the same in its attributes, or as JSON in one of them."""
    if event.body is not None:
        return event.body
    content = event.attributes.get("gen_ai.event.content", event.attributes.get("event_body"))
    return dict(event.attributes) if content is None else content
