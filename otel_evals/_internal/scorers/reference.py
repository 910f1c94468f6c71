"""The reference text of code scorers: the user's words, or the expected answer."""

from __future__ import annotations

import json
from typing import Literal

from otel_evals._internal.model import NotScored, Run
from otel_evals._internal.scorers.bounds import MAX_CHARS, composed, unreadable
from otel_evals.errors import ConfigError

Reference = Literal["input", "ground_truth"]


def check_reference(scorer_id: str, reference: str) -> None:
    if reference not in ("input", "ground_truth"):
        raise ConfigError(f"{scorer_id}.reference", f"must be input or ground_truth, not {reference!r}")


def compared(run: Run, reference: Reference, most: int = MAX_CHARS) -> tuple[str, str] | NotScored:
    """Return the reference and the answer in normal form C, or the reason why one cannot be read."""
    absent = unreadable(run, reference, "output", most=most)
    if absent is not None:
        return absent
    expected = whole_text(getattr(run, reference))
    if len(expected) > most:
        return NotScored(reason=f"{reference}_too_long", explanation=f"more than {most} characters")
    return composed(expected), composed(run.output or "")


def whole_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
