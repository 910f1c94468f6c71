"""Detects empty answers and refusals. Code only."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from otel_evals._internal.model import Availability, NotScored, Run, Score
from otel_evals._internal.model.finish_reasons import finish_reason
from otel_evals._internal.scorers.bounds import pattern_search
from otel_evals._internal.scoring.scorer import FunctionScorer, missing, scorer

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
    searches: list[Callable[[str], Any]] = [
        _REFUSALS.search,
        *(pattern_search(f"answered.refusals[{i}]", p, ignore_case=True) for i, p in enumerate(refusals)),
    ]

    @scorer(id="answered", inline=not refusals)
    def answered(run: Run) -> Score | NotScored:
        reasons = map(finish_reason, run.finish_reasons)
        refused = next((reason for reason in reasons if reason in _REFUSED), None)
        if refused is not None:
            return Score(value=0.0, label="refused", explanation=f"finish reason {refused}")
        if run.waiting:
            return _nothing(run)
        start = (run.output or "").lstrip()[:_START].rstrip()
        if not start:
            return _nothing(run)
        start = start.replace("\u2019", "'")
        said = next((m for search in searches if (m := search(start))), None)
        if said is not None:
            return Score(value=0.0, label="refused", explanation=f'it says "{said[0]}"')
        return Score(value=1.0, label="answered")

    return answered


def _nothing(run: Run) -> Score | NotScored:
    left_out = None if _is_known(run) else missing(run, "output")
    return left_out or Score(value=0.0, label="empty", explanation="the answer is empty")


def _is_known(run: Run) -> bool:
    if run.waiting:
        return False
    return run.output is not None or run.availability.get("output") in _RECORDED
