"""Consistency of an answer's tone. Code only."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.metadata import distribution
from pathlib import Path
from statistics import fmean, pvariance

from otel_evals._internal.model import NotScored, Run, Score
from otel_evals._internal.scorers.bounds import unreadable
from otel_evals._internal.scorers.kit.scorer import FunctionScorer, scorer
from otel_evals._internal.util.installed import extra
from otel_evals.errors import ConfigError

_NEGATIONS = frozenset("cant can't dont don't doesnt doesn't not non wont won't isnt isn't".split())  # noqa: SIM905
_MOST = 100_000
_MARKS = str.maketrans(dict.fromkeys('./,#!?$%^&*;:{}=_`"~()', " "))
_SENTENCE = re.compile(r"(?<![.!?])[.!?]+(?:\s+|$)|[\u3002\uff01\uff1f]+\s*")


def tone_consistency(*, reference_tone: str | None = None) -> FunctionScorer:
    """Evenness of the sentiment of an answer's sentences, or its similarity to a sample's sentiment.

    A text's tone is the mean valence of its words, each -5 to 5 by the AFINN-165 list of English words and
    negated after a negation.

    Range: 0..1, higher is more consistent.
    Formula: 1 - the population variance of the sentences' tones; with `reference_tone`, 1 - abs(tone of the
    answer - tone of the sample); never below 0.
    Source: the tone scorer of Mastra's evals, which loses the text after the last full stop; emoji are not
    judged here.
    Needs: the output; the `text` extra.
    Not scored: `no_words` if the answer has none; `output_not_recorded`, `output_captured_off`.
    Cost: none; microseconds.

    Raises:
        ConfigError: the sample has no words, or the word list is not installed.
    """
    valences = _afinn()
    if reference_tone is not None and not _words(reference_tone):
        raise ConfigError("tone_consistency.reference_tone", "must be a text with words")
    aim = None if reference_tone is None else _tone(reference_tone, valences)

    @scorer(id="tone_consistency")
    def tone_consistency(run: Run) -> Score | NotScored:
        absent = unreadable(run, "output", most=_MOST)
        if absent is not None:
            return absent
        sentences = [part for part in _SENTENCE.split(run.output or "") if _words(part)]
        if not sentences:
            return NotScored(reason="no_words", explanation="the answer has no words")
        if aim is not None:
            tone = _tone(run.output or "", valences)
            explanation = f"tone {tone:.2f}, the sample's {aim:.2f}"
            return Score(value=max(0.0, 1 - abs(tone - aim)), explanation=explanation)
        tones = [_tone(sentence, valences) for sentence in sentences]
        spread = pvariance(tones)
        explanation = f"{len(tones)} sentences; mean tone {fmean(tones):.2f}, variance {spread:.2f}"
        return Score(value=max(0.0, 1 - spread), explanation=explanation)

    return tone_consistency


def _words(text: str) -> list[str]:
    return text.lower().replace("\u2019", "'").translate(_MARKS).split()


def _tone(text: str, valences: Mapping[str, int]) -> float:
    """Return the mean valence of a text's words, -5 to 5."""
    words = _words(text)
    # The sign of a word depends on the word before it, so the list begins one word earlier.
    signs = [1, *(-1 if word in _NEGATIONS else 1 for word in words)]
    return sum(sign * valences.get(word, 0) for sign, word in zip(signs, words, strict=False)) / len(words)


@cache
def _afinn() -> Mapping[str, int]:
    """Read the word list of the afinn package without importing it: its module warns on current Pythons."""
    with extra("text", "tone_consistency"):
        path = distribution("afinn").locate_file("afinn/data/AFINN-en-165.txt")
    lines = Path(str(path)).read_text(encoding="utf-8").splitlines()
    return {word: int(valence) for word, valence in (line.split("\t") for line in lines if line)}
