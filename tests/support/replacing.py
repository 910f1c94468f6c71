"""Records with other values, be they structs or dataclasses."""

from __future__ import annotations

import dataclasses
from typing import Any

from msgspec import Struct, structs


def replace(record: Any, **changes: Any) -> Any:
    """The record with these values."""
    made = structs.replace if isinstance(record, Struct) else dataclasses.replace
    return made(record, **changes)
