"""Every case of every convention, and of situations that several products share, is read as it says.

`cases/` has a file for each convention, `situations/` one for each situation, with two products at least;
`../read/` has what is the same in every convention.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.convention_cases import check, load

FOLDER = Path(__file__).parent
FILES = sorted(
    path
    for place in (FOLDER / "cases", FOLDER / "situations", FOLDER.parent / "read")
    for path in place.glob("*.yaml")
)
CASES = [(path, case) for path in FILES for case in load(path)]


@pytest.mark.parametrize(
    "case", [case for _, case in CASES], ids=[f"{p.stem}: {c['name']}" for p, c in CASES]
)
def test_it_is_read(case: dict[str, Any]) -> None:
    check(case)


def test_every_convention_has_cases() -> None:
    from otel_evals.conventions import load_conventions

    without = {convention.name for convention in load_conventions()} - {path.stem for path in FILES}
    assert without == set(), f"add tests/unit/instrumentation/cases/{min(without, default='')}.yaml"
