"""Many monitors that share one budget of false alarms."""

from __future__ import annotations

import math
from collections.abc import Sequence


def shared_threshold(level: float, monitors: int) -> float:
    """The e-value from which one of several monitors raises an alarm: K / a (Bonferroni).

    The probability of any false alarm among all of them is then at most the level.

    Args:
        level: a, between 0 and 1.
        monitors: K, how many share it; at least 1.

    Raises:
        ValueError: an argument is out of range.
    """
    if not 0.0 < level < 1.0:
        raise ValueError(f"level: must be between 0 and 1, not {level!r}")
    if monitors < 1:
        raise ValueError(f"monitors: must be at least 1, not {monitors!r}")
    return monitors / level


def e_bh(e_values: Sequence[float], level: float) -> list[int]:
    """Which of many e-values to list, so that at most this share of the listed is false on average.

    The k largest, for the largest k at which the k-th is at least K / (k a); valid whatever depends on what
    (e-BH: Wang, Ramdas 2022).

    Args:
        e_values: one for each monitor, at least 0.
        level: a, the false discovery rate, between 0 and 1.

    Returns:
        Their indices, largest e-value first.

    Raises:
        ValueError: an argument is out of range; the message says which.
    """
    if not e_values:
        return []
    for index, e_value in enumerate(e_values):
        if math.isnan(e_value) or e_value < 0.0:
            raise ValueError(f"e_values[{index}]: must be at least 0, not {e_value!r}")
    threshold = shared_threshold(level, len(e_values))
    order = sorted(range(len(e_values)), key=lambda index: -e_values[index])
    listed = max((k for k, i in enumerate(order, start=1) if e_values[i] * k >= threshold), default=0)
    return order[:listed]
