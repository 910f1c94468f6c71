"""Comparisons of the answer with the question or the expected answer. Code only."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import pairwise

from otel_evals._internal.model import NotScored, Run, Score, StepRecord
from otel_evals._internal.scorers.bounds import (
    MAX_CHARS,
    Reference,
    batches,
    check_list,
    compared,
    extra_library,
)
from otel_evals._internal.scorers.kit.scorer import FunctionScorer, scorer
from otel_evals.errors import ConfigError

_MAX_NAMED = 10


def _comparison(
    id: str, reference: Reference, most: int, compare: Callable[[str, str], Score | NotScored]
) -> FunctionScorer:
    """Create a scorer from a function of the reference and the answer, each of at most `most` characters."""
    if reference not in ("input", "ground_truth"):
        raise ConfigError(f"{id}.reference", f"must be input or ground_truth, not {reference!r}")

    @scorer(id=id)
    def comparison(run: Run) -> Score | NotScored:
        texts = compared(run, reference, most)
        return texts if isinstance(texts, NotScored) else compare(*texts)

    return comparison


def _covered(what: str, wanted: Sequence[str], given: Sequence[str], lost: Sequence[str]) -> Score:
    """Return the share of the wanted words that are not lost."""
    matched = len(wanted) - len(lost)
    named = f"; missing: {', '.join(lost[:_MAX_NAMED])}" if lost else ""
    return Score(
        value=matched / len(wanted),
        explanation=f"{matched} of {len(wanted)} {what} covered{named}",
        steps=(StepRecord(name="preprocess", result={"wanted": wanted, "given": given}),),
    )


# --- characters ---


def content_similarity(
    *, reference: Reference = "input", ignore_case: bool = True, ignore_whitespace: bool = True
) -> FunctionScorer:
    """Similarity of the answer and a reference by the pairs of neighbouring characters they share.

    Likeness is no measure of quality: in some domains better answers are more alike, in others less.

    Range: 0..1, higher is more alike.
    Formula: the Sorensen-Dice coefficient of the two multisets of character pairs, 2 * shared / (pairs +
    pairs); 1 for equal texts, 0 if one has less than two characters.
    Source: the content similarity scorer of Mastra's evals, which always ignores whitespace.
    Needs: the input (or the ground truth) and the output.
    Not scored: `input_not_recorded`, `output_not_recorded`, `ground_truth_not_recorded` and their
    `_captured_off` forms; an empty text counts as not recorded.
    Cost: none; microseconds.

    Raises:
        ConfigError: an unknown reference.
    """

    def compare(expected: str, answer: str) -> Score:
        return Score(value=bigram_similarity(expected, answer, ignore_case, ignore_whitespace))

    return _comparison("content_similarity", reference, MAX_CHARS, compare)


def bigram_similarity(
    first: str, second: str, ignore_case: bool = True, ignore_whitespace: bool = True
) -> float:
    """Return the Sorensen-Dice coefficient of two texts' character pairs, 0 to 1."""
    if ignore_case:
        first, second = first.lower(), second.lower()
    if ignore_whitespace:
        first, second = "".join(first.split()), "".join(second.split())
    # Texts of one character have no pairs.
    if first == second:
        return 1.0
    if min(len(first), len(second)) < 2:
        return 0.0
    one, other = (_pairs(text) for text in (first, second))
    shared = sum(min(count, other[pair]) for pair, count in one.items() if pair in other)
    return 2 * shared / (len(first) + len(second) - 2)


def _pairs(text: str) -> Counter[tuple[str, str]]:
    counted: Counter[tuple[str, str]] = Counter()
    for batch in batches(pairwise(text)):
        counted.update(batch)
    return counted


_MOST_ALIGNED = 20_000
"""Characters of each text that `textual_difference` reads: its time grows with the product of the lengths."""


def textual_difference(*, reference: Reference = "input") -> FunctionScorer:
    """The share of the answer and a reference that is the same, in order, character by character.

    Likeness is no measure of quality: in some domains better answers are more alike, in others less.

    Range: 0..1, higher is more alike.
    Formula: 2 * LCS / (length + length), with LCS the length of the longest common subsequence of
    characters.
    Source: the textual difference scorer of Mastra's evals.
    Needs: the input (or the ground truth) and the output; the `text` extra.
    Not scored: `input_not_recorded`, `output_not_recorded`, `ground_truth_not_recorded` and their
    `_captured_off` forms; an empty text counts as not recorded.
    Cost: none; proportional to the product of the lengths, 1 ms for two texts of 10,000 characters.

    Raises:
        ConfigError: an unknown reference, or rapidfuzz is not installed.
    """
    # `compare` never divides by zero: `compared` refuses empty texts.
    indel = extra_library("rapidfuzz.distance", "textual_difference").Indel

    def compare(expected: str, answer: str) -> Score:
        left_out, total = indel.distance(expected, answer), len(expected) + len(answer)
        explanation = f"{left_out} of {total} characters stand in one text only"
        return Score(value=1 - left_out / total, explanation=explanation)

    return _comparison("textual_difference", reference, _MOST_ALIGNED, compare)


