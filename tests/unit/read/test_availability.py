"""The table that decides the availability of question and answer, cell by cell."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from otel_evals._internal.read.availability import Facts, decide
from otel_evals.model import Availability

PRESENT, EMPTY, REFUSED = Availability.PRESENT, Availability.EMPTY, Availability.REFUSED
CUT, OFF, UNKNOWN = Availability.TRUNCATED, Availability.CAPTURED_OFF, Availability.NOT_RECORDED
RECORDED = (None, PRESENT, EMPTY, CUT, OFF)
ENDINGS = ("answered", "refused", "cut", "failed", "waiting")
CELLS = [Facts(*cell) for cell in product((True, False), RECORDED, (True, False), ENDINGS, (True, False))]


# The first row that matches counts; None is any value.
ANSWER = (
    # text, recorded, other, ended, model -> availability
    ((True, CUT, None, None, None), CUT),
    ((True, None, None, "cut", None), CUT),
    ((True, None, None, None, None), PRESENT),
    ((False, None, None, "waiting", None), UNKNOWN),
    ((False, EMPTY, None, "refused", None), REFUSED),
    ((False, None, True, "refused", None), REFUSED),
    ((False, EMPTY, None, None, None), EMPTY),
    ((False, CUT, None, None, None), CUT),
    ((False, OFF, None, None, None), OFF),
    ((False, None, None, "failed", None), UNKNOWN),
    ((False, None, True, None, None), UNKNOWN),
    ((False, None, None, None, False), UNKNOWN),
    ((False, None, None, None, None), OFF),
)
QUESTION = (
    ((True, CUT, None, None, None), CUT),
    ((True, None, None, None, None), PRESENT),
    ((False, EMPTY, None, None, None), EMPTY),
    ((False, CUT, None, None, None), CUT),
    ((False, OFF, None, None, None), OFF),
    ((False, None, None, "failed", None), UNKNOWN),
    ((False, None, None, None, False), UNKNOWN),
    ((False, PRESENT, None, None, None), UNKNOWN),
    ((False, None, None, None, None), OFF),
)


def matches(row: Any, facts: Facts) -> bool:
    return all(wanted in (None, fact) for wanted, fact in zip(row, facts, strict=True))


@pytest.mark.parametrize(("side", "rows"), [("output", ANSWER), ("input", QUESTION)])
def test_each_combination_of_facts_is_decided(side: Any, rows: Any) -> None:
    for cell in CELLS:
        assert decide(side, cell) is next(state for row, state in rows if matches(row, cell)), cell
