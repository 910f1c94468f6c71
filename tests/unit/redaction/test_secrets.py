"""Redaction knows the forms of secrets in use, leaves prose alone, and takes time linear in the text."""

from __future__ import annotations

import json
import re
import time

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from otel_evals._internal.redaction.secrets import find_secrets, redact_secrets, redact_values

VALUE = "a1B2c3D4e5F6g7H8i9J0k1L2"
ASSIGNED = [
    '{"access_token": "%s"}',
    '{\\"access_token\\": \\"%s\\"}',
    '{"refreshToken":"%s","n":1}',
    "DB_PASSWORD=%s",
    "export OPENAI_API_KEY='%s'",
    "aws_secret_access_key = %s",
    "client_secret: %s",
    "client-secret => %s",
    "spring.datasource.password=%s",
    "password := '%s'",
    "Authorization: Bearer %s",
    "authorization=Basic %s",
    "I sent Bearer %s to it",
    "https://user:%s@example.com/x",
    "postgres://:%s@db:5432",
    "AccountKey=%s;EndpointSuffix=x",
]
PREFIXED = [
    "gsk_%s",
    "xai-%s",
    "sk-%s",
    "sk-proj-%s",
    "sk_live_%s",
    "hf_%sabcdefghijkl",
    "SG.%s.%s",
    "glpat-%s",
    "ntn_%s%s",
    "GOCSPX-%sabcd",
    "sntrys_%s%s",
    "dp.pt.%s%s",
    "pylf_v1_us_%s%s",
    "pcsk_%s_%s",
    "dckr_pat_%s",
    "tskey-auth-%s-1",
    "ABSK%s%s%s",
    "fw_%s",
]


@pytest.mark.parametrize("form", ASSIGNED + PREFIXED)
@pytest.mark.parametrize("around", ["%s", "x %s y", "\n%s\n", "a=1 %s b=2", "ü %s."])
def test_secrets_of_these_forms_go(form: str, around: str) -> None:
    redacted = redact_secrets(around.replace("%s", form.replace("%s", VALUE)))
    assert VALUE not in redacted
    assert "[redacted]" in redacted


@pytest.mark.parametrize("value", ["hunter two", "hunter-two", "päss wörd", "abcd"])
def test_quoted_passwords_need_no_digits_and_may_have_blanks(value: str) -> None:
    assert (
        redact_secrets(f'"password": "{value}", "user": "ann"') == '"password": "[redacted]", "user": "ann"'
    )


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("quoted", [False, True])
@pytest.mark.parametrize(
    ("record", "secrets"),
    [
        ({"password": ["hunter two"]}, ["hunter two"]),
        ({"api_key": ["a]", 'b"c', "hunter2"], "user": ["ann"]}, ["a]", "b", "hunter2"]),
        ({"name": "password", "value": "hunter two"}, ["hunter two"]),
        ({"key": "db.api_key", "value": "x1y2"}, ["x1y2"]),
        ({"key": "client_secret", "value": ["x1y2", "x3y4"]}, ["x1y2", "x3y4"]),
    ],
)
def test_secrets_go_in_lists_and_in_pairs_of_name_and_value(
    record: dict[str, object], secrets: list[str], quoted: bool, indent: int | None
) -> None:
    text = json.dumps({"n": 1, **record, "end": "kept"}, indent=indent)
    redacted = redact_secrets(json.dumps(text) if quoted else text)
    assert json.loads(json.loads(redacted) if quoted else redacted)["end"] == "kept"
    assert not [secret for secret in secrets if f'"{secret}' in redacted]
    assert redact_secrets(redacted) == redacted


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "token", "value": 12}',
        '{"name": "total_tokens", "value": "many words"}',
        '{"name": "colour", "value": "a1B2c3D4"}',
        '{"tokens": ["the", "answers"], "key": ["blue"]}',
        "password=[redacted] and its name, whose value is none",
    ],
)
def test_other_lists_and_pairs_stay(text: str) -> None:
    assert redact_secrets(text) == text


