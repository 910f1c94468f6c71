"""Takes secrets out of text before it leaves the process. Linear in the length of the text.

What is known is the form of keys (by vendors' prefixes), assignments to names such as `DB_PASSWORD`, bearer
tokens, passwords in URLs, private keys, and values that the caller names. The patterns have no dependency; a
test holds them against every known form of detect-secrets.

Every pattern starts at the beginning of a run of its own characters (a lookbehind sees to that) or has
bounded parts, so a run is scanned a constant number of times. Each is applied window by window, so that no
single call of `re`, which keeps the interpreter's lock, takes more than a few milliseconds.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

_WINDOW = 4_096
_OVERLAP = 1_024
_MARK = "[redacted]"

# Keys that are known by their first characters. Their middle may be masked with asterisks, as in error texts.
_KEYS = re.compile(
    r"""(?<![A-Za-z0-9])(?:
      (?:sk|pk|rk)-[A-Za-z0-9_*-]{20,}            # OpenAI, Anthropic, OpenRouter, Langfuse
    | (?:sk|pk|rk)-[A-Za-z0-9_-]{0,12}\*{3,}[A-Za-z0-9_*-]{0,40}
    | [sr]k_(?:live|test)_[A-Za-z0-9]{16,}        # Stripe
    | whsec_[A-Za-z0-9+/=]{20,}
    | (?:AKIA|ASIA|ABIA|ACCA|A3T[A-Z0-9])[A-Z0-9]{16}
    | AIza[A-Za-z0-9_-]{35} | ya29\.[A-Za-z0-9_-]{20,}
    | gh[oprsu]_[A-Za-z0-9_]{36,} | github_pat_[A-Za-z0-9_]{40,}
    | gl(?:pat|dt|ft|soat|rt|cbt|imt|ptt|agent|oas)-[A-Za-z0-9_-]{20,} | GR1348941[A-Za-z0-9_-]{20,}
    | xox[abeoprs]-[A-Za-z0-9-]{5,} | xapp-[A-Za-z0-9-]{10,}
    | hf_[A-Za-z0-9]{30,} | gsk_[A-Za-z0-9]{20,} | xai-[A-Za-z0-9_-]{20,} | r8_[A-Za-z0-9]{30,}
    | pplx-[A-Za-z0-9]{30,} | nvapi-[A-Za-z0-9_-]{30,} | tvly-[A-Za-z0-9_-]{20,} | lsv2_[A-Za-z0-9_]{30,}
    | SG\.[A-Za-z0-9_-]{16,64}\.[A-Za-z0-9_-]{16,}
    | npm_[A-Za-z0-9]{30,} | pypi-Ag[A-Za-z0-9_-]{30,}
    | hvs\.[A-Za-z0-9_-]{20,} | dop_v1_[a-f0-9]{40,} | dapi[a-f0-9]{32,} | shp(?:at|ca|pa|ss)_[A-Fa-f0-9]{32,}
    | lin_api_[A-Za-z0-9]{30,} | figd_[A-Za-z0-9_-]{30,} | AGE-SECRET-KEY-1[A-Z0-9]{40,}
    | sq0[a-z]{3}-[A-Za-z0-9_\\-]{22,} | (?:AC|SK)[a-z0-9]{32}
    | AKC[A-Za-z0-9]{10,} | AP[0-9A-F][A-Za-z0-9]{8,}(?=[\s"]|$)
    | [0-9a-z]{32}-us[0-9]{1,2}
    | [0-9]{8,10}:[A-Za-z0-9_-]{35}               # Telegram
    | [MNO][A-Za-z0-9_-]{23,25}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}   # Discord
    )""",
    re.VERBOSE,
)
_JSON_WEB_TOKEN = re.compile(
    r"(?<![A-Za-z0-9_=-])eyJ[A-Za-z0-9_=-]+\.[A-Za-z0-9_=-]+(?:\.[A-Za-z0-9_.+/=-]*)?"
)
_BEARER = re.compile(r"(?i:\b(?:bearer|basic)[ \t]{1,4})([A-Za-z0-9._~+/=-]{16,})")
_AUTHORIZATION = re.compile(
    r"(?i:\bauthorization[\"'\\]{0,3}\s{0,4}[:=]\s{0,4}[\"'\\]{0,3}[a-z]{1,12}[ \t]{1,4})([^\s\"'\\,;]{4,})"
)
_URL_PASSWORD = re.compile(r"://[^\s:/@]{0,256}:([^\s/@]{1,256})@")
_SECRET_URL = re.compile(
    r"(?:hooks\.slack\.com/services/|api.softlayer.com/soap/v3(?:.1)?/)([A-Za-z0-9_/]{4,})"
)
_AWS_SECRET = re.compile(
    r"(?i:(?<![a-z])aws.{0,20}?(?:key|pwd|pw|pass|token).{0,20}?)[\"'\\]{1,2}([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+])"
)

# An assignment: a name, what stands between, and perhaps the quote that opens the value.
_NAME = re.compile(
    r"""(?<![\w.-])([\w.-]{2,80})          # DB_PASSWORD, client-secret, access_token
        ["'\]\\]{0,4}[ \t]{0,40}(=>|:=|::|[:=]|(?<=[ \t])(?=["'A-Za-z0-9]))\s{0,40}\\{0,3}(["']?)""",
    re.VERBOSE,
)
_VALUE = {
    '"': re.compile(r'[^"\\\n]{4,4096}'),
    "'": re.compile(r"[^'\\\n]{4,4096}"),
    "": re.compile(r"[^\s\"'\\,;&<>]{4,256}"),
}
_REST = re.compile(r"[^\s\"'\\,;&<>]*")
_STRONG = re.compile(
    r"(?:passwo?r?d|passwd|passphrase|pwd|secret|secret[_.-]?access[_.-]?key|secret[_.-]?key|api[_.-]?key"
    r"|access[_.-]?key|private[_.-]?key|account[_.-]?key|signing[_.-]?key|encryption[_.-]?key|auth[_.-]?key"
    r"|_?auth[_.-]?token|token|credentials?|api[_.-]?token|hmac)\Z",
    re.IGNORECASE,
)
_WEAK = re.compile(r"(?:key|pass|pw)\Z", re.IGNORECASE)
_LONG_KEY = re.compile(r"[A-Za-z0-9_/+=.-]{20,}")
_END_LINE = re.compile(r"-----END[A-Z0-9 ]{0,60}-{0,5}")
_DIGIT = re.compile("[0-9]")
_PRIVATE_KEY = re.compile(r"-{0,5}[ ]?BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY|PuTTY-User-Key-File-")


_HINTS: tuple[tuple[tuple[str, ...], re.Pattern[str]], ...] = (
    (("aws",), _AWS_SECRET),
    (("eyj",), _JSON_WEB_TOKEN),
    (("bearer", "basic"), _BEARER),
    (("authorization",), _AUTHORIZATION),
    (("://",), _URL_PASSWORD),
    (("hooks.slack", "softlayer"), _SECRET_URL),
)
"""What a text contains where a pattern can match, in lower case: looking for it costs next to nothing."""
_NAME_HINTS = ("pass", "pwd", "pw", "secret", "key", "token", "credential", "hmac")
_KEY_BLOCK_HINTS = ("begin ", "putty")
_SHORTEST = 6
"""Characters below which nothing is taken for a secret."""
_LOWERED = 65_536
_LONGEST_HINT = 32


def redact_secrets(text: str) -> str:
    """Replace what has the form of a key, token or password by `[redacted]`.

    What comes before a secret is kept, so that a reader still sees what kind of thing stood there.
    """
    if len(text) < _SHORTEST:
        return text
    spans = [*_private_keys(text)] if _contains(text, _KEY_BLOCK_HINTS) else []
    spans.extend(_found(_KEYS, text))
    for hints, pattern in _HINTS:
        if _contains(text, hints):
            spans.extend(_found(pattern, text))
    if _contains(text, _NAME_HINTS):
        spans.extend(_assigned(text))
    return replaced(text, spans) if spans else text


def _contains(text: str, hints: tuple[str, ...]) -> bool:
    for start in range(0, len(text), _LOWERED):
        part = text[start : start + _LOWERED + _LONGEST_HINT].casefold()
        if any(hint in part for hint in hints):
            return True
    return False


def redact_values(text: str, values: Collection[str]) -> str:
    """Replace the given secrets, such as a judge's own key, wherever they stand in the text."""
    for value in sorted(values, key=len, reverse=True):
        if len(value) >= 4:
            text = text.replace(value, _MARK)
    return text


