"""Compares the language of the answer with the user's. Code only."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cache
from typing import Any

from otel_evals._internal.model import NotScored, Run, Score
from otel_evals._internal.scorers.extras import extra_library
from otel_evals._internal.scoring.scorer import FunctionScorer, missing, scorer
from otel_evals.errors import ConfigError

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
    if codes:
        _identifier(codes)

    @scorer(id="same_language")
    def same_language(run: Run) -> Score | NotScored:
        if (absent := missing(run, "input", "output")) is not None:
            return absent
        said, answer = (_prose(text or "") for text in (run.input, run.output))
        if min(_letters(said), _letters(answer)) < min_letters:
            return NotScored(reason="too_short", explanation="too few words to tell the language")
        identifier = _identifier(codes)
        asked, used = (dict(identifier.rank(text)) for text in (said, answer))
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
