"""Similarity of two texts by their character pairs. Code only."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from otel_evals._internal.model import NotScored, Run, Score
from otel_evals._internal.scorers.bounds import Reference, batches, check_reference, compared
from otel_evals._internal.scoring.scorer import FunctionScorer, scorer


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
    check_reference("content_similarity", reference)

    @scorer(id="content_similarity")
    def content_similarity(run: Run) -> Score | NotScored:
        texts = compared(run, reference)
        if isinstance(texts, NotScored):
            return texts
        return Score(value=bigram_similarity(*texts, ignore_case, ignore_whitespace))

    return content_similarity


def bigram_similarity(
    first: str, second: str, ignore_case: bool = True, ignore_whitespace: bool = True
) -> float:
    """Return the Sorensen-Dice coefficient of two texts' character pairs, 0 to 1."""
    if ignore_case:
        first, second = first.lower(), second.lower()
    if ignore_whitespace:
        first, second = "".join(first.split()), "".join(second.split())
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
