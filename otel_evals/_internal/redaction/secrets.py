"""Finds secrets in text, in time linear in its length, with no dependency.

It knows keys by their vendors' prefixes, JSON web tokens, passwords in URLs, private keys, bearer tokens, and
values assigned to names such as `DB_PASSWORD`. A test compares it with all forms that detect-secrets knows.

Every pattern begins at the start of a run of its own characters (by a lookbehind) or has bounded parts, so
each run is scanned a constant number of times. Patterns are applied in windows, because a call of `re` holds
the interpreter's lock until it returns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import lru_cache

_WINDOW = 4_096
_OVERLAP = 1_024
MARK = "[redacted]"

# Keys by their first characters. Error texts mask the middle of a key with asterisks.
_KEY_FORMS = {
    "model provider key": r"""(?:sk|pk|rk)-[A-Za-z0-9_*-]{20,}
        | (?:sk|pk|rk)-[A-Za-z0-9_-]{0,12}\*{3,}[A-Za-z0-9_*-]{0,40}
        | gsk_[A-Za-z0-9]{20,} | xai-[A-Za-z0-9_-]{20,} | hf_[A-Za-z0-9]{30,} | r8_[A-Za-z0-9]{30,}
        | pplx-[A-Za-z0-9]{30,} | nvapi-[A-Za-z0-9_-]{30,}
        | tvly-[A-Za-z0-9_-]{20,} | lsv2_[A-Za-z0-9_]{30,}""",
    "Stripe Access Key": r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,} | whsec_[A-Za-z0-9+/=]{20,}",
    "AWS Access Key": r"(?:AKIA|ASIA|ABIA|ACCA|A3T[A-Z0-9])[A-Z0-9]{16}",
    "Google API Key": r"AIza[A-Za-z0-9_-]{35} | ya29\.[A-Za-z0-9_-]{20,}",
    "GitHub Token": r"gh[oprsu]_[A-Za-z0-9_]{36,} | github_pat_[A-Za-z0-9_]{40,}",
    "GitLab Token": r"""gl(?:pat|dt|ft|soat|rt|cbt|imt|ptt|agent|oas)-[A-Za-z0-9_-]{20,}
        | GR1348941[A-Za-z0-9_-]{20,}""",
    "Slack Token": r"xox[abeoprs]-[A-Za-z0-9-]{5,} | xapp-[A-Za-z0-9-]{10,}",
    "SendGrid API Key": r"SG\.[A-Za-z0-9_-]{16,64}\.[A-Za-z0-9_-]{16,}",
    "package registry token": r"npm_[A-Za-z0-9]{30,} | pypi-Ag[A-Za-z0-9_-]{30,} | AKC[A-Za-z0-9]{10,}"
    r"""| AP[0-9A-F][A-Za-z0-9]{8,}(?=[\s"]|$)""",  # the last two: Artifactory
    "service token": r"""hvs\.[A-Za-z0-9_-]{20,} | dop_v1_[a-f0-9]{40,} | dapi[a-f0-9]{32,}
        | shp(?:at|ca|pa|ss)_[A-Fa-f0-9]{32,} | lin_api_[A-Za-z0-9]{30,} | figd_[A-Za-z0-9_-]{30,}
        | AGE-SECRET-KEY-1[A-Z0-9]{40,} | sq0[a-z]{3}-[A-Za-z0-9_\\-]{22,} | (?:AC|SK)[a-z0-9]{32}
        | [0-9a-z]{32}-us[0-9]{1,2}""",  # the last three: Square, Twilio, Mailchimp
    "bot token": r"""[0-9]{8,10}:[A-Za-z0-9_-]{35}
        | [MNO][A-Za-z0-9_-]{23,25}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}""",  # Telegram, Discord
}
_KINDS = tuple(_KEY_FORMS)
_KEYS = re.compile(f"(?<![A-Za-z0-9])(?:({')|('.join(_KEY_FORMS.values())}))", re.VERBOSE)
_JSON_WEB_TOKEN = re.compile(
    r"(?<![A-Za-z0-9_=-])eyJ[A-Za-z0-9_=-]+\.[A-Za-z0-9_=-]+(?:\.[A-Za-z0-9_.+/=-]*)?"
)
_BEARER = re.compile(r"(?i:\b(?:bearer|basic):?[ \t]{1,4})([A-Za-z0-9._~+/=-]{16,})")
_IS = r"[\"'\\]{0,3}\s{0,4}[:=]\s{0,4}[\"'\\]{0,3}"
"""Between a header's name and its value, in HTTP, JSON and code."""
_MIXED = r"(?=[^\s\"']{0,80}(?:[0-9]|[a-z][A-Z]|[!@#$%^&*]))"
"""Before a value that is no word: it has a digit, a capital inside, or a sign that passwords need."""
_AUTHORIZATION = re.compile(
    rf"""(?i:\bauthorization{_IS})(?:
        (?i:digest|oauth|hawk|signature|aws4-[a-z0-9-]{{1,20}})[ \t]{{1,4}}([^\r\n]{{4,4096}})
        | [A-Za-z-]{{1,12}}[ \t]{{1,4}}([^\s"'\\,;]{{4,}})
        | (?=[^\s"'\\,;]{{0,80}}[0-9])([^\s"'\\,;]{{8,}}))""",
    re.VERBOSE,
)
_COOKIE = re.compile(
    rf"(?i:\bcookies?{_IS}|[ ](?:--cookie|-b)[ =][\"']?)([\w!#$%&*+.^`|~-]{{1,80}}=[^\"'\\\r\n]{{4,4096}})"
)
_OPTION = re.compile(
    rf"""(?<![\w-])(?i:--?(?:[a-z0-9]{{1,20}}-){{0,4}}
        (?:passwd|password|pass|passphrase|passin|passout|secret|token|(?:(?:api|access|private|auth)-?)?key
        |credentials?))(?:[ \t]{{1,4}}|=)["']?{_MIXED}([^\s"'\\;|<>-][^\s"'\\;|<>]{{3,256}})""",
    re.VERBOSE,
)
_SHELL = re.compile(
    rf"""\b(?:mysql|mysqldump|sshpass|redis-cli|docker[ ]login|podman[ ]login|az[ ]login)\b
        [^\n;|]{{0,200}}?[ ]-[pa][ ]?["']?{_MIXED}([^\s"'\\;|]{{4,256}})
        | \b(?:curl|wget)\b[^\n;|]{{0,200}}?[ ](?:-u|--user|--proxy-user)[ =]["']?[^\s:"']{{1,64}}:
        ([^\s"'\\;|]{{3,256}})""",
    re.VERBOSE,
)
_SAID = re.compile(
    rf"""(?i:\b(?:password|passwort|passcode|passphrase|pwd)[ ]{{1,4}}(?:is|was)\b:?[ ]{{0,4}}["']?){_MIXED}
          ([^\s"']{{4,256}})
        | (?i:\b(?:otp|one-time[ ](?:code|password)|cv[vc]2?)(?:[ ]{{0,4}}[:=]|[ ]is)[ ]{{0,4}})([0-9]{{3,8}})
        | (?i:\b(?:identified[ ]by|with[ ]password)[ ]{{1,4}}["'])([^"'\r\n]{{3,256}})
        | (?i:\b(?:password|requirepass|passwd)[ ]{{1,4}})(?=[^\s]{{0,80}}[0-9])(?=[^\s]{{0,80}}[a-z])
          (?=[^\s]{{0,80}}[A-Z!@#$%^&*])([^\s"',;()]{{8,256}})
        | (?i:\b(?:seed|recovery|mnemonic)(?:[ ]phrase|[ ]words)?[ ]{{0,4}}[:=][ ]{{0,4}})
          ((?:[a-z]{{3,8}}[ ]){{11,23}}[a-z]{{3,8}})""",
    re.VERBOSE,
)
MARKUP = re.compile(
    r"""(?i:<[\w:.-]{0,60}(?:password|passwd|secret|token|api[_-]?key)>)([^<>\r\n]{4,256})</
        | (?i:\b(?:key|name)=["'][\w:.-]{0,60}(?:password|passwd|secret|token|api[_-]?key)["'][ ]value=["'])
          ([^"'\r\n]{4,256})""",
    re.VERBOSE,
)
_URL_SECRET = re.compile(
    r"""(?i:[?&][\w.%-]{0,60}(?:sig|signature|code|auth|jwt)=)([^\s&"'<>\\]{20,})
        | ://(?=[A-Za-z_-]{0,40}[0-9])([A-Za-z0-9_-]{16,256})@""",
    re.VERBOSE,
)
_URL_PASSWORD = re.compile(r"://[^\s:/@]{0,256}:([^\s/@]{1,256})@")
_SECRET_URL = re.compile(
    r"(?:hooks\.slack\.com/services/|api.softlayer.com/soap/v3(?:.1)?/)([A-Za-z0-9_/]{4,})"
)
_AWS_SECRET = re.compile(
    r"(?i:(?<![a-z])aws.{0,20}?(?:key|pwd|pw|pass|token).{0,20}?)[\"'\\]{1,2}([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+])"
)

# An assignment: a name, an operator, and perhaps the quote that opens the value.
_NAME = re.compile(
    r"""(?<![\w.-])([\w.-]{2,80})          # DB_PASSWORD, client-secret, access_token
        ["'\]\\]{0,4}[ \t]{0,40}
        ([=-]>|:=|::|[:=]|%3[aAdD]|(?<=[ \t])(?=["'A-Za-z0-9]|[_-][\w-]{20}))\s{0,40}\\{0,3}(["']?)""",
    re.VERBOSE,
)
_VALUE = {
    '"': re.compile(r'[^"\\\n]{4,4096}'),
    "'": re.compile(r"[^'\\\n]{4,4096}"),
    "": re.compile(r"[^\s\"'\\,;&<>]{4,256}"),
}
_REST = re.compile(r"[^\s\"'\\,;&<>]*")
_LINE = re.compile(r"[^\"'\\\r\n]*")
_STRONG = re.compile(
    r"(?:passwo?r?d|passwd|passphrase|pwd|secret|secret[_.-]?access[_.-]?key|secret[_.-]?key|api[_.-]?key"
    r"|access[_.-]?key|private[_.-]?key|account[_.-]?key|signing[_.-]?key|encryption[_.-]?key|auth[_.-]?key"
    r"|_?auth[_.-]?token|token|credentials?|api[_.-]?token|hmac|subscription[_.-]?key|passcode"
    r"|passwort|kennwort|contraseña|wachtwoord|senha|JSESSIONID|PHPSESSID|connect\.sid|(?:csrf|xsrf)-?token"
    r"|laravel_session|PLAY_SESSION|ASP\.NET_SessionId)\Z",
    re.IGNORECASE,
)
_WEAK = re.compile(r"(?:key|pass|pw|auth|jwt|signature)\Z", re.IGNORECASE)
_PASS = re.compile(r"(?=[^\s\"']{0,80}[0-9])(?=[^\s\"']{0,80}[A-Za-z])[^\s\"'\\,;&<>()]{8,256}")
_LONG_KEY = re.compile(r"[A-Za-z0-9_/+=.-]{20,}")
_END_LINE = re.compile(r"-----END[A-Z0-9 ]{0,60}-{0,5}")
_DIGIT = re.compile("[0-9]")
_PRIVATE_KEY = re.compile(r"-{0,5}[ ]?BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY|PuTTY-User-Key-File-")


_GATES = (
    *("pass", "pw", "secret", "key", "token", "credential", "hmac", "kennwort", "contraseña", "wachtwoord"),
    *("senha", "sess", "connect.sid", "auth", "jwt", "sig", "aws", "eyj", "/", "=", " -", "bearer", "basic"),
    *("cookie", "otp", "one-time", "cv", "identified by", "seed", "recovery", "mnemonic"),
)
_Hints = tuple[tuple[str, str], ...]


def _hints(*hints: str, gate: str | None = None) -> _Hints:
    """Return hints with their gates: parts of them, or of every match, that are searched first."""
    return tuple((gate or next(each for each in _GATES if each in hint), hint) for hint in hints)


_KNOWN: tuple[tuple[_Hints, str, re.Pattern[str]], ...] = (
    (_hints("aws"), "AWS Secret Key", _AWS_SECRET),
    (_hints("eyj"), "JSON Web Token", _JSON_WEB_TOKEN),
    (_hints("://"), "Basic Auth Credentials", _URL_PASSWORD),
    (_hints("hooks.slack", "softlayer", gate="/"), "secret URL", _SECRET_URL),
)
_HEADERS: tuple[tuple[_Hints, str, re.Pattern[str]], ...] = (
    (_hints("bearer", "basic"), "bearer token", _BEARER),
    (_hints("authorization"), "authorization header", _AUTHORIZATION),
    (_hints("cookie", " -b", " --cookie"), "cookie", _COOKIE),
    (
        _hints("mysql", "sshpass", "redis-cli", " login", "curl", "wget", gate=" -"),
        "option of a command",
        _SHELL,
    ),
    (
        _hints(
            *("passw", "passcode", "passphrase", "requirepass", "pwd", "otp", "one-time", "cvv", "cvc"),
            *("identified by", "seed", "recovery", "mnemonic"),
        ),
        "said",
        _SAID,
    ),
    (_hints("</", "value="), "secret in markup", MARKUP),
    (_hints("sig", "code=", "auth=", "jwt=", "://"), "secret in an address", _URL_SECRET),
)
"""Lower-case hints, kind, pattern: a text without any of the hints is not searched for the pattern."""
_NAME_ENDS = _hints(
    *("password", "passwd", "passwod", "passwrd", "pass", "passphrase", "passcode", "passwort", "passin"),
    *("passout", "pwd", "pw", "secret", "key", "token", "credential", "credentials", "hmac", "kennwort"),
    *("contraseña", "wachtwoord", "senha", "sessionid", "sessid", "connect.sid", "laravel_session"),
    *("play_session", "auth", "jwt", "signature"),
)
"""Last letters of the names of secrets and of the options that take one."""
_AFTER_NAMES = frozenset("\"']\\ \t=-:%")
_KEY_BLOCK_HINTS = _hints("begin ", "putty", gate="key")
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
_LONG = 36
_LONGEST_NAME = 80
_PROBES = ("a1B2c3D4e5F6g7H8i9J0k1L2", "a1B2" * 10, "digest a1B2c3D4", "session=a1B2c3D4")
"""Values of the forms that the patterns of named secrets want; no secrets by themselves."""
_PART = 65_536
_LONGEST_HINT = 32


def redact_secrets(text: str) -> str:
    """Replace keys, tokens and passwords by `[redacted]`, and keep the words around them."""
    if len(text) < _SHORTEST:
        return text
    spans = [(first, last) for _, first, last in find_secrets(text)]
    return replaced(text, spans) if spans else text


@lru_cache(maxsize=4096)
def names_secrets(key: str) -> bool:
    """Return True if values under this key may be secret because of the key, such as `password`."""
    return any(is_secret_under(key, value) for value in _PROBES)


def is_secret_under(key: str, value: str | float) -> bool:
    """Return True if a value is redacted behind its key in JSON text, but not by itself."""
    text = value if isinstance(value, str) else str(value)
    if redact_secrets(text) != text:
        return False
    line = f'"{text}"' if isinstance(value, str) else text
    key = key[-_LONGEST_NAME:]
    return not redact_secrets(f'"{key}": {line}').endswith(line)


def find_secrets(text: str, *, guess: bool = True) -> Iterator[tuple[str, int, int]]:
    """Kind, start and end of each secret; spans may overlap.

    Without `guess`, secrets count by their own form: a value that only a header or a name such as `password`
    gives away has to be at least 36 characters long, and a key that is masked with asterisks is no secret.
    """
    if len(text) < _SHORTEST:
        return
    # Each pattern is searched for only if the text has something that all its matches need.
    starts = range(0, len(text), _PART)
    parts = [text[start : start + _PART + _LONGEST_HINT] for start in starts] if len(starts) > 1 else [text]
    traits = [_Traits(part) for part in parts]
    if any(each.may_have_key for each in traits):
        for match, first, last in _found(_KEYS, text):
            if guess or "***" not in match[0]:
                yield _KINDS[(match.lastindex or 1) - 1], first, last
    if not any(each.gates for each in traits):
        return
    if _may_have(traits, _KEY_BLOCK_HINTS):
        yield from (("Private Key", *span) for span in _private_keys(text))
    for hints, kind, pattern in _KNOWN + _HEADERS if guess else _KNOWN:
        if _may_have(traits, hints):
            yield from ((kind, first, last) for _, first, last in _found(pattern, text))
    if any(each.ends_names for each in traits):
        if guess:
            yield from (("option of a command", first, last) for _, first, last in _found(_OPTION, text))
        shortest = 0 if guess else _LONG
        yield from (("named secret", *span) for span in _assigned(text) if span[1] - span[0] >= shortest)


class _Traits:
    """What a text has of that which the patterns need."""

    __slots__ = ("_lowered", "_text", "gates")

    def __init__(self, text: str) -> None:
        self._text = text
        self._lowered = lowered = text.casefold()
        self.gates = {gate for gate in _GATES if gate in lowered}

    def may_have(self, hints: _Hints) -> bool:
        gates, lowered = self.gates, self._lowered
        return any(gate in gates and hint in lowered for gate, hint in hints)

    @property
    def may_have_key(self) -> bool:
        text = self._text
        for key in _SHORT_KEYS:
            if key in text:
                return True
        runs = text.encode("ascii", "replace").translate(_RUNS) + b" "
        start = runs.find(_SHORTEST_RUN)
        while start >= 0:
            end = runs.index(b" ", start)
            if end - start > _WINDOW or _KEYS.search(text, start, end):
                return True
            start = runs.find(_SHORTEST_RUN, end)
        return _ARTIFACTORY.search(text) is not None

    @property
    def ends_names(self) -> bool:
        """Return True if the text may have the name of a secret, and something after it."""
        gates, lowered = self.gates, self._lowered
        for gate, end in _NAME_ENDS:
            if gate in gates and end in lowered:
                for after in lowered.split(end)[1:]:
                    if after[:1] in _AFTER_NAMES:
                        return True
        return False


def _may_have(traits: Sequence[_Traits], hints: _Hints) -> bool:
    return any(each.may_have(hints) for each in traits)


def redact_values(text: str, values: Collection[str]) -> str:
    """Replace every occurrence of the given secrets, such as a judge's own key."""
    for value in sorted(values, key=len, reverse=True):
        if len(value) >= 4:
            text = text.replace(value, MARK)
    return text


def search(
    pattern: re.Pattern[str],
    text: str,
    span: Callable[[re.Match[str], int], tuple[int, int] | None] = lambda match, limit: match.span(),
    worth: Callable[[str], bool] | None = None,
) -> Iterator[tuple[re.Match[str], int, int]]:
    """Yield matches with their spans, which `span` computes from a match and the end of its window.

    Windows that are not `worth` a search are skipped.
    """
    done = 0
    for start in range(0, len(text), _WINDOW):
        end, limit = start + _WINDOW, min(start + _WINDOW + _OVERLAP, len(text))
        if worth is not None and not worth(text[start:limit]):
            continue
        for match in pattern.finditer(text, max(start, done), limit):
            if match.start() >= end or done > end:
                break
            if match.start() >= done and (found := span(match, limit)) is not None:
                done = found[1]
                yield match, *found


def _found(pattern: re.Pattern[str], text: str) -> Iterator[tuple[re.Match[str], int, int]]:
    """Search for secrets: a match, or its group if the pattern has one."""

    def span(match: re.Match[str], limit: int) -> tuple[int, int]:
        # The group that matched is the secret. Keys have groups for their kinds, and are secrets as a whole.
        first, last = match.span(0 if pattern is _KEYS else match.lastindex or 0)
        if pattern is _COOKIE:  # several pairs, up to the end of their line
            return first, _end_of_run(text, last, _LINE)
        return first, _end_of_run(text, last) if last == limit else last

    return search(pattern, text, span)


def _end_of_run(text: str, end: int, rest: re.Pattern[str] = _REST) -> int:
    """Return the end of a secret that a window or a bound of its pattern has cut."""
    while (further := rest.match(text, end, end + _WINDOW)) and further.end() > end:
        end = further.end()
    return end


def _assigned(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of values assigned to secret names."""

    def span(name: re.Match[str], limit: int) -> tuple[int, int] | None:
        if (value := _secret_value(text, name)) is None:
            return None
        whole = name[3] and value.re is not _LONG_KEY
        return value.start(), value.end() if whole else _end_of_run(text, value.end())

    return (
        (first, last)
        for _, first, last in search(_NAME, text, span, lambda window: _Traits(window).ends_names)
    )


def _secret_value(text: str, name: re.Match[str]) -> re.Match[str] | None:
    strong = _STRONG.search(name[1])
    if not strong and not _WEAK.search(name[1]):
        return None
    value = _VALUE[name[3]].match(text, name.end())
    if value is None or value[0].startswith(MARK):
        return None
    if not strong or not name[2]:
        last = name.end() + 256
        key = _LONG_KEY.match(text, name.end(), last)
        if key is None and not strong and ("=" in name[0] or name[3]) and name[1][-3:].lower() != "key":
            key = _PASS.match(text, name.end(), last)
        return key if key and (name[2] or name[3] or _DIGIT.search(key[0])) else None
    # "the token: unchanged" is prose; quotes, an equals sign or a composed name are not
    written_as_code = bool(name[3]) or "=" in name[0] or "_" in name[1] or name[1].isupper()
    has_digit = _DIGIT.search(value[0]) is not None
    likely = (has_digit and len(value[0]) >= 8) or _LONG_KEY.fullmatch(value[0]) is not None
    return value if written_as_code or likely else None


def _private_keys(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of private keys; one without an end line reaches to the end of the text."""

    def span(match: re.Match[str], limit: int) -> tuple[int, int]:
        closing = text.find("-----END", match.end())
        last_line = _END_LINE.match(text, closing) if closing >= 0 else None
        return match.start(), last_line.end() if last_line else len(text)

    return ((first, last) for _, first, last in search(_PRIVATE_KEY, text, span))


def replaced(text: str, spans: list[tuple[int, int]]) -> str:
    """Return the text with `[redacted]` in place of each span; overlapping spans are merged."""
    merged: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if merged and first < merged[-1][1]:
            merged[-1] = merged[-1][0], max(last, merged[-1][1])
        else:
            merged.append((first, last))
    parts, kept = [], 0
    for first, last in merged:
        parts += [text[kept:first], MARK]
        kept = last
    return "".join([*parts, text[kept:]])
