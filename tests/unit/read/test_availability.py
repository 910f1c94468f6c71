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


def answer(facts: Facts) -> Availability:
    """The rules in words, by what is known first."""
    if facts.text:
        return CUT if facts.recorded is CUT or facts.ended == "cut" else PRESENT
    if facts.ended == "waiting":
        return UNKNOWN
    if facts.ended == "refused" and (facts.recorded is EMPTY or facts.other):
        return REFUSED
    if facts.recorded in (EMPTY, CUT, OFF):
        return facts.recorded  # type: ignore[return-value]
    return UNKNOWN if facts.ended == "failed" or facts.other or not facts.model else OFF


def question(facts: Facts) -> Availability:
    if facts.text:
        return CUT if facts.recorded is CUT else PRESENT
    if facts.recorded in (EMPTY, CUT, OFF):
        return facts.recorded  # type: ignore[return-value]
    never_was = facts.ended == "failed" or facts.recorded is PRESENT or not facts.model
    return UNKNOWN if never_was else OFF


@pytest.mark.parametrize(("side", "rules"), [("output", answer), ("input", question)])
def test_each_cell_of_the_table(side: Any, rules: Any) -> None:
    assert {cell: decide(side, cell) for cell in CELLS} == {cell: rules(cell) for cell in CELLS}
    assert len(CELLS) == 200
