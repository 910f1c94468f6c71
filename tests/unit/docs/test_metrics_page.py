"""docs/attachment.md tells every instrument there is, with its unit, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from otel_evals import semconv

PAGE = (Path(__file__).parents[3] / "docs" / "attachment.md").read_text(encoding="utf-8")


def test_every_instrument_is_told_once() -> None:
    told = re.findall(r"^\| `(otel_evals\.[a-z_.]+)` \|", PAGE, re.M)
    names = [value for name, value in vars(semconv).items() if name.startswith("METRIC_")]
    assert sorted(told) == sorted(names)
