"""Prompt injection attacks on judges: texts that an agent's answer, its user or a tool might contain.

They are for tests and for `otel-evals judge check`. None can break the prompt's structure, since judged text
never leaves its fence; whether a model follows the words is what a check measures.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

_FILLER = "The warehouse keeps its shelves in numbered rows, and each row has a label in blue. "


@dataclass(frozen=True, slots=True)
class Attack:
    """One attempt."""

    family: str
    text: str


@cache
def load_attacks() -> tuple[Attack, ...]:
    """The whole corpus, family by family."""
    families = tomllib.loads(
        files("otel_evals._internal.offline").joinpath("attacks.toml").read_text("utf-8")
    )
    return tuple(Attack(name, _filled(text)) for name, family in families.items() for text in family["texts"])


def _filled(text: str) -> str:
    """`{filler*40}` stands for forty neutral sentences."""
    return re.sub(r"\{filler\*(\d+)\}", lambda match: _FILLER * int(match[1]), text)