def _windows(length: int) -> Iterator[tuple[int, int, int]]:
    """Start, end, and end of the overlap of each window; matches begin before the end."""
    for start in range(0, length, _WINDOW):
        end = start + _WINDOW
        yield start, end, min(end + _OVERLAP, length)


def _found(pattern: re.Pattern[str], text: str) -> Iterator[tuple[int, int]]:
    """Spans of a pattern's group, or of the whole match where it has none."""
    done = 0
    for start, end, limit in _windows(len(text)):
        for match in pattern.finditer(text, max(start, done), limit):
            if match.start() >= end:
                break
            first, last = match.span(pattern.groups)
            done = last = _end_of_run(text, last) if last == limit else last
            yield first, last


def _end_of_run(text: str, end: int) -> int:
    """The end of a secret that a window or a bound of its pattern has cut."""
    while (further := _REST.match(text, end, end + _WINDOW)) and further.end() > end:
        end = further.end()
    return end


def _assigned(text: str) -> Iterator[tuple[int, int]]:
    """Values assigned to names that say that they are secret."""
    done = 0
    for start, end, limit in _windows(len(text)):
        if not _contains(text[start:limit], _NAME_HINTS):
            continue
        for match in _NAME.finditer(text, max(start, done), limit):
            if match.start() >= end:
                break
            value = _secret_value(text, match)
            if value is not None:
                done = (
                    value.end() if match[3] and value.re is not _LONG_KEY else _end_of_run(text, value.end())
                )
                yield value.start(), done
                if done > end:
                    break


