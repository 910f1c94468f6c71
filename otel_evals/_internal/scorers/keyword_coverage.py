"""The share of the user's keywords that the answer contains. Code only."""

from __future__ import annotations

from collections.abc import Collection

from otel_evals._internal.model import NotScored, Run, Score, StepRecord
from otel_evals._internal.scorers.bounds import Reference, check_reference, compared
from otel_evals._internal.scorers.extras import extra_library
from otel_evals._internal.scoring.scorer import FunctionScorer, scorer

_PUNCTUATION = str.maketrans("", "", '.,;!?():"\u201c\u201d')
_NOTHING = frozenset("_@&#")
_MAX_NAMED = 10
_MOST = 100_000
_LONGEST_WORD = 10_000


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
    check_reference("keyword_coverage", reference)
    ignored = frozenset(stop_words) if stop_words is not None else _smart_stop_words()

    @scorer(id="keyword_coverage")
    def keyword_coverage(run: Run) -> Score | NotScored:
        texts = compared(run, reference, _MOST)
        if isinstance(texts, NotScored):
            return texts
        wanted = keywords(texts[0], ignored)
        if not wanted:
            return NotScored(reason="no_keywords", explanation=f"the {reference} holds no keyword")
        return _score(wanted, keywords(texts[1], ignored))

    return keyword_coverage


def keywords(text: str, stop_words: Collection[str]) -> list[str]:
    """Return the distinct keywords of a text, in order."""
    found: dict[str, None] = {}
    for token in _without_tags(text).split():
        is_word = len(token) <= _LONGEST_WORD and not token.startswith(("http://", "https://"))
        word = token.translate(_PUNCTUATION) if is_word else token
        word = word.strip("'\u2018\u2019*`~").lower()
        if word and word not in _NOTHING and not word.isdigit() and word not in stop_words:
            found[word] = None
    return list(found)


def _without_tags(text: str) -> str:
    """Remove tags, from `<` to the next `>`, in one pass."""
    parts, kept, start = [], 0, text.find("<")
    while start >= 0 and (end := text.find(">", start + 2)) >= 0:
        following = start + 1
        if text[following] != ">":
            parts.append(text[kept:start])
            following = kept = end + 1
        start = text.find("<", following)
    return "".join([*parts, text[kept:]])


def _smart_stop_words() -> frozenset[str]:
    return frozenset(extra_library("RAKE", "keyword_coverage").SmartStopList())


def _score(wanted: list[str], given: list[str]) -> Score:
    covered = frozenset(given)
    lost = [word for word in wanted if word not in covered]
    matched = len(wanted) - len(lost)
    named = f"; missing: {', '.join(lost[:_MAX_NAMED])}" if lost else ""
    return Score(
        value=matched / len(wanted),
        explanation=f"{matched} of {len(wanted)} keywords covered{named}",
        steps=(StepRecord(name="preprocess", result={"wanted": wanted, "given": given}),),
    )
