"""Small yes-or-no checks of an answer and of the tools used."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from otel_evals._internal.model import NotScored, Run, Score
from otel_evals._internal.scorers.bounds import pattern_search, unreadable
from otel_evals._internal.scorers.content_similarity import bigram_similarity
from otel_evals._internal.scorers.tool_errors import has_failed
from otel_evals._internal.scoring.scorer import FunctionScorer, scorer
from otel_evals.errors import ConfigError

__all__ = [
    "called_tool",
    "did_not_call",
    "equals",
    "excludes",
    "includes",
    "matches",
    "max_tool_calls",
    "no_tool_errors",
    "similarity",
    "tool_order",
    "used_no_tools",
]


def includes(text: str, *, ignore_case: bool = True, id: str = "includes") -> FunctionScorer:
    """Whether the answer contains a text.

    Raises:
        ConfigError: the text is empty.
    """
    wanted = _folded(_not_empty(id, text), ignore_case)
    return _of_answer(id, lambda answer: wanted in _folded(answer, ignore_case))


def excludes(text: str, *, ignore_case: bool = True, id: str = "excludes") -> FunctionScorer:
    """Whether the answer does not contain a text.

    Raises:
        ConfigError: the text is empty.
    """
    unwanted = _folded(_not_empty(id, text), ignore_case)
    return _of_answer(id, lambda answer: unwanted not in _folded(answer, ignore_case))


def equals(text: str, *, ignore_case: bool = True, id: str = "equals") -> FunctionScorer:
    """Whether the answer is a text, blanks included."""
    wanted = _folded(text, ignore_case)
    return _of_answer(id, lambda answer: wanted == _folded(answer, ignore_case))


def matches(pattern: str | re.Pattern[str], *, exact: bool = False, id: str = "matches") -> FunctionScorer:
    """Whether a regular expression matches somewhere in the answer, or all of it if `exact`.

    The search is given up, as a failure of type TimeoutError, after a second: some patterns take exponential
    time on some texts. Needs the `text` extra.

    Raises:
        ConfigError: the pattern is no regular expression, or the regex library is not installed.
    """
    find = pattern_search(f"{id}.pattern", pattern, whole=exact)
    return _of_answer(id, lambda answer: find(answer) is not None, inline=False)


def similarity(expected: str, *, threshold: float | None = None, id: str = "similarity") -> FunctionScorer:
    """How alike the answer and a text are, as content_similarity; with a threshold, whether enough so.

    Raises:
        ConfigError: the threshold is not within 0..1.
    """
    if threshold is not None and not 0 <= threshold <= 1:
        raise ConfigError(f"{id}.threshold", f"must lie within 0..1, not {threshold!r}")

    def judge(answer: str) -> float | bool:
        alike = bigram_similarity(expected, answer)
        return alike if threshold is None else alike >= threshold

    return _of_answer(id, judge, inline=False)


def called_tool(name: str, *, times: int = 1, id: str = "called_tool") -> FunctionScorer:
    """Whether a tool was called, at least so many times."""
    return _of_calls(id, lambda names: names.count(name) >= times)


def did_not_call(name: str, *, id: str = "did_not_call") -> FunctionScorer:
    """Whether a tool was never called."""
    return _of_calls(id, lambda names: name not in names)


def tool_order(names: Sequence[str], *, id: str = "tool_order") -> FunctionScorer:
    """Whether tools were called in this order; other calls may stand between.

    Raises:
        ConfigError: there are no names.
    """
    if isinstance(names, str) or not names:
        raise ConfigError(f"{id}.names", "must be a list with at least one tool name")
    wanted = tuple(names)

    def judge(called: list[str]) -> bool:
        rest = iter(called)
        return all(name in rest for name in wanted)

    return _of_calls(id, judge)


def max_tool_calls(most: int, *, id: str = "max_tool_calls") -> FunctionScorer:
    """Whether tools were called at most so many times in all."""
    return _of_calls(id, lambda names: len(names) <= most)


def used_no_tools(*, id: str = "used_no_tools") -> FunctionScorer:
    """Whether no tool was called."""
    return _of_calls(id, lambda names: not names)


def no_tool_errors(*, id: str = "no_tool_errors") -> FunctionScorer:
    """Whether no tool call failed; tool_error_rate says how many did."""

    @scorer(id=id, inline=True)
    def no_tool_errors(run: Run) -> bool:
        """Whether no tool call failed."""
        return not any(has_failed(call) for call in run.tool_calls)

    return no_tool_errors


def _of_answer(id: str, judge: Callable[[str], bool | float], inline: bool = True) -> FunctionScorer:
    @scorer(id=id, inline=inline)
    def check(run: Run) -> bool | float | Score | NotScored:
        """Check the answer."""
        return unreadable(run, "output") or judge(run.output or "")

    return check


def _of_calls(id: str, judge: Callable[[list[str]], bool]) -> FunctionScorer:
    @scorer(id=id, inline=True)
    def check(run: Run) -> bool:
        """Check the names of the tools that were called."""
        return judge([call.name for call in run.tool_calls])

    return check


def _folded(text: str, ignore_case: bool) -> str:
    return text.casefold() if ignore_case else text


def _not_empty(id: str, text: str) -> str:
    if not text:
        raise ConfigError(f"{id}.text", "must not be empty: every answer contains nothing")
    return text