MIXED, SAID = "Zk3pQ9vX2mW7rT5yB8nC4dF6", "hunter2-Blue"
COOKIES = [
    "Cookie: session=%s",
    "Cookie: a=1; sid=%s; theme=dark",
    "Set-Cookie: sid=%s; Path=/; HttpOnly",
    '{"Cookie": "session_id=%s; lang=en"}',
    "-H 'Cookie: auth=%s'",
    "curl -b 'sid=%s' https://x",
    'curl --cookie "PHPSESSID=%s" https://x',
    'document.cookie = "t=%s"',
    "JSESSIONID=%s",
    "connect.sid=%s",
]
HEADERS = [
    "Authorization: %s",
    "authorization=%s",
    '"Authorization": "%s"',
    "headers={'Authorization': '%s'}",
    "Authorization:%s",
    'Authorization: Digest username="bob", response="%s"',
    "Authorization: Hawk id=1, mac=%s",
    "Authorization: AWS4-HMAC-SHA256 SignedHeaders=host, Signature=%s",
    "Proxy-Authorization: Basic %s",
    "Ocp-Apim-Subscription-Key: %s",
]
OPTIONS = [
    "--password %s",
    "--password '%s'",
    "--pass %s",
    "--token %s",
    "--api-key %s",
    "--client-secret %s",
    "--db-password %s",
    "--auth-token %s",
    "--passphrase %s",
    "openssl -passin pass:%s",
    "mysql -u root -p%s",
    "sshpass -p %s ssh x",
    "redis-cli -a %s",
    "docker login -u bob -p %s",
    "curl -u bob:%s https://x",
    "curl --user bob:%s https://x",
]
WORDS = [
    "my password is %s",
    "the password was: %s",
    "user bob password %s",
    "requirepass %s",
    "password -> %s",
    "IDENTIFIED BY '%s'",
    "WITH PASSWORD '%s'",
    "pw=%s",
    "'pass': '%s'",
    "DB_PASS=%s",
    "passcode: %s",
    "kennwort: %s",
    "password%%3D%s",
    "<password>%s</password>",
    '<add key="Password" value="%s"/>',
    "| **Password** | `%s` |",
    "|password|%s|",
    "| id | password |\n|---|---|\n| 1 | blue |\n| 7 | `%s` |",
    '{"rows": "| id | pwd |\\n|---|---|\\n| 7 | %s |", "n": 1}',
    " id | password\n----+---------\n 7 | %s\n(1 row)",
    'id,"password"\n7,%s',
    "id,password,note\n1,blue,\n7,%s,old",
    '["password", "%s"]',
    '[["Cookie", "sid=%s; lang=en"]]',
    "postgres%%3A%%2F%%2Fbob%%3A%s%%40db%%3A5432",
]
ADDRESSES = [
    "https://x/c?sv=1&sig=%s",
    "https://x/?X-Amz-Signature=%s",
    "https://x/?code=%s",
    "https://%s@x.io/1",
    "Bearer: %s",
    '{"bearer": "%s"}',
    "My API key is %s, thanks.",
    "**Access token:** `%s`",
    "| API key | %s | bob |",
    '[["x-api-key", "%s"]]',
    "('access_token', '%s')",
]


@pytest.mark.parametrize("form", COOKIES + HEADERS + OPTIONS + WORDS + ADDRESSES)
def test_secrets_go_by_the_place_that_they_have_in_headers_commands_and_sentences(form: str) -> None:
    for value in (MIXED,) if form in ADDRESSES else (MIXED, SAID):
        for around in ("%s", "x %s", '{"text": 1}\n%s\nend'):
            assert value not in redact_secrets(
                around.replace("%s", form.replace("%s", value).replace("%%", "%"))
            )


@pytest.mark.parametrize(
    "text",
    [
        "The one-time code is 492817.",
        "cvv: 123",
        '{"otp": "4928"}',
        '{"cvv": 123}',
        "seed phrase: " + "able " * 11 + "zoo",
        "OTP = 4928",
    ],
)
def test_codes_go_that_are_said_to_be_codes(text: str) -> None:
    assert "[redacted]" in redact_secrets(text)


def test_a_cookie_goes_to_the_end_of_its_line_however_long_it_is() -> None:
    cookies = "; ".join(f"a{n}=x9x9x9x9" for n in range(2_000))
    assert redact_secrets(f"Cookie: {cookies}\nAccept: text") == "Cookie: [redacted]\nAccept: text"


