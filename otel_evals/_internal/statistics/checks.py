"""Checks of numbers from outside; the messages name the field."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import fields
from typing import Any

# Beyond it, the square of a weight would leave the range of a double.
_LARGEST_WEIGHT = 1e100


def check_weight(w: float) -> float:
    """Return the weight, which must be 0 or one over a probability."""
    if w != 0.0 and not 1.0 <= w <= _LARGEST_WEIGHT:
        raise ValueError(f"w: must be 0, or one over a probability, so at least 1, not {w!r}")
    return w


def check_numbers(record: Any, *, signed: Collection[str] = ()) -> None:
    """Raise ValueError unless all fields of a dataclass are finite numbers; only `signed` may be below zero.

    None is allowed where it is the default; `n` and `unknown` must be whole numbers.
    """
    for each in fields(record):
        value = getattr(record, each.name)
        if value is not None or each.default is not None:
            check_number(each.name, value, signed=each.name in signed, whole=each.name in ("n", "unknown"))


def check_number(name: str, value: Any, *, signed: bool, whole: bool = False) -> None:
    """Raise ValueError unless this is a finite number, at least 0 if not `signed`, whole if `whole`."""
    kind = "a whole number" if whole else "a finite number"
    allowed = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
    if not allowed or not math.isfinite(value):
        raise ValueError(f"{name}: must be {kind}, not {value!r}")
    if value < 0 and not signed:
        raise ValueError(f"{name}: must not be below zero, not {value!r}")
