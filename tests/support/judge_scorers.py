"""All scorers that ask a judge, and options that some of them need."""

from __future__ import annotations

import inspect
from typing import Any

import otel_evals.scorers as built_in

__all__ = ["JUDGE_OPTIONS", "judge_scorers"]

JUDGE_OPTIONS: dict[str, dict[str, Any]] = {
    "classifier": {"question": "Is it so?", "classes": {"yes": 1.0, "no": 0.0}},
    "multi_turn_judge": {"criterion": "It is so."},
    "noise_sensitivity": {"baseline_response": "so", "noisy_query": "so?"},
    "rubric": {"criteria": lambda run: [run.input]},
    "trajectory_judge": {"expected_steps": ["a"]},
}


def judge_scorers() -> list[str]:
    """By their first parameter."""
    made = {name: list(inspect.signature(getattr(built_in, name)).parameters) for name in built_in.__all__}
    return sorted(name for name, parameters in made.items() if parameters[:1] == ["model"])