# --- keywords ---

_PUNCTUATION = str.maketrans("", "", '.,;!?():"\u201c\u201d')
_TAG = re.compile(r"<[^<>]+>")
_NOTHING = frozenset("_@&#")
_MOST_CHARS = 100_000
"""Characters of each text that is taken apart into words."""
_LONGEST_KEYWORD = 10_000


def keyword_coverage(
    *, reference: Reference = "input", stop_words: Collection[str] | None = None
) -> FunctionScorer:
    """The share of a reference text's keywords that the answer contains.

    The reference is the user's words or, in experiments, the expected answer. A keyword is a word between
    blanks, without punctuation, emphasis (`**`) and case, that is neither a number nor a stop word; there
    is no stemming, and scripts without blanks make one keyword of a phrase. By default, stop words are the
    571 English ones of the SMART system; pass your own for other languages. Covering the user's words is no
    measure of quality: in some domains better answers repeat more of them, in others fewer.

    Range: 0..1, higher covers more. Formula: matched keywords / keywords of the reference, each counted once.
    Source: the keyword coverage scorer of Mastra's evals, which scores 1 if there is nothing to cover.
    Needs: the input (or the ground truth) and the output. The `text` extra, unless `stop_words` is given.
    Not scored: `no_keywords` if the reference has only stop words and numbers; `input_not_recorded`,
    `output_not_recorded`, `ground_truth_not_recorded` and their `_captured_off` forms.
    Cost: none; microseconds.

    Raises:
        ConfigError: an unknown reference, or the stop-word list is not installed.
    """
    if stop_words is None:
        stop_words = extra_library("RAKE", "keyword_coverage").SmartStopList()
    ignored = frozenset(check_list("keyword_coverage.stop_words", stop_words))

    def compare(expected: str, answer: str) -> Score | NotScored:
        wanted, given = keywords(expected, ignored), keywords(answer, ignored)
        if not wanted:
            return NotScored(reason="no_keywords", explanation=f"the {reference} holds no keyword")
        known = frozenset(given)
        return _covered("keywords", wanted, given, [word for word in wanted if word not in known])

    return _comparison("keyword_coverage", reference, _MOST_CHARS, compare)


def keywords(text: str, stop_words: Collection[str]) -> list[str]:
    """Return the distinct keywords of a text, in order."""
    found: dict[str, None] = {}
    for token in _TAG.sub("", text).split():
        is_word = len(token) <= _LONGEST_KEYWORD and not token.startswith(("http://", "https://"))
        word = token.translate(_PUNCTUATION) if is_word else token
        word = word.strip("'\u2018\u2019*`~").lower()
        if word and word not in _NOTHING and not word.isdigit() and word not in stop_words:
            found[word] = None
    return list(found)


# --- elements ---

_EXACT = 3
_SIMILAR = 0.6
_WORD = re.compile(r"[^\W_]+(?:'[^\W\d_]+)?")
_LONGEST_WORD = 64
# Each wanted element may be compared with every given one.
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
    lemma = lemmatiser(language)

    def compare(expected: str, answer: str) -> Score | NotScored:
        wanted, given = elements(expected, lemma), elements(answer, lemma)
        if max(len(wanted), len(given)) > _MOST_ELEMENTS:
            explanation = f"{len(wanted)} and {len(given)} elements; at most {_MOST_ELEMENTS} are compared"
            return NotScored(reason="too_many_elements", explanation=explanation)
        if not wanted:
            return NotScored(reason="no_elements", explanation=f"the {reference} has no word")
        return _covered("elements", wanted, given, uncovered(wanted, given))

    return _comparison("completeness", reference, _MOST_CHARS, compare)


def elements(text: str, lemma: Callable[[str], str]) -> list[str]:
    """Return the distinct base forms of a text's words, in order."""
    words = (match[0].lower() for match in _WORD.finditer(text.replace("\u2019", "'")))
    forms = (lemma(word) if len(word) <= _LONGEST_WORD else word for word in words)
    folded = map(_without_accents, forms)
    return list(dict.fromkeys(part for word in folded for part in re.findall(r"[^\W_]+", word)))


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
    # This range has European accents; the vowel signs of Indian scripts are outside of it.
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
