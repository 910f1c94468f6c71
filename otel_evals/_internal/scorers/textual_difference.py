"""Similarity of two texts by their longest common subsequence. Code only."""

from __future__ import annotations

from otel_evals._internal.model import NotScored, Run, Score
from otel_evals._internal.scorers.bounds import Reference, check_reference, compared
from otel_evals._internal.scorers.extras import extra_library
from otel_evals._internal.scoring.scorer import FunctionScorer, scorer

_MOST = 20_000
"""Characters of each text: the time grows with the product of the lengths."""


def textual_difference(*, reference: Reference = "input") -> FunctionScorer:
    """The share of the answer and a reference that is the same, in order, character by character.

    Despite its customary name, more is more alike. Likeness is no measure of quality: in some domains better
    answers are more alike, in others less.

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
    check_reference("textual_difference", reference)
    indel = extra_library("rapidfuzz.distance", "textual_difference").Indel

    @scorer(id="textual_difference")
    def textual_difference(run: Run) -> Score | NotScored:
        texts = compared(run, reference, _MOST)
        if isinstance(texts, NotScored):
            return texts
        left_out, total = indel.distance(*texts), sum(map(len, texts))
        return Score(
            value=1 - left_out / total,
            explanation=f"{left_out} of {total} characters stand in one text only",
        )

    return textual_difference
