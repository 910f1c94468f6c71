"""Scores agent traffic live, where the OpenTelemetry traces are.

    import otel_evals
    from otel_evals import Rule, sampling
    from otel_evals.scorers import grounded_in_tools

    otel_evals.configure(rules=[Rule(grounded_in_tools(), sample=sampling.ratio(0.1))])

Everything here is loaded when it is first used, so importing this package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from otel_evals.version import __version__

if TYPE_CHECKING:
    from otel_evals import context, sampling, scorers
    from otel_evals.accounting.counters import RuleStats, Stats
    from otel_evals.accounting.explanation import Explanation
    from otel_evals.accounting.health import Health
    from otel_evals.config import Config, Rule, load_config
    from otel_evals.errors import ConfigError, DestinationError, JudgeError, OtelEvalsError
    from otel_evals.evals import run_evals
    from otel_evals.export import Destination
    from otel_evals.live.configure import (
        configure,
        doctor,
        explain,
        feedback,
        force_flush,
        health,
        install,
        shutdown,
        stats,
    )
    from otel_evals.live.pipeline import Pipeline
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
    from otel_evals.scoring.scorer import Scorer, scorer

_WHERE = {
    "Config": "config",
    "ConfigError": "errors",
    "Destination": "export",
    "DestinationError": "errors",
    "Direction": "model",
    "Evaluation": "model",
    "Explanation": "accounting",
    "Health": "accounting",
    "JudgeError": "errors",
    "NotScored": "model",
    "OtelEvalsError": "errors",
    "Pipeline": "live.pipeline",
    "Rule": "config",
    "RuleStats": "accounting",
    "Run": "model",
    "Score": "model",
    "ScoredRun": "model",
    "Scorer": "scoring.scorer",
    "ScorerFailure": "model",
    "Stats": "accounting",
    "ToolCall": "model",
    "configure": "live.configure",
    "context": "",
    "doctor": "live.configure",
    "explain": "live.configure",
    "feedback": "live.configure",
    "force_flush": "live.configure",
    "health": "live.configure",
    "install": "live.configure",
    "load_config": "config",
    "run_evals": "evals",
    "sampling": "",
    "scorer": "scoring.scorer",
    "scorers": "",
    "shutdown": "live.configure",
    "stats": "live.configure",
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
    "doctor",
    "explain",
    "feedback",
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
