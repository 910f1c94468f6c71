"""A rule's `review`: the scores whose runs a person should review, as text."""

from __future__ import annotations

import math
import operator
import re
from dataclasses import dataclass
from typing import Any

from otel_evals.errors import ConfigError

_FORM = re.compile(r"\s*score\s*(<=|>=|<|>)\s*([-+.\deE]+)\s*")
_COMPARE = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


@dataclass(frozen=True, slots=True)
class ReviewCondition:
    """Compares scores with a limit."""

    sign: str
    limit: float

    def __call__(self, value: float) -> bool:
        """Return True if the run of this score should be reviewed."""
        return bool(_COMPARE[self.sign](value, self.limit))

    def __str__(self) -> str:
        return f"score {self.sign} {self.limit:g}"


def review_text(value: Any) -> Any:
    """Return a text such as `score < 0.5` in its usual spelling; other values are returned as they are."""
    return str(review_condition(value)) if isinstance(value, str) else value


def review_condition(value: str) -> ReviewCondition:
    """Parse a text such as `score < 0.5`."""
    found = _FORM.fullmatch(value)
    try:
        limit = float(found[2]) if found else math.nan
    except ValueError:
        limit = math.nan
    if found is None or not math.isfinite(limit):
        raise ConfigError(
            "review", f"must compare the score with a number, not {value!r:.60}; fix: score < 0.5"
        )
    return ReviewCondition(found[1], limit)
