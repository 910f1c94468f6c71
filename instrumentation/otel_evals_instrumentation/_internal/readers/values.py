"""Attribute values as they were before an instrumentation wrote them down.

Values arrive as JSON text, as Python's repr, cut off by a limit, masked, or as they are. Nothing here raises,
whatever it is given, and the work is bounded by `MAX_TEXT` characters and `MAX_DEPTH` levels.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

MAX_TEXT = 8_000_000
"""Longer texts are kept, but not parsed."""

MAX_DEPTH = 60
"""Deeper nesting is kept, but not interpreted."""

_MASKED = re.compile(
    r"\s*(__REDACTED__|\[?<?\(?REDACTED\)?>?\]?|\*{3,}|\[Scrubbed due to [^\]]*\]"
    # "readacted" is how openai-agents' instrumentation spells it
    r"|readacted|<not specified>|<not serializable>|<elided>|\[FILTERED\])\s*",
    re.IGNORECASE,
)
_REPR = re.compile(
    r"\[?<?[A-Za-z_][\w.]*\((?:\*|[A-Za-z_]\w*=|\)$)|<[\w.]+ object at 0x"
    r"|content=['\"\[]"
    r"|(?:id='[^']*' )?source=['\"].* content=['\"\[]",
    re.DOTALL,
)
_CUT_OFF = re.compile(r"\s*(?:\.\.\.)?\s*\[TRUNCATED\b[^\]\n]*\]$")
"""How some say at the end of a value that they cut it off, and how long it was."""
MASKS = frozenset("_[<(*rR \t\n")
"""What a mask begins with."""

_decode_fast = msgspec.json.decode
_decode = json.JSONDecoder().decode
_scan_json: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder().scan_once  # type: ignore[attr-defined]  # there, if not in the stubs


def parse(value: Any) -> Any:
    """The value that a JSON text stands for; whatever is not JSON text comes back unchanged."""
    if type(value) is not str or not value or len(value) > MAX_TEXT:
        return value
    if value[0] not in '[{"':
        if not value[0].isspace():
            return value
        value, original = value.strip(), value
    else:
        original = value
    try:
        return _decode_fast(json_bytes(value))
    except (ValueError, RecursionError):
        pass  # no JSON, or what only Python's own decoder takes: NaN, halves of surrogate pairs
    try:
        parsed, end = _scan_json(value, 0)
    except (StopIteration, ValueError, RecursionError):
        return original
    return parsed if end == len(value) or not value[end:].strip() else original


def json_bytes(text: str) -> str | bytes:
    """A text for msgspec, which would keep its UTF-8 form as long as the text lives.

    Raises:
        UnicodeEncodeError: it holds half of a surrogate pair.
    """
    return text if text.isascii() else text.encode()


def parse_or_mend(value: Any) -> tuple[Any, bool]:
    """As `parse`, but JSON that was cut off is closed again; the flag says that the value was cut off."""
    parsed = parse(value)
    if parsed is not value or not isinstance(value, str):
        return parsed, False
    rest = without_cut_mark(value)
    mended = mend(rest) if rest[:1] in ("[", "{") else None
    return (rest, rest is not value) if mended is None else (mended, True)


def without_cut_mark(text: str) -> str:
    """A text without what says at its end that it was cut off."""
    mark = _CUT_OFF.search(text, max(0, len(text) - 100)) if text[-1:] == "]" else None
    return text[: mark.start()] if mark else text


def mend(text: str) -> Any:
    """What a JSON text that was cut off still holds; None when it is not the beginning of JSON."""
    if len(text) > MAX_TEXT:
        return None
    closers, in_string, escaped, cut = _scan(text)
    if not closers:
        return None
    body = text[: len(text) - 1] if escaped else re.sub(r"\\u[0-9a-fA-F]{0,3}$", "", text)
    tail = "".join(reversed(closers))
    for candidate in (body + '"' if in_string else body, text[:cut]):
        for glue in ("", ":null", "null", '":null'):
            try:
                return _decode(candidate.rstrip().rstrip(",") + glue + tail)
            except (ValueError, RecursionError):
                continue
    return None


def _scan(text: str) -> tuple[list[str], bool, bool, int]:
    """Brackets left open, whether a string is, whether the last character escapes, the last place to cut."""
    closers: list[str] = []
    in_string = False
    escape_at, cut = -2, 0
    for match in re.finditer(r'[\[\]{}"\\,]', text):
        char, at = match[0], match.start()
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
        elif char == ",":
            cut = at
        elif char in "]}" and (not closers or closers.pop() != char):
            return [], False, False, 0
        if len(closers) > MAX_DEPTH:
            return [], False, False, 0
    return closers, in_string, escape_at == len(text) - 1, cut


def literal(value: Any) -> Any:
    """The value of a Python literal, such as `{'city': 'Paris'}`; anything else comes back unchanged."""
    if not isinstance(value, str) or value[:1] not in ("{", "[", "(") or len(value) > 200_000:
        return value
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return value


def is_masked(value: Any) -> bool:
    """Whether a value is an instrumentation's way of saying that it left the content out."""
    if type(value) is not str or len(value) > 200 or value[:1] not in MASKS or value.startswith("[{"):
        return False
    return _MASKED.fullmatch(value) is not None


def unmasked(text: str) -> str | None:
    """A text, or None where all of it says that an instrumentation left the content out."""
    return None if text[:1] in MASKS and is_masked(text) else text


def unquoted(value: Any) -> Any:
    """A word that some platforms write as JSON, without its quotes; anything else comes back unchanged."""
    if type(value) is str and value[:1] == value[-1:] == '"' and len(value) > 1:
        word = parse(value)
        return word if isinstance(word, str) else value
    return value


def is_repr(text: str) -> bool:
    """Whether a text is Python's repr of some object, such as `AgentInput(input=[...])`: nobody said that."""
    return _REPR.match(text) is not None


def first(attributes: Mapping[str, Any], keys: Iterable[str]) -> tuple[str, Any] | None:
    """The first of these keys that is there and not None, with its value."""
    for key in keys:
        value = attributes.get(key)
        if value is not None:
            return key, value
    return None


def first_text(attributes: Mapping[str, Any], keys: Iterable[str]) -> str | None:
    """The first of these attributes that is a text with something in it, and not a mask."""
    for key in keys:
        value = attributes.get(key)
        if isinstance(value, str) and value and not is_masked(value):
            return value
    return None


def unflatten(attributes: Mapping[str, Any], prefix: str) -> list[Any]:
    """The list that keys such as `prefix.0.role` spell out, in index order, gaps closed."""
    tree: dict[str, Any] = {}
    start = len(prefix) + 1
    dotted = prefix + "."
    for key, value in attributes.items():
        if not key.startswith(dotted):
            continue
        *path, leaf = key[start:].split(".", MAX_DEPTH)
        node = tree
        for step in path:
            below = node.get(step)
            if not isinstance(below, dict):
                below = node[step] = {} if below is None else {"": below}
            node = below
        if isinstance(node.get(leaf), dict):
            node[leaf][""] = value
        else:
            node[leaf] = value
    nested = _lists(tree)
    return nested if isinstance(nested, list) else []


def _lists(node: Any) -> Any:
    """Turn mappings whose keys are all indexes into lists."""
    if not isinstance(node, dict):
        return node
    if node and all(key.isascii() and key.isdigit() for key in node):
        return [_lists(node[key]) for key in sorted(node, key=lambda key: (len(key.lstrip("0")), key))]
    return {key: _lists(value) for key, value in node.items()}
