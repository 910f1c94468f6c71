"""The one hook that every text goes through before it leaves the process.

Judges' prompts, explanations, errors and steps on spans and events, and everything that destinations get:
files, the results store with its page, other products. Secrets are removed by default. Prompts are built
where the configuration is unknown, so the functions are bound to the context in which a pipeline works.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterator, Mapping
from contextvars import Context, ContextVar
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from functools import lru_cache
from types import NoneType
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from otel_evals._internal.model import Media, Operation, Run, SpanRecord
from otel_evals._internal.model.records import DERIVATION, derives, recovered
from otel_evals._internal.redaction.personal_data import redact_pii
from otel_evals._internal.redaction.secret_forms import VALUE_NAME
from otel_evals._internal.redaction.secrets import (
    MARK,
    is_secret_under,
    names_secrets,
    redact_secrets,
)
from otel_evals._internal.util.error_log import show_content
from otel_evals._internal.util.plain import plain_text, type_name

_T = TypeVar("_T")
_logger = logging.getLogger(__name__)
_FAILED = "[redaction failed]"
_DEEPEST = 100
_OWN_IDS = """trace_id span_id parent_span_id root_span_id trace_ids children links trace_state evaluation_id
conversation_id scorer_id scorer_version digest rule"""
_IDS = frozenset(_OWN_IDS.split())
"""Fields of our own records that identify spans and scores: never redacted. Keys of content are no fields."""
_OF_SPANS = ("name", "events", "logs", "status_message")
"""Texts of a span next to its attributes."""
_TEXTLESS = frozenset((NoneType, bool, int, float))

_SHORT = 1_000
"""Longest text that is searched together with others: all of it fits into the overlap of two windows."""


@dataclass(frozen=True)
class Redaction:
    """Functions applied to a text one after another; without any, texts stay as they are."""

    functions: tuple[Callable[[str], str], ...] = (redact_secrets,)

    def __call__(self, text: str) -> str:
        """Return the redacted text; never raises: if a function fails, nothing of the text is left."""
        try:
            for function in self.functions:
                text = function(text)
                if not isinstance(text, str):
                    raise TypeError(f"{function!r:.200} returned a {type(text).__name__} for a text")
        except BaseException as error:  # SystemExit too: an evaluation has to end
            _tell(f"{type_name(error)}: {plain_text(error, 300)}")
            return _FAILED
        return text


_BY_DEFAULT = Redaction()
_current = ContextVar("otel_evals_redaction", default=_BY_DEFAULT)
_told: set[str] = set()


def private_context(redaction: Redaction, *, content: bool) -> Context:
    """Return an empty context, bound to one pipeline as are its copies.

    Args:
        redaction: applied to all texts that leave.
        content: whether log lines may quote runs.
    """
    context = Context()
    context.run(_current.set, redaction)
    context.run(show_content, content)
    return context


def use_redaction(redaction: Redaction) -> None:
    """Apply these functions to all texts that leave from the current context."""
    _current.set(redaction)


def current_redaction() -> Redaction:
    """Return the functions that apply in the current context."""
    return _current.get()


def redact(text: str) -> str:
    """Redact a text."""
    return _current.get()(text)


def redacted(value: _T) -> _T:
    """Redact all texts in a value: of dataclasses, structs, mappings and sequences; ids stay.

    Returns the value itself if nothing changes. Fields of runs are redacted on access: most of their spans
    never leaves.
    """
    redaction = _current.get()
    return value if not redaction.functions else _walk(value, _Texts(redaction), 0)


def before_redaction(run: Run) -> tuple[Run, Callable[[_T], _T]]:
    """Return the recorded run, and the function that redacts JSON values read from it.

    Redacting a record of many fields at once costs a fraction of reading the fields of a redacted run.
    """
    derivation = run.__dict__.get(DERIVATION)
    if isinstance(derivation, _Redacted):
        return derivation.record, derivation.known.redact_all
    return run, lambda value: value


_OWN = frozenset((redact_secrets, redact_pii))


def _walk(value: Any, known: _Texts, depth: int, key: str | None = None) -> Any:
    """Redact a value of content; `key` is the name in front of it, or in front of its list."""
    if depth > _DEEPEST:
        return _FAILED
    match value:
        case None | bool() | Enum():
            return value
        case str() | int() | float():
            return known.under(key, value)
        case Mapping():
            return _walk_mapping(value, known, depth, key)
        case [str(name), str(text)] if known.under(name, text, ",") is MARK:
            return [known[name], MARK]
        case list() | tuple():
            items = [_walk(item, known, depth + 1, key) for item in value]
            if all(new is old for new, old in zip(items, value, strict=True)):
                return value
            return items if isinstance(value, list) else tuple(items)
        case Run():
            return recovered(_RedactedRun, _Redacted(value, known), {})
        case Operation():
            return recovered(_RedactedOperation, _Redacted(value, known), {})
        case SpanRecord():
            given = {name: _walk(getattr(value, name), known, depth + 1) for name in _OF_SPANS}
            for name in ("attributes", "resource"):
                given[name] = _RedactedAttributes(getattr(value, name), known)
            return replace(value, **given)
    kind: Any = type(value)
    return _walk_fields(value, known, depth) if _texts_of(kind) else value


def _walk_mapping(
    value: Mapping[Any, Any], known: _Texts, depth: int, above: str | None
) -> Mapping[Any, Any]:
    new: dict[Any, Any] = {}
    for key, item in value.items():
        name = known[key] if isinstance(key, str) else key
        while name in new:  # two keys with the same redacted text
            name = f"{name}_"
        place = str(key)
        if VALUE_NAME.fullmatch(place):
            place = _named(value) or above or place
        new[name] = _walk(item, known, depth + 1, place)
    same = all(new.get(key, _FAILED) is item for key, item in value.items())
    return value if same else new


def _named(value: Mapping[Any, Any]) -> str | None:
    """Return the name in a pair of a name and a value, such as {"name": "password", "value": "..."}."""
    for key in ("name", "key", "Name", "Key"):
        if isinstance(name := value.get(key), str):
            return name
    return None


def _walk_fields(value: Any, known: _Texts, depth: int) -> Any:
    kind: Any = type(value)
    changed = {}
    for name in _texts_of(kind):
        item = getattr(value, name)
        if type(item) in _TEXTLESS or (type(item) is tuple and not item):  # most fields of most scores
            continue
        new = _walk(item, known, depth + 1)
        if new is not item:
            changed[name] = new
    if not changed:
        return value
    return replace(value, **changed) if issubclass(kind, Struct) else dataclasses.replace(value, **changed)


@lru_cache(maxsize=256)
def _texts_of(cls: Any) -> tuple[str, ...]:
    """Return the fields of a dataclass or struct that may contain texts."""
    names = cls.__struct_fields__ if issubclass(cls, Struct) else ()
    if is_dataclass(cls):
        names = tuple(field.name for field in fields(cls) if field.init)
    return tuple(name for name in names if name not in _IDS and not (cls is Media and name == "base64"))


class _Texts(dict[str, str]):
    """Redacted texts by their originals; each is redacted once."""

    def __init__(self, redaction: Redaction) -> None:
        self.redaction = redaction

    def __missing__(self, text: str) -> str:
        found = self[text] = self.redaction(text)
        return found

    def under(self, key: str | None, value: str | float, sign: str = ":") -> str | float:
        """Redact a scalar, also if only its key shows that it is a secret."""
        by_key = key if key and redact_secrets in self.redaction.functions else None
        if by_key and names_secrets(by_key) and is_secret_under(by_key, value, sign):
            return MARK
        return self[value] if isinstance(value, str) else value

    def redact_all(self, record: _T) -> _T:
        """Redact JSON values, of which most have no secret."""
        if not self.redaction.functions:
            return record
        texts = _texts_in(record)
        if texts is None:
            return _walk(record, self, 0)  # type: ignore[no-any-return]
        new = [text for text in dict.fromkeys(texts) if len(text) <= _SHORT and text not in self]
        # One search in all short texts, which seldom have secrets. Users' functions may depend on the whole.
        if _OWN.issuperset(self.redaction.functions) and self.redaction(joined := "\n".join(new)) == joined:
            self.update(zip(new, new, strict=True))
        return record if [self[text] for text in texts] == texts else _walk(record, self, 0)


def _texts_in(record: Any) -> list[str] | None:
    """Return the texts and keys of JSON values; None if there are other values, or names of secrets."""
    texts: list[str] = []
    left = [record]
    while left:
        value = left.pop()
        kind = type(value)
        if kind is str:
            texts.append(value)
        elif kind is dict:
            if any(map(names_secrets, (*value, _named(value) or ""))):
                return None
            texts += value
            left += [item for item in value.values() if type(item) not in _TEXTLESS]
        elif kind is list:
            if len(value) == 2 and type(value[0]) is str and names_secrets(value[0]):
                return None
            left += value
        elif kind not in _TEXTLESS:
            return None
    return texts


class _Redacted:
    """The redacted fields of a record."""

    __slots__ = ("known", "record")

    failed = False

    def __init__(self, record: Run | Operation, known: _Texts) -> None:
        self.record: Any = record
        self.known = known  # several fields have the same texts

    def derive(self, field: str) -> Mapping[str, Any]:
        value = getattr(self.record, field)
        return {field: value if field in _IDS else _walk(value, self.known, 0)}


def _equal(one: Any, other: object) -> bool:
    """Compare a redacted record with another, redacted or plain, by their fields."""
    return isinstance(other, type(one).__mro__[1]) and all(
        getattr(one, field.name) == getattr(other, field.name) for field in fields(one)
    )


@derives(*(field.name for field in fields(Run)))
class _RedactedRun(Run):
    __eq__ = _equal
    __hash__ = Run.__hash__


@derives(*(field.name for field in fields(Operation)))
class _RedactedOperation(Operation):
    __eq__ = _equal
    __hash__ = Operation.__hash__


class _RedactedAttributes(Mapping[str, Any]):
    __slots__ = ("_attributes", "_known")

    def __init__(self, attributes: Mapping[str, Any], known: _Texts) -> None:
        self._attributes = attributes
        self._known = known

    def __getitem__(self, key: str) -> Any:
        return _walk(self._attributes[key], self._known, 0, key)

    def __iter__(self) -> Iterator[str]:
        return iter(self._attributes)

    def __len__(self) -> int:
        return len(self._attributes)


def _tell(problem: str) -> None:
    if problem not in _told and len(_told) < 20:
        _told.add(problem)
        _logger.warning("a text was left out, because it could not be redacted: %s", problem)
