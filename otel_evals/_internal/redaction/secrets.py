"""Finds secrets in text, in time linear in its length, with no dependency.

It knows keys by their vendors' prefixes, JSON web tokens, passwords in URLs, private keys, bearer tokens, and
values assigned to names such as `DB_PASSWORD`. A test compares it with all forms that detect-secrets knows.
Patterns are applied in windows, because a call of `re` holds the interpreter's lock until it returns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import lru_cache

from otel_evals._internal.redaction.secret_forms import (
    CELL,
    COOKIE,
    GUESSED,
    HINTS,
    KEYS,
    KINDS,
    KNOWN,
    LIST,
    LONG_KEY,
    NAME,
    NAME_ENDS,
    OPTION,
    PAIR,
    PASS,
    PRIVATE_KEY,
    REVERSED,
    STRONG,
    VALUE,
    WEAK,
)

_WINDOW = 4_096
_OVERLAP = 1_024
Place = tuple[int, int]
"""Start and end of a part of a text."""
_Hit = tuple[re.Match[str], int, int]
"""A match, with the start and the end of the secret in it."""
MARK = "[redacted]"
_REST = re.compile(r"[^\s\"'\\,;&<>]+")
_LINE = re.compile(r"[^\"'\\\r\n]+")
_END_LINE = re.compile(r"-----END[A-Z0-9 ]{0,60}-{0,5}")
_DIGIT = re.compile("[0-9]")


_AFTER_NAMES = frozenset("\"']\\ \t=-:%|*`,;\r\n")
_SHORT_KEYS = ("***", "xox", "xapp-", "AKC")
_ARTIFACTORY = re.compile("AP[0-9A-F]")
_SHORTEST_RUN = 20 * b"x"
"""Keys are as long, except for short ones."""
_RUNS = bytes(
    ord("x") if code < 128 and (chr(code).isalnum() or chr(code) in "_*+/=\\.:~-") else ord(" ")
    for code in range(256)
)
"""Translates ASCII bytes: characters of keys become `x`."""
_SHORTEST = 6
_SHORTEST_IN_LISTS = 8
"""Characters of a secret behind its name and a comma."""
_LONG = 36
_LONGEST_NAME = 80
_PROBES = ("a1B2c3D4e5F6g7H8i9J0k1L2", "a1B2" * 10, "digest a1B2c3D4", "session=a1B2c3D4", "4928")
"""Values of the forms that the patterns of named secrets want; no secrets by themselves."""


def redact_secrets(text: str) -> str:
    """Replace keys, tokens and passwords by `[redacted]`, and keep the words around them."""
    if len(text) < _SHORTEST:
        return text
    return replaced(text, [(first, last) for _, first, last in find_secrets(text)])


@lru_cache(maxsize=4096)
def names_secrets(key: str) -> bool:
    """Return True if values under this key may be secret because of the key, such as `password`."""
    return any(is_secret_under(key, value) for value in _PROBES)


def is_secret_under(key: str, value: str | float, sign: str = ":") -> bool:
    """Return True if a value is redacted behind its key in JSON text, but not by itself.

    The sign between them is a comma in a list, such as ["x-api-key", "..."].
    """
    text = str(value)
    if redact_secrets(text) != text:
        return False
    line = f'"{text}"' if isinstance(value, str) else text
    return not redact_secrets(f'"{key[-_LONGEST_NAME:]}"{sign} {line}').endswith(line)


def find_secrets(text: str, *, guess: bool = True) -> Iterator[tuple[str, int, int]]:
    """Kind, start and end of each secret; spans may overlap.

    Without `guess`, secrets count by their own form: a value that only a header or a name such as `password`
    gives away has to be at least 36 characters long, and a key that is masked with asterisks is no secret.
    """
    if _may_have_key(text):
        for match, first, last in _found(KEYS, text):
            if guess or "***" not in match[0]:
                yield KINDS[(match.lastindex or 1) - 1], first, last
    # Each pattern is searched for only if the text has something that all its matches need.
    lowered = text.casefold()
    if not _has_any(lowered, HINTS):
        return
    for hints, kind, pattern in KNOWN + GUESSED if guess else KNOWN:
        if _has_any(lowered, hints):
            yield from ((kind, first, last) for _, first, last in _found(pattern, text))
    if _ends_names(lowered):
        if guess:
            yield from (("option of a command", first, last) for _, first, last in _found(OPTION, text))
        shortest = 0 if guess else _LONG
        yield from (("named secret", *span) for span in _assigned(text) if span[1] - span[0] >= shortest)


def _has_any(lowered: str, hints: Sequence[str]) -> bool:
    return any(map(lowered.__contains__, hints))


def _may_have_key(text: str) -> bool:
    """Return True if the text has the prefix of a short key, or a long run of characters like a key."""
    if _has_any(text, _SHORT_KEYS):
        return True
    runs = text.encode("ascii", "replace").translate(_RUNS) + b" "
    start = runs.find(_SHORTEST_RUN)
    while start >= 0:
        end = runs.index(b" ", start)
        # One search in a longer run would hold the interpreter's lock: it is left to the windows.
        if end - start > _WINDOW or KEYS.search(text, start, end):
            return True
        start = runs.find(_SHORTEST_RUN, end)
    return _ARTIFACTORY.search(text) is not None


def _ends_names(lowered: str) -> bool:
    """Return True if the text may have the name of a secret, and something after it."""
    for end in NAME_ENDS:
        for after in lowered.split(end)[1:]:
            if after[:1] in _AFTER_NAMES:
                return True
    return False


def redact_values(text: str, values: Collection[str]) -> str:
    """Replace every occurrence of the given secrets, such as a judge's own key."""
    # The longest first: a shorter one may be a part of it.
    for value in sorted(values, key=len, reverse=True):
        text = text.replace(value, MARK)
    return text


