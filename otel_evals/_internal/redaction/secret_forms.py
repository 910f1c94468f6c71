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
        | pplx-[A-Za-z0-9]{30,} | nvapi-[A-Za-z0-9_-]{30,} | csk-[A-Za-z0-9]{40,} | fw_[A-Za-z0-9]{22,}
        | tgp_v1_[A-Za-z0-9_-]{30,} | sess-[A-Za-z0-9]{40} | sk_[a-f0-9]{48} | jina_[A-Za-z0-9_-]{40,}
        | ABSK[A-Za-z0-9+/=]{60,}
        | tvly-[A-Za-z0-9_-]{20,} | lsv2_[A-Za-z0-9_]{30,} | wandb_v1_[A-Za-z0-9_]{40,}
        | pylf_v[0-9]_[A-Za-z0-9_]{30,} | pcsk_[A-Za-z0-9_]{40,} | ph[xs]_[A-Za-z0-9]{40,}
        | e2b_[a-f0-9]{40,} | fc-[a-f0-9]{32}""",
    "Stripe Access Key": r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,} | whsec_[A-Za-z0-9+/=]{20,}",
    "AWS Access Key": r"(?:AKIA|ASIA|ABIA|ACCA|A3T[A-Z0-9])[A-Z0-9]{16}",
    "Google API Key": r"AIza[A-Za-z0-9_-]{35} | ya29\.[A-Za-z0-9_-]{20,} | GOCSPX-[A-Za-z0-9_-]{28}",
    "GitHub Token": r"gh[oprsu]_[A-Za-z0-9_]{36,} | github_pat_[A-Za-z0-9_]{40,}",
    "GitLab Token": r"""gl(?:pat|dt|ft|soat|rt|cbt|imt|ptt|agent|oas)-[A-Za-z0-9_-]{20,}
        | GR1348941[A-Za-z0-9_-]{20,}""",
    "Slack Token": r"xox[abeoprs]-[A-Za-z0-9-]{5,} | xapp-[A-Za-z0-9-]{10,}",
    "SendGrid API Key": r"SG\.[A-Za-z0-9_-]{16,64}\.[A-Za-z0-9_-]{16,}",
    "package registry token": r"npm_[A-Za-z0-9]{30,} | pypi-Ag[A-Za-z0-9_-]{30,} | AKC[A-Za-z0-9]{10,}"
    r"""| AP[0-9A-F][A-Za-z0-9]{8,}(?=[\s"]|$)""",  # the last two: Artifactory
    "service token": r"""hvs\.[A-Za-z0-9_-]{20,} | dop_v1_[a-f0-9]{40,} | dapi[a-f0-9]{32,}
        | shp(?:at|ca|pa|ss)_[A-Fa-f0-9]{32,} | ntn_[A-Za-z0-9]{40,} | secret_[A-Za-z0-9]{43}
        | PMAK-[a-f0-9]{24}-[a-f0-9]{30,} | sntry[su]_[A-Za-z0-9+/=_-]{40,} | NRAK-[A-Z0-9]{27}
        | glsa_[A-Za-z0-9]{32}_[a-f0-9]{8} | glc_[A-Za-z0-9+/=]{40,} | dp\.[a-z]{2,5}\.[A-Za-z0-9]{40,}
        | pat[A-Za-z0-9]{14}\.[a-f0-9]{64} | pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_-]{30,}
        | sbp_[a-f0-9]{40} | sb_secret_[A-Za-z0-9_-]{20,} | [A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_-]{60,}
        | dckr_[a-z]{2,4}_[A-Za-z0-9_-]{20,} | HRKU-[A-Za-z0-9_-]{36,} | fm[12][ar]?_[A-Za-z0-9+/=_-]{60,}
        | CCIPAT_[A-Za-z0-9_]{40,} | bkua_[a-f0-9]{40} | ATATT3[A-Za-z0-9_=-]{60,} | sl\.[A-Za-z0-9_-]{100,}
        | re_[A-Za-z0-9]{8}_[A-Za-z0-9]{20,} | tskey-[a-z]{3,10}-[A-Za-z0-9-]{20,} | rubygems_[a-f0-9]{48}
        | dt0[a-z][0-9]{2}\.[A-Z0-9]{24}\.[A-Z0-9]{64} | hca?[ib]k_[A-Za-z0-9]{58} | lin_api_[A-Za-z0-9]{30,}
        | figd_[A-Za-z0-9_-]{30,}
        | AGE-SECRET-KEY-1[A-Z0-9]{40,} | sq0[a-z]{3}-[A-Za-z0-9_\\-]{22,} | (?:AC|SK)[a-z0-9]{32}
        | [0-9a-z]{32}-us[0-9]{1,2}""",  # the last three: Square, Twilio, Mailchimp
    "bot token": r"""[0-9]{8,10}:[A-Za-z0-9_-]{35}
        | [MNO][A-Za-z0-9_-]{23,25}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}""",  # Telegram, Discord
}
KINDS = tuple(_KEY_FORMS)
KEYS = re.compile(f"(?<![A-Za-z0-9])(?:({')|('.join(_KEY_FORMS.values())}))", re.VERBOSE)
_PARTS = {
    "KEY_OF_NAME": r"(?i:(?<!\w)(?:name|key))<QUOTES>\s{0,4}[:=]\s{0,40}",
    "OPEN": r"""<IN>\\{0,7}(["']?)""",
    # Between a header's name and its value, in HTTP, JSON and code.
    "IS": r"<QUOTES><BESIDE>?\s{0,4}[:=]\s{0,40}<IN><QUOTES>",
    # From a name to the key of its value, in an object that has both.
    "BESIDE": r"(?:,?<SPACE><MEMBERS><QUOTES><VALUE><QUOTES>)",
    # Before a text: brackets of lists, and of objects whose "value" it is.
    "IN": r"""(?:(?:\[<SPACE>|\{<SPACE><MEMBERS><QUOTE><VALUE><QUOTE>\s{0,4}:\s{0,40}){1,8}
        (?=<QUOTE>|[0-9]))?""",
    # Other entries of an object, such as "type": "string".
    "MEMBERS": r"""(?:<QUOTE>\w{1,40}<QUOTE>\s{0,4}:\s{0,4}
        (?:<QUOTE>[^"'\\]{0,80}<QUOTE>|[\w.+-]{1,40}),<SPACE>){0,4}""",
    "VALUE": r"(?i:(?:(?:string|int|double|array)_?)?values?)",
    "QUOTES": r"""[\\"']{0,8}""",
    "QUOTE": r"""\\{0,7}["']""",
    "SPACE": r"(?:\s|\\{1,3}n){0,40}",
    # A value after its name in a list or a table, where words, types and prices may stand, too.
    "CODE": r"""(?!\$|[0-9]+[.,])(?=[^\s"'|`]{0,80}[0-9])(?=[^\s"'|`]{0,80}[a-z])
        (?=[^\s"'|`]{0,80}[A-Z!@#$%^&*])[^\s"'\\,;&<>()|`]{8,256}""",
    "LONG": r"""(?=[\w/+=.-]{0,80}[0-9])(?=[\w/+=.-]{0,80}[A-Za-z])(?=[\w/+=.-]{0,80}[A-Za-z0-9]{16})
        [\w/+=.-]{16,256}""",
    # Ends of names before a comma, as long as each other.
    "PASS": r"(?i:word|pass|code|wort|sswd|[\W_]pwd)",
    "KEY": "(?i:[ _-]key|oken|cret|tial|ials)",
    # Before a value that is no word: it has a digit, a capital inside, or a sign that passwords need.
    "MIXED": r"""(?=[^\s"']{0,80}(?:[0-9]|[a-z][A-Z]|[!@#$%^&*]))""",
    "STRONG": r"""passwo?r?d|passwd|passphrase|pwd|secret|secret[_.-]?access[_.-]?key|secret[_.-]?key
        |api[_.-]?key|access[_.-]?key|private[_.-]?key|account[_.-]?key|signing[_.-]?key|encryption[_.-]?key
        |auth[_.-]?key|iam[_.-]{0,2}key|_?auth[_.-]?token|token|credentials?|api[_.-]?token|hmac
        |subscription[_.-]?key|passcode|passwort|kennwort|contraseña|wachtwoord|senha
        |JSESSIONID|PHPSESSID|connect\.sid|(?:csrf|xsrf)-?token
        |laravel_session|PLAY_SESSION|ASP\.NET_SessionId""",
}
"""Parts of patterns, in place of `<NAME>`; each may have those below it."""


def _pattern(text: str) -> re.Pattern[str]:
    for name, part in _PARTS.items():
        text = text.replace(f"<{name}>", part)
    return re.compile(text, re.VERBOSE)


_JSON_WEB_TOKEN = _pattern(r"(?<![A-Za-z0-9_=-])eyJ[A-Za-z0-9_=-]+\.[A-Za-z0-9_=-]+(?:\.[A-Za-z0-9_.+/=-]*)?")
_BEARER = _pattern(r"(?i:\b(?:bearer<IS>|(?:bearer|basic):?[ \t]{1,4}))<MIXED>([A-Za-z0-9._~+/=-]{16,})")
_AUTHORIZATION = _pattern(
    r"""(?i:\bauthorization<IS>)(?:
        (?i:digest|oauth|hawk|signature|aws4-[a-z0-9-]{1,20})[ \t]{1,4}([^\r\n]{4,4096})
        | [A-Za-z-]{1,12}[ \t]{1,4}([^\s"'\\,;]{4,})
        | (?=[^\s"'\\,;]{0,80}[0-9])([^\s"'\\,;]{8,}))"""
)
COOKIE = _pattern(
    r"""(?i:\bcookies?(?:<IS>|<QUOTE>,\s{0,4}<QUOTE>)|[ ](?:--cookie|-b)[ =]["']?)
        ([\w!#$%&*+.^`|~-]{1,80}=[^"'\\\r\n]{4,4096}(?:<QUOTE>,<SPACE><QUOTE>[^"'\\\r\n]{4,4096}){0,20})"""
)
OPTION = _pattern(
    r"""(?<![\w-])(?i:--?(?:[a-z0-9]{1,20}-){0,4}
        (?:passwd|password|pass|passphrase|passin|passout|secret|token|(?:(?:api|access|private|auth)-?)?key
        |credentials?))(?:[ \t]{1,4}|=)["']?(?!https?://)<MIXED>([^\s"'\\;|<>-][^\s"'\\;|<>]{3,256})"""
)
_SHELL = _pattern(
    r"""\b(?:mysql|mysqldump|sshpass|redis-cli|docker[ ]login|podman[ ]login|az[ ]login)\b
        [^\n;|]{0,200}?[ ]-[pa][ ]?["']?<MIXED>([^\s"'\\;|]{4,256})
        | \b(?:curl|wget)\b[^\n;|]{0,200}?[ ](?:-u|--user|--proxy-user)[ =]["']?[^\s:"']{1,64}:
        ([^\s"'\\;|]{3,256})"""
)
_SAID = _pattern(
    r"""(?i:\b(?:password|passwort|passcode|passphrase|pwd)[ ]{1,4}(?:is|was)\b:?[ ]{0,4}["']?)<MIXED>
          ([^\s"']{4,256})
        | (?i:\b(?:otp|one-time[ ](?:code|password)|cv[vc]2?)(?:[ ]is[ ]{0,4}|[ ]{0,4}<IS>))([0-9]{3,8})
        | (?i:\b(?:(?:api|access|secret|private|auth)[ _-]?(?:key|token)|secret|token)[*]{0,2}
          (?:[ ](?:is|was)\b:?|:)[*]{0,2}[ ]{1,4}["'`]?)(?=\S{0,80}[0-9])(?=\S{0,80}[A-Za-z])
          ([A-Za-z0-9_/+=.~-]{16,256})
        | (?i:\b(?:identified[ ]by|with[ ]password)[ ]{1,4}["'])([^"'\r\n]{3,256})
        | (?i:\b(?:password|requirepass|passwd)[ ]{1,4})(?=[^\s]{0,80}[0-9])(?=[^\s]{0,80}[a-z])
          (?=[^\s]{0,80}[A-Z!@#$%^&*])([^\s"',;()]{8,256})
        | (?i:\b(?:seed|recovery|mnemonic)(?:[ ]phrase|[ ]words)?[ ]{0,4}[:=][ ]{0,4})
          ((?:[a-z]{3,8}[ ]){11,23}[a-z]{3,8})"""
)
_MARKUP = _pattern(r"(?i:<[\w:.-]{0,60}(?:<STRONG>|pass|pw)>)([^<>\r\n]{4,256})</")
_URL_SECRET = _pattern(
    r"""(?i:[?&][\w.%-]{0,60}(?:sig|signature|code|auth|jwt)=)([^\s&"'<>\\]{20,})
        | ://(?=[A-Za-z_-]{0,40}[0-9])([A-Za-z0-9_-]{16,256})@
        | (?i:%3a%2f%2f[\w.~+-]{0,80}%3a((?:(?!%40|%2f)[^\s/@&"'<>]){1,256})%40)"""
)
_URL_PASSWORD = _pattern(r"://[^\s:/@]{0,256}:([^\s/@]{1,256})@")
_SECRET_URL = _pattern(
    r"(?:hooks\.slack\.com/services/|api.softlayer.com/soap/v3(?:.1)?/)([A-Za-z0-9_/]{4,})"
)
_AWS_SECRET = _pattern(
    r"(?i:(?<![a-z])aws.{0,20}?(?:key|pwd|pw|pass|token).{0,20}?)[\"'\\]{1,2}([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+])"
)
PRIVATE_KEY = re.compile(r"-{0,5}[ ]?BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY|PuTTY-User-Key-File-")

# An assignment: a name, an operator, and perhaps brackets and the quote that opens the value.
NAME = _pattern(
    r"""(?<![\w.-])([\w.-]{2,80})          # DB_PASSWORD, client-secret, access_token
        ["'\]\\]{0,4}[ \t]{0,40}
        ([=-]>|:=|::|[:=]|%3[aAdD]|(?<=[ \t])(?=["'A-Za-z0-9]|[_-][\w-]{20})
        | ,(?:(?<=<PASS>["'],)|(?<=<PASS>\\["'],))(?=\s{0,4}<QUOTE><CODE><QUOTE>)  # ["password", "..."]
        | ,(?:(?<=<KEY>["'],)|(?<=<KEY>\\["'],))(?=\s{0,4}<QUOTE><LONG><QUOTE>))\s{0,40}<OPEN>"""
)
PAIR = _pattern(  # "name": "password", "value": "..."
    r"""<KEY_OF_NAME>[\\"']{1,8}([\w.:-]{2,80})[\\"']{1,8}<BESIDE>\s{0,4}([:=])\s{0,40}<OPEN>"""
)
REVERSED = _pattern(  # "value": "...", "name": "password"
    r"""["']<VALUE><QUOTE>\s{0,4}:\s{0,40}<IN><QUOTES>
        ((?<=["'])[^"'\\]{1,4096}(?:<QUOTE>,<SPACE><QUOTE>[^"'\\]{1,256}){0,8}|[\d.]{3,40})
        (?:[\\"']{1,8}|[\s}\]]|\\{1,3}n){0,80},<SPACE><MEMBERS><QUOTE><KEY_OF_NAME><QUOTE>([\w.:-]{2,80})<QUOTE>"""
)
# The texts of a list, from the first one's beginning to the last one's end.
LIST = _pattern(r"""(?s:.{4,4096}?(?=<QUOTE>(?:[\s}]|\\{1,3}n){0,40}\]))|[^"'\\\n]{4,4096}""")
# A cell of a table in Markdown, CSV or the output of a database; a comma and a blank are prose.
CELL = _pattern(r"""[ `*"'\\]{0,40}((?:[^|\t;,]|,[ ])*?)[ `*"'\\]{0,40}(?:[|\t;]|,(?![ ])|\Z)""")
VALUE_NAME = _pattern("<VALUE>")
"""The key of a value whose name stands beside or above it, as in OTLP's attributes."""
VALUE = {
    '"': _pattern(r'[^"\\\n]{4,4096}'),
    "'": _pattern(r"[^'\\\n]{4,4096}"),
    "": _pattern(r"[^\s\"'\\,;&<>]{4,256}"),
}
STRONG = _pattern(r"(?i:<STRONG>)\Z")
WEAK = _pattern(r"(?i:key|pass|pw|auth|jwt|signature)\Z")
PASS = _pattern(r"(?=[^\s\"']{0,80}[0-9])(?=[^\s\"']{0,80}[A-Za-z])[^\s\"'\\,;&<>()]{8,256}")
LONG_KEY = _pattern(r"(?=[A-Za-z0-9_/+=.-]{0,80}[A-Za-z0-9]{16})[A-Za-z0-9_/+=.-]{20,}")

_WORDS = """pass pw secret key token credential hmac kennwort contraseña wachtwoord senha sess connect.sid
auth jwt sig aws eyj / = bearer basic cookie otp one-time cv seed recovery mnemonic %3a%2f%2f"""
HINTS = (*_WORDS.split(), " -", "identified by")
"""Lower-case parts of texts, one of which every secret but a key needs in or near it."""
_SAID_WITH = """passw,passcode,passphrase,requirepass,pwd,otp,one-time,cvv,cvc,identified by,seed,recovery,\
mnemonic,key is,key was,key:,key*,token is,token was,token:,token*,secret is,secret was,secret:,secret*"""
_Form = tuple[tuple[str, ...], str, re.Pattern[str]]
KNOWN: tuple[_Form, ...] = (
    (("begin ", "putty"), "Private Key", PRIVATE_KEY),
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
    (tuple(_SAID_WITH.split(",")), "said", _SAID),
    (("</",), "secret in markup", _MARKUP),
    (('value"', "value'", "value\\"), "named secret", REVERSED),
    (("sig", "code=", "auth=", "jwt=", "://", "%3a%2f%2f"), "secret in an address", _URL_SECRET),
)
"""Secrets that only the words around them give away."""
_ENDS = """password passwd passwod passwrd pass passphrase passcode passwort passin passout pwd pw secret key
token credential credentials hmac kennwort contraseña wachtwoord senha sessionid sessid connect.sid
laravel_session play_session auth jwt signature"""
NAME_ENDS = tuple(_ENDS.split())
"""Last letters of the names of secrets and of the options that take one."""
