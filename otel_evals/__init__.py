"""Scores agent traffic live, where the OpenTelemetry traces are.

    import otel_evals
    from otel_evals import Rule, sampling
    from otel_evals.scorers import grounded_in_tools

    otel_evals.configure(rules=[Rule(grounded_in_tools(), sample=sampling.ratio(0.1))])

Everything here is loaded when it is first used, so importing this package costs next to nothing.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from otel_evals.version import __version__

if TYPE_CHECKING:
    from otel_evals import context, sampling, scorers
    from otel_evals.config import Config, Rule, load_config
    from otel_evals.engine import Health, RuleStats, Stats
    from otel_evals.errors import ConfigError, DestinationError, JudgeError, OtelEvalsError
    from otel_evals.evals import run_evals
    from otel_evals.explanation import Explanation
    from otel_evals.export import Destination
    from otel_evals.model import (
        Direction,
        Evaluation,
        NotScored,
        Run,
        Score,
        ScoredRun,
        ScorerFailure,
        ToolCall,
    )
    from otel_evals.pipeline import Pipeline
    from otel_evals.process import configure, explain, force_flush, health, install, shutdown, stats
    from otel_evals.scorer import Scorer, scorer

_WHERE = {
    "Config": "config",
    "ConfigError": "errors",
    "Destination": "export",
    "DestinationError": "errors",
    "Direction": "model",
    "Evaluation": "model",
    "Explanation": "explanation",
    "Health": "engine",
    "JudgeError": "errors",
    "NotScored": "model",
    "OtelEvalsError": "errors",
    "Pipeline": "pipeline",
    "Rule": "config",
    "RuleStats": "engine",
    "Run": "model",
    "Score": "model",
    "ScoredRun": "model",
    "Scorer": "scorer",
    "ScorerFailure": "model",
    "Stats": "engine",
    "ToolCall": "model",
    "configure": "process",
    "context": "",
    "explain": "process",
    "force_flush": "process",
    "health": "process",
    "install": "process",
    "load_config": "config",
    "run_evals": "evals",
    "sampling": "",
    "scorer": "scorer",
    "scorers": "",
    "shutdown": "process",
    "stats": "process",
}

__all__ = [
    "Config",
    "ConfigError",
    "Destination",
    "DestinationError",
    "Direction",
    "Evaluation",
    "Explanation",
    "Health",
    "JudgeError",
    "NotScored",
    "OtelEvalsError",
    "Pipeline",
    "Rule",
    "RuleStats",
    "Run",
    "Score",
    "ScoredRun",
    "Scorer",
    "ScorerFailure",
    "Stats",
    "ToolCall",
    "__version__",
    "configure",
    "context",
    "explain",
    "force_flush",
    "health",
    "install",
    "load_config",
    "run_evals",
    "sampling",
    "scorer",
    "scorers",
    "shutdown",
    "stats",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f"{__name__}.{_WHERE[name] or name}")
    value = getattr(module, name) if _WHERE[name] else module
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__


class _FrontDoor(ModuleType):
    """Keeps a submodule, once imported, from standing in the place of the public name that it defines."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (isinstance(value, ModuleType) and _WHERE.get(name)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _FrontDoor
