"""Decodes attribute values.

Values are JSON text, Python's repr, truncated, masked or plain. Nothing here raises, and the work is bounded
by `MAX_TEXT` characters and `MAX_DEPTH` levels.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

MAX_TEXT = 8_000_000
"""Longer texts are kept, but not parsed."""

MAX_DEPTH = 60
"""Deeper nesting is kept, but not interpreted."""

_MASKS = (
    r"__REDACTED__",  # OpenInference
    r"[\[<(]?REDACTED[\])>]?|[\[<(]{1,2}[^\[\]<>()\n]{0,40}\bREDACTED\b[^\[\]<>()\n]{0,40}[\])>]{1,2}",
    r"\*{3,}",
    r"\[Scrubbed due to [^\]]*\]",  # Logfire
    r"readacted",  # openai-agents' instrumentation
    r"redacted-by-litellm",
    r"HIDDEN:(?:non-)?(?:empty|null)",  # Koog, unless it is verbose
    r"<not specified>",  # ADK
    r"<not serializable>",  # ADK
    r"<elided>",  # ADK
    r"\[FILTERED\]",  # Rails and Sentry
    r"<(?:hidden|masked|omitted)>|\[(?:hidden|masked|omitted)\]",
    r'\{"omitted":true[^{}]*\}',  # tRPC
    r"\[(?:MaxDepth|Circular|Object|Array)(?: ~)?\]",  # JavaScript's serializers, for nested values
)
"""What instrumentations record instead of content."""
# Masks are short: the bound keeps the match cheap.
mask_in = re.compile(r"(?=[\s\S]{0,200}\Z)\s*(?:" + "|".join(_MASKS) + r")\s*", re.IGNORECASE).fullmatch
_REPR = re.compile(
    r"\[?<?[A-Za-z_][\w.]*\((?:\*|[A-Za-z_]\w*=|\)$)|<[\w.]+ object at 0x"
    r"|content=['\"\[]"
    r"|(?:id='[^']*' )?source=['\"].* content=['\"\[]",
    re.DOTALL,
)
_CUT_OFF = re.compile(r"\s*(?:\.\.\.)?\s*\[TRUNCATED\b[^\]\n]*\]$")
"""Mark at the end of a truncated value, with its length."""
STRING = r"""'(?:\\(?s:.)|[^'\\])*+(?:'|\Z)|"(?:\\(?s:.)|[^"\\])*+(?:"|\Z)"""
"""A string in Python's code; one that is not closed reaches to the end, which keeps the search linear."""
_STRINGS = re.compile(STRING.replace(r"\Z", r"(\Z)"))
_MOST_CODE = 6_000
"""Characters outside of strings that Python's parser reads within 20 ms: it keeps the interpreter's lock."""
_PER_STRING = 6
_JSON = frozenset('[{"')
"""First characters of JSON that is decoded."""
MASKS = frozenset("_[<({*rRhH \t\n")
"""First characters of masks."""

_AGENTA = "@ag.type=json:"
"""Beginning of JSON in Agenta's attributes."""

_decode_fast = msgspec.json.decode
_decode = json.JSONDecoder().decode
_scan_json: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder().scan_once  # type: ignore[attr-defined]  # there, if not in the stubs


def parse(value: Any) -> Any:
    """Decode a JSON text; return other values unchanged."""
    if type(value) is not str or len(value) > MAX_TEXT:
        return value
    text = value.lstrip()
    if text[:1] not in _JSON:
        return value
    try:
        # Given as a text, msgspec would cache its UTF-8 form on it.
        return _decode_fast(text if text.isascii() else text.encode())
    except (ValueError, RecursionError):
        pass  # no JSON, or supported by Python's own decoder only: NaN, halves of surrogate pairs
    try:
        parsed, end = _scan_json(text, 0)
    except (StopIteration, ValueError, RecursionError):
        return value
    return value if text[end:].strip() else parsed


def mapping(value: Any) -> dict[str, Any]:
    """Return a JSON object, decoded from a text; other values become an empty one."""
    decoded = parse(value)
    return decoded if isinstance(decoded, dict) else {}


def listed(value: Any) -> Sequence[Any]:
    """Return a list, decoded from a text; other values become an empty one."""
    decoded = parse(value)
    return decoded if isinstance(decoded, (list, tuple)) else ()


def parse_or_repair(value: Any) -> tuple[Any, bool]:
    """Decode as `parse` does, and repair truncated JSON; the flag is True for a truncated value."""
    parsed = parse(value)
    if parsed is not value or not isinstance(value, str):
        return parsed, False
    rest = without_cut_mark(value)
    repaired = repair(rest) if rest[:1] in ("[", "{") else None
    return (rest, rest is not value) if repaired is None else (repaired, True)


def without_envelope(value: Any) -> Any:
    """Return the beginning of a value that tRPC cut off, with a mark at its end; other values unchanged."""
    if type(value) is not str or not value.startswith('{"truncated":true,"prefix":'):
        return value
    return f"{mapping(value).get('prefix')}[TRUNCATED]"


def without_cut_mark(text: str) -> str:
    """Remove a mark of truncation at the end."""
    mark = _CUT_OFF.search(text, max(0, len(text) - 100))
    return text[: mark.start()] if mark else text


def repair(text: str) -> Any:
    """Decode the beginning of truncated JSON; None for other texts.

    A key without its value and a number that may go on are left out, as they were not recorded whole.
    """
    if len(text) > MAX_TEXT:
        return None
    closers, in_string, escaped, cut = _scan(text)
    # Half of an escape is no JSON.
    body = re.sub(r"\\u[0-9a-fA-F]{0,3}$", "", text[: len(text) - escaped])
    tail = "".join(reversed(closers))
    body = body + '"' if in_string else body.rstrip().rstrip(",")
    # With the open value closed, or else up to the last whole value.
    for candidate in (text[:cut],) if body[-1:].isdigit() else (body, text[:cut]):
        try:
            return _decode(candidate + tail)
        except (ValueError, RecursionError):
            continue
    return None


def _scan(text: str) -> tuple[list[str], bool, bool, int]:
    """Return missing brackets, if a string is open, if an escape is open, and the end of whole values."""
    closers: list[str] = []
    in_string = False
    escape_at, cut = -2, 0
    for match in re.finditer(r'[\[\]{}"\\,]', text):
        char, at = match[0], match.start()
        # An escaped quote does not end the string.
        if at == escape_at + 1:
            continue
        if in_string:
            if char == "\\":
                escape_at = at
            in_string = char != '"'
        elif char == '"':
            in_string = True
        elif char in "[{":
            closers.append("]" if char == "[" else "}")
            cut = at + 1
        elif char == ",":
            cut = at
        elif char in "]}" and (not closers or closers.pop() != char):
            return [], False, False, 0
        else:
            cut = at + 1
    return closers, in_string, escape_at == len(text) - 1, cut


def is_quickly_parsed(text: str) -> bool:
    """Return True for a text of up to 200,000 characters with little code outside strings."""
    code = last = 0
    for string in _STRINGS.finditer(text) if len(text) <= 200_000 else ():
        code += string.start() - last + _PER_STRING
        last = string.end()
        if code > _MOST_CODE or string.lastindex:  # a string that is not closed is no code
            return False
    return code + len(text) - last <= _MOST_CODE


def literal(value: Any) -> Any:
    """Decode a Python literal such as `{'city': 'Paris'}`; return other values unchanged."""
    if not isinstance(value, str) or value[:1] not in ("{", "[", "(") or not is_quickly_parsed(value):
        return value
    try:
        # It builds constants and containers, and runs no code.
        return ast.literal_eval(value)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return value


def is_masked(value: Any) -> bool:
    """Return True for a mask, which instrumentations record instead of content."""
    return type(value) is str and value[:1] in MASKS and mask_in(value) is not None


def is_true(value: Any) -> bool:
    """Return True for true, and for the word, which some languages record instead."""
    return value is True or (type(value) is str and value.lower() == "true")


def unmasked(text: str) -> str | None:
    """Return a text, or None for a mask."""
    return None if is_masked(text) else text


def unquoted(value: Any) -> Any:
    """Remove the quotes of a word in JSON; return other values unchanged."""
    word = parse(value)
    return word if isinstance(word, str) else value


def is_repr(text: str) -> bool:
    """Return True for Python's repr of an object, such as `AgentInput(input=[...])`."""
    return _REPR.match(text) is not None


def first_text(attributes: Mapping[str, Any], keys: Iterable[str]) -> str | None:
    """Return the first of these attributes that is a non-empty text and no mask."""
    for key in keys:
        value = attributes.get(key)
        if isinstance(value, str) and value and not is_masked(value):
            return value
    return None


def first_present(item: Mapping[str, Any], keys: Iterable[str]) -> Any:
    """Return the value of the first of these keys that has one; None if none has."""
    for key in keys:
        if item.get(key) is not None:
            return item[key]
    return None


def unflatten(attributes: Mapping[str, Any], prefix: str) -> Any:
    """Return the list with indexed keys such as `prefix.0.role`, in order and without gaps.

    Named keys are the arguments of a function, or its result.
    """
    tree: dict[str, Any] = {}
    start = len(prefix) + 1
    dotted = prefix + "."
    for key, value in attributes.items():
        if not key.startswith(dotted):
            continue
        # Bounded, because `_lists` recurses once per level.
        *path, leaf = key[start:].split(".", MAX_DEPTH)
        node = tree
        for step in path:
            below = node.get(step)
            if not isinstance(below, dict):
                below = node[step] = {}
            node = below
        node[leaf] = value
    nested = _lists(tree)
    if isinstance(nested, list):
        return nested
    named = {
        key: parse(text.removeprefix(_AGENTA)) if isinstance(text, str) else text
        for key, text in nested.items()
    }
    return [] if "0" in named else first_present(named, ("result", "__default__")) or named


def _lists(node: Any) -> Any:
    """Turn mappings whose keys are all indexes into lists."""
    if not isinstance(node, dict):
        return node
    if node and all(key.isascii() and key.isdigit() for key in node):
        # Length and text give the order of numbers, also of indexes too long for `int`.
        return [_lists(node[key]) for key in sorted(node, key=lambda key: (len(key.lstrip("0")), key))]
    return {key: _lists(value) for key, value in node.items()}
