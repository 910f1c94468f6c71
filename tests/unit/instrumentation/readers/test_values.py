"""JSON that a limit has cut off."""

from __future__ import annotations

from typing import Any

import pytest

from otel_evals_instrumentation._internal.readers.values import parse_or_repair


@pytest.mark.parametrize(
    ("cut", "whole"),
    [
        ('{"boat": "re', {"boat": "re"}),
        ('{"boat": "red", "da', {"boat": "red"}),
        ('{"boat": "red", "day"', {"boat": "red"}),
        ('{"boat": "red", "day": ', {"boat": "red"}),
        ('{"boat": "red", "price": 12', {"boat": "red"}),
        ('{"boat": "red", "free": tru', {"boat": "red"}),
        ('{"bo', {}),
        ('{"price": 12', {}),
        ('{"boat": {"name": "red"}, "da', {"boat": {"name": "red"}}),
        ('{"boat": {"price": 1', {"boat": {}}),
        ('[{"boat": "red"}, {"boat": "bl', [{"boat": "red"}, {"boat": "bl"}]),
        ('[{"boat": "red"}, {"bo', [{"boat": "red"}, {}]),
        ("[1, 22, 3", [1, 22]),
        ('[{"boat": "red"}', [{"boat": "red"}]),
    ],
)
def test_json_that_was_cut_off_gives_what_was_whole(cut: str, whole: Any) -> None:
    """No key without a value, no value that was not recorded, and no number that may have gone on."""
    assert parse_or_repair(cut) == (whole, True)