def search(
    pattern: re.Pattern[str],
    text: str,
    span: Callable[[re.Match[str], int], Place | None] = lambda match, limit: match.span(),
    worth: Callable[[str], bool] = bool,
) -> Iterator[_Hit]:
    """Yield matches with their spans, which `span` computes from a match and the end of its window.

    Windows that are not `worth` a search are skipped.
    """
    done = 0
    for start in range(0, len(text), _WINDOW):
        end, limit = start + _WINDOW, min(start + _WINDOW + _OVERLAP, len(text))
        if not worth(text[start:limit]):
            continue
        for match in pattern.finditer(text, max(start, done), limit):
            # It begins in the next window, which has more of the text behind it.
            if match.start() >= end:
                break
            if match.start() >= done and (found := span(match, limit)) is not None:
                done = found[1]
                yield match, *found


def _found(pattern: re.Pattern[str], text: str) -> Iterator[_Hit]:
    """Search for secrets: a match, or its group if the pattern has one."""

    def span(match: re.Match[str], limit: int) -> Place | None:
        if pattern is REVERSED:
            return match.span(1) if is_secret_under(match[2], match[1]) else None
        if pattern is PRIVATE_KEY:  # up to its end line, or else to the end of the text
            last_line = _END_LINE.search(text, match.end())
            return match.start(), last_line.end() if last_line else len(text)
        # The group that matched is the secret. Keys have groups for their kinds, and are secrets as a whole.
        first, last = match.span(0 if pattern is KEYS else match.lastindex or 0)
        if pattern is COOKIE:  # several pairs, up to the end of their line
            return first, _end_of_run(text, last, _LINE)
        return first, _end_of_run(text, last) if last == limit else last

    return search(pattern, text, span)


def _end_of_run(text: str, end: int, rest: re.Pattern[str] = _REST) -> int:
    """Return the end of a secret that a window or a bound of its pattern has cut."""
    while further := rest.match(text, end, end + _WINDOW):
        end = further.end()
    return end


def _assigned(text: str) -> Iterator[Place]:
    """Yield the spans of values assigned to secret names."""

    def span(name: re.Match[str], limit: int) -> Place | None:
        value = _secret_value(text, name)
        if value is None:
            return None
        whole = name[3] and value.re is not LONG_KEY
        return value.start(), value.end() if whole else _end_of_run(text, value.end())

    for pattern in (NAME, PAIR):
        for _, first, last in search(pattern, text, span, lambda window: _ends_names(window.casefold())):
            yield first, last
    yield from _in_tables(text)


def _secret_value(text: str, name: re.Match[str]) -> re.Match[str] | None:
    strong = STRONG.search(name[1])
    if not strong and not WEAK.search(name[1]):
        return None
    value = (LIST if name[3] and "[" in name[0] else VALUE[name[3]]).match(text, name.end())
    if value is None or value[0].startswith(MARK):
        return None
    if not strong or not name[2]:
        reach = name.end(), name.end() + 256
        key = LONG_KEY.match(text, *reach)
        if not (key or strong) and ("=" in name[0] or name[3]) and name[1][-3:].lower() != "key":
            key = PASS.match(text, *reach)
        return key if key and (name[2] or name[3] or _DIGIT.search(key[0])) else None
    # "the token: unchanged" is prose; quotes, an equals sign or a composed name are not
    written_as_code = name[3] or "=" in name[0] or "_" in name[1] or name[1].isupper()
    likely = (len(value[0]) >= 8 and _DIGIT.search(value[0])) or LONG_KEY.fullmatch(value[0])
    return value if written_as_code or likely else None


def _in_tables(text: str) -> Iterator[Place]:
    """Yield the spans of values below or beside the names of secrets, in lines of columns."""
    header: list[re.Match[str]] = []
    start = 0
    # JSON escapes the ends of lines.
    for line in text.replace("\\n", " \n").splitlines(keepends=True):
        cells = list(CELL.finditer(line, 0, min(_WINDOW, len(line.rstrip(" \r\n")))))
        # Others are no row. `is_secret_under` asks about such a line, which ends the recursion.
        if len(cells) > 2:
            # The last row may have more cells than others, as JSON may go on behind it.
            above = header + cells[len(header) :]
            for cell, *names in zip(cells, above, cells[:1] + cells, strict=False):
                if len(cell[1]) >= _SHORTEST_IN_LISTS and any(
                    _ends_name(name) and is_secret_under(name[1], cell[1], ",") for name in names
                ):
                    yield start + cell.start(1), start + cell.end(1)
            # Not any other row, which may lack a cell. A column of the same number may list kinds of secrets.
            if len(cells) != len(header) and any(map(_ends_name, cells)):
                header = cells
        elif not cells[0][1]:  # an empty line ends a table
            header = []
        start += len(line)


def _ends_name(cell: re.Match[str]) -> bool:
    return cell[1].casefold().endswith(NAME_ENDS)


def replaced(text: str, spans: list[Place]) -> str:
    """Return the text with `[redacted]` in place of each span; overlapping spans are merged."""
    parts, kept = [], 0
    for first, last in sorted(spans):
        if first >= kept:
            parts += [text[kept:first], MARK]
        kept = max(kept, last)
    return "".join([*parts, text[kept:]])