def _secret_value(text: str, name: re.Match[str]) -> re.Match[str] | None:
    strong = _STRONG.search(name[1])
    if not strong and not _WEAK.search(name[1]):
        return None
    value = _VALUE[name[3]].match(text, name.end())
    if value is None or value[0].startswith(_MARK):
        return None
    if not strong or not name[2]:
        key = _LONG_KEY.match(text, name.end(), name.end() + 256)
        return key if key and (name[2] or name[3] or _DIGIT.search(key[0])) else None
    # "the token: unchanged" is prose; quotes, an equals sign or a composed name are not
    written_as_code = bool(name[3]) or "=" in name[0] or "_" in name[1] or name[1].isupper()
    has_digit = _DIGIT.search(value[0]) is not None
    likely = (has_digit and len(value[0]) >= 8) or _LONG_KEY.fullmatch(value[0]) is not None
    return value if written_as_code or likely else None


def _private_keys(text: str) -> Iterator[tuple[int, int]]:
    """From the beginning of a private key to its end, or to the end of the text."""
    position = 0
    for start, end, limit in _windows(len(text)):
        for match in _PRIVATE_KEY.finditer(text, max(start, position), limit):
            if match.start() >= end:
                break
            if match.start() < position:
                continue
            closing = text.find("-----END", match.end())
            last_line = _END_LINE.match(text, closing) if closing >= 0 else None
            position = last_line.end() if last_line else len(text)
            yield match.start(), position


def replaced(text: str, spans: list[tuple[int, int]]) -> str:
    """The text with `[redacted]` in place of each span; overlapping spans are one."""
    merged: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if merged and first < merged[-1][1]:
            merged[-1] = merged[-1][0], max(last, merged[-1][1])
        else:
            merged.append((first, last))
    parts, kept = [], 0
    for first, last in merged:
        parts += [text[kept:first], _MARK]
        kept = last
    return "".join([*parts, text[kept:]])
