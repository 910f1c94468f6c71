"""The share of the question's elements that the answer covers. Code only."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable

from otel_evals._internal.model import NotScored, Run, Score, StepRecord
from otel_evals._internal.scorers.bounds import Reference, check_reference, compared
from otel_evals._internal.scorers.extras import extra_library
from otel_evals._internal.scoring.scorer import FunctionScorer, scorer
from otel_evals.errors import ConfigError

_EXACT = 3
_SIMILAR = 0.6
_MAX_NAMED = 10
_WORD = re.compile(r"[^\W_]+(?:'[^\W\d_]+)?")
_LONGEST_WORD = 64
_MOST_CHARS = 100_000
_MOST_ELEMENTS = 2_000


def completeness(*, reference: Reference = "input", language: str = "en") -> FunctionScorer:
    """The share of a reference text's elements that the answer covers.

    An element is a distinct word in its base form (`jumps` is `jump`, `is` is `be`), without accents and
    case, of any script. An element of up to three letters is covered by the same element; a longer one also
    by an element that contains it or that it contains, if the shorter has over 60% of the longer's letters.

    Range: 0..1, higher is better. Formula: covered elements / elements of the reference.
    Source: the completeness scorer of Mastra's evals, which drops all letters but a to z and so calls every
    text in another script complete; base forms come from another lemmatiser here.
    Needs: the input (or the ground truth) and the output; the `text` extra. `language` is an ISO 639-1 code
    supported by simplemma.
    Not scored: `no_elements` if the reference has no word; `input_not_recorded`, `output_not_recorded`,
    `ground_truth_not_recorded` and their `_captured_off` forms.
    Cost: none; under a millisecond, once the language's dictionary is read (half a second).

    Raises:
        ConfigError: an unknown reference or language, or simplemma is not installed.
    """
    check_reference("completeness", reference)
    lemma = lemmatiser(language)

    @scorer(id="completeness")
    def completeness(run: Run) -> Score | NotScored:
        texts = compared(run, reference, _MOST_CHARS)
        if isinstance(texts, NotScored):
            return texts
        wanted, given = (elements(text, lemma) for text in texts)
        if max(len(wanted), len(given)) > _MOST_ELEMENTS:
            explanation = f"{len(wanted)} and {len(given)} elements; at most {_MOST_ELEMENTS} are compared"
            return NotScored(reason="too_many_elements", explanation=explanation)
        if not wanted:
            return NotScored(reason="no_elements", explanation=f"the {reference} has no word")
        lost = uncovered(wanted, given)
        named = f"; missing: {', '.join(lost[:_MAX_NAMED])}" if lost else ""
        return Score(
            value=coverage(wanted, given),
            explanation=f"{len(wanted) - len(lost)} of {len(wanted)} elements covered{named}",
            steps=(StepRecord(name="preprocess", result={"wanted": wanted, "given": given}),),
        )

    return completeness


def elements(text: str, lemma: Callable[[str], str]) -> list[str]:
    """Return the distinct base forms of a text's words, in order."""
    words = (match[0] for match in _WORD.finditer(text.replace("\u2019", "'")))
    folded = (_without_accents(_lemma(word.lower(), lemma)) for word in words)
    return list(dict.fromkeys(part for word in folded for part in re.findall(r"[^\W_]+", word)))


def _lemma(word: str, lemma: Callable[[str], str]) -> str:
    return lemma(word) if len(word) <= _LONGEST_WORD else word


def coverage(wanted: Collection[str], given: Iterable[str]) -> float:
    """Return the share of covered elements, 0 to 1; `wanted` must not be empty."""
    return 1 - len(uncovered(wanted, given)) / len(wanted)


def uncovered(wanted: Iterable[str], given: Iterable[str]) -> list[str]:
    known = frozenset(given)
    return [word for word in wanted if word not in known and not _resembles_one_of(word, known)]


def _resembles_one_of(word: str, known: Iterable[str]) -> bool:
    if len(word) <= _EXACT:
        return False
    return any(
        (short in long) and len(short) > _SIMILAR * len(long)
        for short, long in (sorted((word, other), key=len) for other in known)
    )


def _without_accents(word: str) -> str:
    decomposed = unicodedata.normalize("NFD", word)
    return unicodedata.normalize("NFC", re.sub("[\u0300-\u036f]", "", decomposed)).lower()


def lemmatiser(language: str) -> Callable[[str], str]:
    """Return a function from a word to its base form, for an ISO 639-1 code."""
    simplemma = extra_library("simplemma", "completeness")
    known = extra_library("simplemma.strategies.dictionaries.dictionary_factory", "completeness")
    if language not in known.SUPPORTED_LANGUAGES:
        raise ConfigError("completeness.language", f"simplemma knows no language {language!r}")

    def lemma(word: str) -> str:
        return str(simplemma.lemmatize(word, lang=language))

    return lemma
