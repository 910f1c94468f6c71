"""The forms of secrets: keys by their vendors' prefixes, and what words around a secret give away.

Every pattern begins at the start of a run of its own characters (by a lookbehind) or has bounded parts, so
each run is scanned a constant number of times.
"""

from __future__ import annotations

import re

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
KINDS = tuple(_KEY_FORMS)
KEYS = re.compile(f"(?<![A-Za-z0-9])(?:({')|('.join(_KEY_FORMS.values())}))", re.VERBOSE)
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
COOKIE = re.compile(
    rf"(?i:\bcookies?{_IS}|[ ](?:--cookie|-b)[ =][\"']?)([\w!#$%&*+.^`|~-]{{1,80}}=[^\"'\\\r\n]{{4,4096}})"
)
OPTION = re.compile(
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
_MARKUP = re.compile(r"(?i:<[\w:.-]{0,60}(?:password|passwd|secret|token|api[_-]?key)>)([^<>\r\n]{4,256})</")
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

# An assignment: a name, an operator, and perhaps the bracket of a list and the quote that opens the value.
_OPEN = r"""(?:\[(?:\s|\\n){0,40}(?=\\{0,3}["']))?\\{0,3}(["']?)"""
NAME = re.compile(
    r"""(?<![\w.-])([\w.-]{2,80})          # DB_PASSWORD, client-secret, access_token
        ["'\]\\]{0,4}[ \t]{0,40}
        ([=-]>|:=|::|[:=]|%3[aAdD]|(?<=[ \t])(?=["'A-Za-z0-9]|[_-][\w-]{20}))\s{0,40}"""
    + _OPEN,
    re.VERBOSE,
)
PAIR = re.compile(
    r"""(?i:(?<!\w)(?:name|key))[\\"']{0,4}\s{0,4}[:=]\s{0,40}[\\"']{1,4}
        ([\w.:-]{2,80})                # "name": "password", "value": "..."
        [\\"']{1,4},?(?:\s|\\n){0,40}[\\"']{0,4}(?i:value)[\\"']{0,4}\s{0,4}([:=])\s{0,40}"""
    + _OPEN,
    re.VERBOSE,
)
# The texts of a list, from the first one's beginning to the last one's end.
LIST = re.compile(r"""(?s:.{4,4096}?(?=\\{0,3}["'](?:\s|\\n){0,40}\]))|[^"'\\\n]{4,4096}""")
VALUE = {
    '"': re.compile(r'[^"\\\n]{4,4096}'),
    "'": re.compile(r"[^'\\\n]{4,4096}"),
    "": re.compile(r"[^\s\"'\\,;&<>]{4,256}"),
}
STRONG = re.compile(
    r"(?:passwo?r?d|passwd|passphrase|pwd|secret|secret[_.-]?access[_.-]?key|secret[_.-]?key|api[_.-]?key"
    r"|access[_.-]?key|private[_.-]?key|account[_.-]?key|signing[_.-]?key|encryption[_.-]?key|auth[_.-]?key"
    r"|_?auth[_.-]?token|token|credentials?|api[_.-]?token|hmac|subscription[_.-]?key|passcode"
    r"|passwort|kennwort|contraseña|wachtwoord|senha|JSESSIONID|PHPSESSID|connect\.sid|(?:csrf|xsrf)-?token"
    r"|laravel_session|PLAY_SESSION|ASP\.NET_SessionId)\Z",
    re.IGNORECASE,
)
WEAK = re.compile(r"(?:key|pass|pw|auth|jwt|signature)\Z", re.IGNORECASE)
PASS = re.compile(r"(?=[^\s\"']{0,80}[0-9])(?=[^\s\"']{0,80}[A-Za-z])[^\s\"'\\,;&<>()]{8,256}")
LONG_KEY = re.compile(r"[A-Za-z0-9_/+=.-]{20,}")

_WORDS = """pass pw secret key token credential hmac kennwort contraseña wachtwoord senha sess connect.sid
auth jwt sig aws eyj / = bearer basic cookie otp one-time cv seed recovery mnemonic"""
HINTS = (*_WORDS.split(), " -", "identified by")
"""Lower-case parts of texts, one of which every secret but a key needs in or near it."""
_Form = tuple[tuple[str, ...], str, re.Pattern[str]]
KNOWN: tuple[_Form, ...] = (
    (("aws",), "AWS Secret Key", _AWS_SECRET),
    (("eyj",), "JSON Web Token", _JSON_WEB_TOKEN),
    (("://",), "Basic Auth Credentials", _URL_PASSWORD),
    (("hooks.slack", "softlayer"), "secret URL", _SECRET_URL),
)
"""Lower-case hints, kind, pattern: a text without any of the hints is not searched for the pattern."""
GUESSED: tuple[_Form, ...] = (
    (("bearer", "basic"), "bearer token", _BEARER),
    (("authorization",), "authorization header", _AUTHORIZATION),
    (("cookie", " -b", " --cookie"), "cookie", COOKIE),
    (("mysql", "sshpass", "redis-cli", " login", "curl", "wget"), "option of a command", _SHELL),
    (
        (
            *("passw", "passcode", "passphrase", "requirepass", "pwd", "otp", "one-time", "cvv", "cvc"),
            *("identified by", "seed", "recovery", "mnemonic"),
        ),
        "said",
        _SAID,
    ),
    (("</",), "secret in markup", _MARKUP),
    (("sig", "code=", "auth=", "jwt=", "://"), "secret in an address", _URL_SECRET),
)
"""Secrets that only the words around them give away."""
_ENDS = """password passwd passwod passwrd pass passphrase passcode passwort passin passout pwd pw secret key
token credential credentials hmac kennwort contraseña wachtwoord senha sessionid sessid connect.sid
laravel_session play_session auth jwt signature"""
NAME_ENDS = tuple(_ENDS.split())
"""Last letters of the names of secrets and of the options that take one."""