@pytest.mark.parametrize(
    "text",
    [
        "The token: unchanged, as agreed.",
        "Use max_tokens=2000 and see the total_tokens: 12345678.",
        "password: null",
        "The secret: patience.",
        "The bearer of this letter is welcome.",
        "Order A-1001 ships on 2031-05-02, key: blue.",
        "https://example.com:8080/path?a=b",
        "passkey to success; keyboard=qwerty",
        "Use the --password option, or --token FILE, to log in.",
        "Authorization: required. The cookie: a chocolate chip.",
        "The password is wrong, and the password was changed.",
        "The pin code 560001 is in Bengaluru; sessionId: conv-1",
        "first_pass = true, pass=0.95, pass: 12/15, bypass=yes",
        "unexpected token 'else' near password base64-encoded",
        "docker run -p 8080:80 -u 1000:1000 x; psql -p 5432",
        "get_secret('OPENAI_API_BASE')",
        "the code is 200; https://x/?code=de&page=2",
        "The basic responsibilities of the bearer responsibilities",
        '{"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}}',
        '{"Key": "reports/2024/q3/summary.pdf"}',
        "cosign verify --key https://example.org/keys/0112e53046",
        '"required": ["password", "username"], "enum": ["token", "OAuth2.0"], "of": ["secret", "HmacSHA256"]',
        "| token | Base64-encoded |\n| secret | HmacSHA256 | OAuth2.0 |",
        "id,token\n1,Base64-encoded\n\nid,city\n2,hunter2-Blue",
        "| token | type |\n| api_key | string(64) |\n| price per token | $0.15/1Mtok |\n| password | none |",
        '["Authorization", "X-B3-TraceId"], ["token", "gpt-4o-mini-2024-07-18"]',
        "next=https%3A%2F%2Fexample.org%3A8080%2Fbob%40example.org",
    ],
)
def test_prose_stays(text: str) -> None:
    assert redact_secrets(text) == text


# Has a part of every form, and no secret: a text after which it stands is searched for all of them.
EVERY_HINT = (
    "\n.\n".join(
        [
            *("aws", "eyj", "://", "hooks.slack softlayer", "bearer", "basic", "authorization", "cookie"),
            *(
                "curl - wget -",
                "mysql",
                "passw",
                "pwd",
                "otp",
                "cvv",
                "seed",
                "recovery",
                "</",
                "value",
                "sig",
            ),
            *("pass ", "secret ", "key ", "token ", "jwt ", "putty", "begin", "*** xox xapp- AKC", "x" * 24),
        ]
    )
    + "\n.\n"
)
WORDS_OF_SECRETS = [
    *(
        "password",
        "PASSWD",
        "db_pass",
        "Secret",
        "api_key",
        "token",
        "credentials",
        "JSESSIONID",
        "auth",
        "pw",
    ),
    *("Authorization", "Bearer", "basic", "Cookie", "curl -u", "--password", "-passin", "connect.sid", "sig"),
    *(
        "identified by",
        "one-time code",
        "cvv",
        "seed phrase",
        "<token>",
        "</token>",
        "aws",
        "is",
        "signature",
    ),
    *("xoxb-12345", "AKCabcdefghij", "AP1abcdefgh", "sk-***abc", "https://u:p4ss@x", "?sig=", "hunter2-Blue"),
    *("492817", "eyJa.b.c", "a1B2c3D4e5F6g7H8i9J0k1L2", "passenger", "pw", "-----BEGIN PRIVATE KEY-----"),
]


@given(st.lists(st.sampled_from([*WORDS_OF_SECRETS, *" \t\n:='\"->/_"]), max_size=10).map("".join))
def test_no_text_hides_a_secret_for_lack_of_a_hint(text: str) -> None:
    """Texts are searched only for forms of which they have a part."""
    assert not list(find_secrets(EVERY_HINT))
    start = len(EVERY_HINT)
    with_hints = [(k, i - start, j - start) for k, i, j in find_secrets(EVERY_HINT + text) if j > start]
    assert sorted(find_secrets(text)) == sorted(with_hints)


def test_masked_keys_of_error_texts_go() -> None:
    assert redact_secrets("key provided: sk-ab*****wxyz.") == "key provided: [redacted]."


def test_a_private_key_goes_to_its_end_or_to_the_end_of_the_text() -> None:
    body = "MIIE" * 5_000
    whole = f"a -----BEGIN EC PRIVATE KEY-----\n{body}\n-----END EC PRIVATE KEY----- b"
    assert redact_secrets(whole) == "a [redacted] b"
    assert redact_secrets(whole[:10_000]) == "a [redacted]"
    assert redact_secrets(f"{whole} {whole}") == "a [redacted] b a [redacted] b"


