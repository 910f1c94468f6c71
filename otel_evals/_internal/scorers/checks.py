"""Small yes-or-no checks of an answer and of the tools used. Code only.

Each scores 1 or 0, higher is better, with the label `true` or `false`, and costs microseconds. Rules need
distinct ids: give `id` if a check is used twice. Checks of the answer are not scored if it is missing
(`output_not_recorded`, `output_captured_off`, `output_empty`) or longer than 200,000 characters
(`output_too_long`). Source: the checks of Mastra's evals, which read all messages of the assistant; these
read the final answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from otel_evals._internal.model import NotScored, Run, Score
from otel_evals._internal.scorers.bounds import check_range, composed, pattern_search, unreadable
from otel_evals._internal.scorers.compared import bigram_similarity
from otel_evals._internal.scorers.kit.scorer import FunctionScorer, scorer
from otel_evals._internal.scorers.tool_use import has_failed, is_subsequence, tool_names
from otel_evals.errors import ConfigError


def includes(text: str, *, ignore_case: bool = True, id: str = "includes") -> FunctionScorer:
    """Check that the answer contains a text.

    Raises:
        ConfigError: the text is empty.
    """
    wanted = _folded(_not_empty(id, text), ignore_case)
    return _of_answer(id, lambda answer: wanted in _folded(answer, ignore_case))


def excludes(text: str, *, ignore_case: bool = True, id: str = "excludes") -> FunctionScorer:
    """Check that the answer does not contain a text.

    Raises:
        ConfigError: the text is empty.
    """
    unwanted = _folded(_not_empty(id, text), ignore_case)
    return _of_answer(id, lambda answer: unwanted not in _folded(answer, ignore_case))


def equals(text: str, *, ignore_case: bool = True, id: str = "equals") -> FunctionScorer:
    """Check that the answer is equal to a text, blanks included."""
    wanted = _folded(text, ignore_case)
    return _of_answer(id, lambda answer: wanted == _folded(answer, ignore_case))


def matches(pattern: str | re.Pattern[str], *, exact: bool = False, id: str = "matches") -> FunctionScorer:
    """Check that a regular expression matches a part of the answer, or all of it if `exact`.

    A search fails with a TimeoutError after a second: some patterns take exponential time on some texts.
    Needs the `text` extra.

    Raises:
        ConfigError: the pattern is no regular expression, or the regex library is not installed.
    """
    # The check is not inline, since a search may take a second.
    find = pattern_search(f"{id}.pattern", pattern, whole=exact)
    return _of_answer(id, lambda answer: find(answer) is not None, inline=False)


def similarity(expected: str, *, threshold: float | None = None, id: str = "similarity") -> FunctionScorer:
    """Compare the answer with a text, as content_similarity does; with a threshold, check the similarity.

    Raises:
        ConfigError: the threshold is not within 0..1.
    """
    if threshold is not None:
        check_range(f"{id}.threshold", threshold, 0.0, 1.0)

    # Not inline: comparing all pairs of characters of a long answer takes too long.
    def judge(answer: str) -> float | bool:
        alike = bigram_similarity(expected, answer)
        return alike if threshold is None else alike >= threshold

    return _of_answer(id, judge, inline=False)


def called_tool(name: str, *, times: int = 1, id: str = "called_tool") -> FunctionScorer:
    """Check that a tool was called at least `times` times."""
    return _of_calls(id, lambda names: names.count(name) >= times)


def did_not_call(name: str, *, id: str = "did_not_call") -> FunctionScorer:
    """Check that a tool was never called."""
    return _of_calls(id, lambda names: name not in names)


def tool_order(names: Sequence[str], *, id: str = "tool_order") -> FunctionScorer:
    """Check that tools were called in this order, with any other calls between them.

    Raises:
        ConfigError: `names` is empty or not a list.
    """
    wanted = tool_names(f"{id}.names", names)
    return _of_calls(id, lambda called: is_subsequence(wanted, called))


def max_tool_calls(most: int, *, id: str = "max_tool_calls") -> FunctionScorer:
    """Check that tools were called at most `most` times in total."""
    return _of_calls(id, lambda names: len(names) <= most)


def used_no_tools(*, id: str = "used_no_tools") -> FunctionScorer:
    """Check that no tool was called."""
    return _of_calls(id, lambda names: not names)


def no_tool_errors(*, id: str = "no_tool_errors") -> FunctionScorer:
    """Check that no tool call failed; tool_error_rate has their share."""

    @scorer(id=id, inline=True)
    def no_tool_errors(run: Run) -> bool:
        return not any(has_failed(call) for call in run.tool_calls)

    return no_tool_errors


def _of_answer(id: str, judge: Callable[[str], bool | float], inline: bool = True) -> FunctionScorer:
    @scorer(id=id, inline=inline)
    def check(run: Run) -> bool | float | Score | NotScored:
        return unreadable(run, "output") or judge(run.output or "")

    return check


def _of_calls(id: str, judge: Callable[[list[str]], bool]) -> FunctionScorer:
    @scorer(id=id, inline=True)
    def check(run: Run) -> bool:
        return judge([call.name for call in run.tool_calls])

    return check


def _folded(text: str, ignore_case: bool) -> str:
    text = composed(text)
    return text.casefold() if ignore_case else text


def _not_empty(id: str, text: str) -> str:
    if not text:
        raise ConfigError(f"{id}.text", "must not be empty: every answer contains the empty text")
    return text
