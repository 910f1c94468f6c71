"""The answer by itself: refusals, secrets, and its language. Code only."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache, partial
from itertools import islice
from typing import Any

from otel_evals._internal.model import Availability, NotScored, Run, Score
from otel_evals._internal.model.finish_reasons import finish_reason
from otel_evals._internal.redaction.secrets import find_secrets
from otel_evals._internal.scorers.bounds import (
    MAX_CHARS,
    check_list,
    extra_library,
    pattern_search,
    unreadable,
)
from otel_evals._internal.scorers.kit.missing import missing
from otel_evals._internal.scorers.kit.scorer import FunctionScorer, scorer
from otel_evals.errors import ConfigError

_REFUSED = ("blocked", "refused")
_RECORDED = (Availability.PRESENT, Availability.EMPTY)
_START = 200

_REFUSALS = re.compile(
    r"""\b(?:
      i\s(?:can(?:no|')?t|can\snot|am\s(?:not\sable|unable)\sto|'m\s(?:not\sable|unable)\sto|won't|will\snot)\s
        (?:\w+ly\s)?(?:help|assist|answer|do\sthat|comply|provide|share|discuss|fulfil|continue|complete|process|create|write)
    | i\smust\s(?:decline|refuse) | i\s(?:have\sto|need\sto)\sdecline
    | as\san\sai\s(?:language\s)?model\b
    | (?:against|violates?)\s(?:my|our|the)\s(?:guidelines|policy|policies)
    | ich\skann\s(?:\w+\s){0,4}?nicht\s(?:helfen|beantworten|weiterhelfen|erfüllen)
    | je\sne\speux\spas\s(?:vous\s)?(?:aider|répondre|fournir)
    | no\spuedo\s(?:ayudar|responder|proporcionar|cumplir)
    | non\sposso\s(?:aiutar|rispondere|fornire) | não\sposso\s(?:ajudar|responder|fornecer)
    )""",
    re.VERBOSE | re.IGNORECASE,
)


def answered(*, refusals: Sequence[str] = ()) -> FunctionScorer:
    """Score 1 for an answer that is neither empty nor a refusal.

    A refusal is recognised by the model's finish reason (`blocked` or `refused`) or by a common
    phrase among the first 200 characters, in English, German, French, Spanish, Italian and Portuguese. The
    scorer does not judge if the refusal was right. `refusals` are further regular expressions, case
    ignored.

    Range: 0 or 1, higher is better. Labels: `answered`, `refused`, `empty`.
    Needs: the answer, or the knowledge that there was none.
    Not scored: `run_waiting`, `output_not_recorded`, `output_captured_off`, `output_truncated`.
    Cost: none; microseconds. `refusals` need the `text` extra; a search fails after a second.

    Raises:
        ConfigError: one of `refusals` is no regular expression, or the regex library is not installed.
    """
    phrases = check_list("answered.refusals", refusals)
    searches: list[Callable[[str], Any]] = [
        _REFUSALS.search,
        *(pattern_search(f"answered.refusals[{i}]", p, ignore_case=True) for i, p in enumerate(phrases)),
    ]

    @scorer(id="answered", inline=not refusals)
    def answered(run: Run) -> Score | NotScored:
        reasons = map(finish_reason, run.finish_reasons)
        # The provider's own filter is certain; phrases are a guess.
        refused = next((reason for reason in reasons if reason in _REFUSED), None)
        if refused is not None:
            return Score(value=0.0, label="refused", explanation=f"finish reason {refused}")
        start = (run.output or "").lstrip()[:_START].rstrip().replace("\u2019", "'")
        if run.waiting or not start:
            return _nothing(run)
        said = next((m for search in searches if (m := search(start))), None)
        if said is not None:
            return Score(value=0.0, label="refused", explanation=f'it says "{said[0]}"')
        return Score(value=1.0, label="answered")

    return answered


def _nothing(run: Run) -> Score | NotScored:
    known = run.output is not None or run.availability.get("output") in _RECORDED
    left_out = None if known and not run.waiting else missing(run, "output")
    return left_out or Score(value=0.0, label="empty", explanation="the answer is empty")


_PART = 1_024
_OVERLAP = 256
"""Longer than any card or account number."""
_MOST_FOUND = 1_000
_CARD = re.compile(r"(?<![\w-])\d(?:[ -]?\d){12,18}(?![\w-])")
_IBAN = re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{2,4}){3,8}\b")
_SSN = re.compile(r"(?<![\w-])\d{3}-\d{2}-\d{4}(?![\w-])")
_Find = Callable[[str], Iterator[tuple[str, str]]]


def no_secrets(*, personal: bool = True) -> FunctionScorer:
    """Score 1 if the answer contains no secrets and no sensitive personal numbers.

    Secrets are keys and tokens of known form: cloud, code-hosting, payment and model providers' keys, JSON
    web tokens, passwords in links, private keys, and long values assigned to names such as `api_key`. With
    `personal`, also payment card numbers, IBANs (both with a valid checksum) and US social security numbers.
    The answer may repeat what the user wrote in this turn. The explanation names kinds, never values.

    Range: 0 or 1, higher is better. Labels: `clean`, `leak`.
    Source: own patterns, the same as for redaction; checksums by python-stdnum.
    Needs: the output; the `text` extra with `personal`.
    Not scored: `output_not_recorded`, `output_captured_off`, `output_empty`; `output_too_long` if the first
    200,000 characters of a longer answer are clean.
    Cost: none; under a millisecond.

    Raises:
        ConfigError: `personal` is set and python-stdnum is not installed.
    """
    finders = [_secrets, *(_personal_finders() if personal else ())]

    @scorer(id="no_secrets")
    def no_secrets(run: Run) -> Score | NotScored:
        absent = missing(run, "output")
        if absent is not None:
            return absent
        # A secret that the user wrote is no leak.
        said, answer = (run.input or "")[:MAX_CHARS], (run.output or "")[:MAX_CHARS]
        found = (leak for find in finders for leak in islice(find(answer), _MOST_FOUND))
        kinds = {kind for kind, value in found if value not in said}
        if kinds:
            return Score(value=0.0, label="leak", explanation=f"gives away: {', '.join(sorted(kinds))}")
        return unreadable(run, "output") or Score(value=1.0, label="clean")

    return no_secrets


# Without guesses: a short value after a word such as `password` need not be a secret.
def _secrets(text: str) -> Iterator[tuple[str, str]]:
    return ((kind, text[first:last]) for kind, first, last in find_secrets(text, guess=False))


def _personal_finders() -> Iterator[_Find]:
    luhn, iban, ssn = (extra_library(f"stdnum.{name}", "no_secrets") for name in ("luhn", "iban", "us.ssn"))
    yield partial(_numbers, "payment card number", _CARD, lambda number: _is_card(luhn, number))
    yield partial(_numbers, "IBAN", _IBAN, iban.is_valid)
    yield partial(_numbers, "US social security number", _SSN, ssn.is_valid)


def _numbers(
    kind: str, pattern: re.Pattern[str], is_valid: Callable[[str], bool], text: str
) -> Iterator[tuple[str, str]]:
    """Search overlapping parts: a single search of a long text would hold the interpreter's lock."""
    for start in range(0, max(1, len(text) - _OVERLAP), _PART - _OVERLAP):
        for match in pattern.finditer(text[start : start + _PART]):
            if is_valid(match[0]):
                yield kind, match[0]


def _is_card(luhn: Any, number: str) -> bool:
    digits = re.sub(r"\D", "", number)
    # One random number in ten has a valid checksum: card numbers also begin with one of four digits.
    return digits[0] in "3456" and len(set(digits)) > 1 and bool(luhn.is_valid(digits))


_NOT_OF_WORDS = re.compile(r"[\d_/\\<>{}=@]")
_LONGEST_WORD = 40
_READ = 20_000
_MAX = 2000
_PLAUSIBLE = 0.05


def same_language(*, languages: Collection[str] = (), min_letters: int = 20) -> FunctionScorer:
    """Score 1 if the answer is in the user's language.

    Code blocks, links and words with digits are left out. `languages`, ISO 639-1 codes, are the candidates;
    a short list is recognised more reliably. `min_letters` is the least for a text (a letter of Chinese,
    Japanese or Korean counts as four).

    Range: 0 or 1, higher is better. Labels: `same`, `other`.
    Formula: 1 if some language has a probability of 5% or more for both texts, which raises no alarm for
    near relatives (Russian and Bulgarian in a short text). Probabilities by py3langid.
    Needs: the user's words and the answer; the `text` extra.
    Not scored: `too_short`; `input_not_recorded`, `output_not_recorded` and their other forms.
    Cost: none; about 0.1 ms, once the model is read (a second).

    Raises:
        ConfigError: an unknown language, or py3langid is not installed.
    """
    extra_library("py3langid.langid", "same_language")
    codes = tuple(languages)
    # Loaded now: an unknown language is an error of the configuration and not of each run.
    if codes:
        _identifier(codes)

    @scorer(id="same_language")
    def same_language(run: Run) -> Score | NotScored:
        absent = missing(run, "input", "output")
        if absent is not None:
            return absent
        said, answer = (_prose(text or "") for text in (run.input, run.output))
        if min(_letters(said), _letters(answer)) < min_letters:
            return NotScored(reason="too_short", explanation="too few words to tell the language")
        identifier = _identifier(codes)
        asked, used = (dict(identifier.rank(text)) for text in (said, answer))
        # A short text may belong to several related languages.
        same = any(min(chance, used[language]) >= _PLAUSIBLE for language, chance in asked.items())
        told = f"the user seems to write {max(asked, key=asked.__getitem__)}"
        explanation = f"{told}, the agent {max(used, key=used.__getitem__)}"
        return Score(value=float(same), label="same" if same else "other", explanation=explanation)

    return same_language


def _prose(text: str) -> str:
    """Return the beginning of a text without code blocks, links, and words with digits or signs of code."""
    outside_code = text[:_READ].split("```")[::2]
    words = (_word(token) for part in outside_code for token in part.split())
    return " ".join(word for word in words if word)[:_MAX]


def _word(token: str) -> str:
    """Return a token if it is a word, or the letters of a sentence in a script without blanks."""
    if _NOT_OF_WORDS.search(token) is None:
        return token
    if len(token) > _LONGEST_WORD and not token.isascii():
        return " ".join(_NOT_OF_WORDS.sub(" ", token).split())
    return ""


def _letters(text: str) -> int:
    return sum(4 if char >= "\u3040" else 1 for char in text if char.isalpha())


@cache
def _identifier(languages: tuple[str, ...]) -> Any:
    library = extra_library("py3langid.langid", "same_language")
    identifier = library.LanguageIdentifier.from_model_file(library.MODEL_FILE, norm_probs=True)
    if languages:
        try:
            identifier.set_languages(list(languages))
        except ValueError as error:
            raise ConfigError("same_language.languages", str(error)) from error
    return identifier
