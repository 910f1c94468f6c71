"""Sentences of customers and the agent, from `phrases.yaml`."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import yaml

_PHRASES: dict[str, Any] = yaml.safe_load(files(__package__).joinpath("phrases.yaml").read_text("utf-8"))

OPENINGS: list[str] = _PHRASES["openings"]
QUESTIONS: dict[str, list[str]] = _PHRASES["questions"]
FOLLOW_UPS: dict[str, list[str]] = _PHRASES["follow_ups"]
ANSWERS: dict[str, list[str]] = _PHRASES["answers"]
CLOSINGS: list[str] = _PHRASES["closings"]
APOLOGIES: list[str] = _PHRASES["apologies"]
DODGES: list[str] = _PHRASES["dodges"]
OFF_TOPIC: list[str] = _PHRASES["off_topic"]
