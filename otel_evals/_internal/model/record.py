"""What the model's records have in common: they are frozen structs, which are made in C."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

_NOTHING: Mapping[str, Any] = {}


def nothing() -> Mapping[str, Any]:
    """An empty mapping, shared by every record that has nothing to tell."""
    return _NOTHING


class Record(msgspec.Struct, frozen=True, gc=False):
    """Base of the model's records; `msgspec.structs` has `replace`, `asdict` and `fields` for them.

    The garbage collector does not look at them: they hold what was made before them, so that no record is
    part of a cycle, and many wait at a time.
    """