@given(st.integers(7_000, 18_000), st.integers(20, 3_000))
def test_a_secret_goes_whole_wherever_a_window_ends(before: int, length: int) -> None:
    secret = ("x9" * length)[:length]
    text = f"{'a ' * (before // 2)}sk-{secret} token={secret} end"
    redacted = redact_secrets(text)
    assert "x9" not in redacted
    assert redacted.endswith("token=[redacted] end")


# These guess by randomness or by words nearby.
GUESSING = {"Base64HighEntropyString", "HexHighEntropyString", "KeywordDetector", "IPPublicDetector"}


def known_forms() -> list[tuple[str, str]]:
    """Every denylist pattern of detect-secrets' detectors of known forms."""
    from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class

    return [
        (kind, pattern.pattern)
        for kind, plugin in get_mapping_from_secret_type_to_class().items()
        if plugin.__name__ not in GUESSING
        for pattern in getattr(plugin(), "denylist", ())
        if "BEGIN" not in pattern.pattern
    ]


@pytest.mark.parametrize(("kind", "pattern"), known_forms())
def test_every_form_that_detect_secrets_knows_goes(kind: str, pattern: str) -> None:
    """Examples are drawn from the detectors' own patterns."""
    compiled = re.compile(pattern, re.ASCII)

    @settings(max_examples=8, deadline=None, phases=[Phase.generate])
    @given(st.from_regex(compiled, fullmatch=True))
    def check(example: str) -> None:
        match = compiled.search(f" {example} ")
        if match is not None and example.isprintable():
            secret = next((group for group in reversed(match.groups()) if group), match[0]).strip("'\" =:")
            if len(secret) < 10 or re.search(r" [a-z]{24}\W*$| {3}", example):
                return  # a blank and a word are prose, and so is what stands far away
            if example.count(secret) > 1:
                return  # the user's name is the password
            assert secret not in redact_secrets(f" {example} "), example

    check()


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        (f"gsk_{VALUE}", ["model provider key"]),
        (f"api_key={VALUE}ABCDEFGHIJKLMNOP", ["named secret"]),
        ("sk-ab*****wxyz", []),
        (f"Authorization: Bearer {VALUE}", []),
        ("password=hunter22", []),
    ],
)
def test_without_guesses_a_secret_is_known_by_its_own_form(text: str, kinds: list[str]) -> None:
    assert [kind for kind, _, _ in find_secrets(text, guess=False)] == kinds
    assert "[redacted]" in redact_secrets(text)


def test_values_that_are_named_go_wherever_they_stand() -> None:
    text = "401: wrong key my-own-key (my-own-key-2)"
    assert redact_values(text, ["my-own-key", "my-own-key-2"]) == "401: wrong key [redacted] ([redacted])"


HOSTILE = [
    "token:", '"token":', '"token":"a",', "token=", "key=", "password='", "sk-", "sk-a-", "eyJ-", "eyJ.", "://",
    "a://b:", "bearer ", "authorization: ", "-----BEGIN PRIVATE KEY", "-----BEGIN ", "a", "=", "a=", '\\"',
    "0000000000:", "SG.", "SG.aaaaaaaaaaaaaaaaaaaaa", "glpat-", "中", " ", "\n", "a_", "-", "[redacted]",
    "cookie: a=", "cookie: a=b; ", " -b a=", "--password ", "--a-", "--", "curl -u ", "curl ", "mysql -p",
    "password is ", "password a1B", "able ", "seed phrase: able ", "<password>", "?sig=", "://a1",
    "authorization: digest ", '"value": "a", ', '"value": "a", "b": 1, "name": "pass", ', '[{"value": ',
    '"cookie", "a": "b", ', "api key is a1",
    '"password", ', "| password ", "a,password\n", "password** ", "%3a%2f%2f", "%3a%2f%2fbob%3a",
    "password" + " " * 4_000 + "a\n",
    '"token": [', '"token": ["a", ', '{"name": "token", "value": ["a", ', "name: ",
]  # fmt: skip


def seconds(text: str) -> float:
    return min(_timed(text) for _ in range(2))


def _timed(text: str) -> float:
    began = time.thread_time()
    redact_secrets(text)
    return time.thread_time() - began


@pytest.mark.parametrize("piece", HOSTILE)
def test_time_grows_with_the_length_and_not_faster(piece: str) -> None:
    once = seconds((piece * 20_000)[:20_000])
    assert once < 3
    assert seconds((piece * 80_000)[:80_000]) < 10 * once + 0.05, "four times the text"
