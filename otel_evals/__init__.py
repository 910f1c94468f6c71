"""Score LLM agent traffic live, from OpenTelemetry spans.

    import otel_evals
    from otel_evals import Rule, sampling
    from otel_evals.scorers import grounded_in_tools

    otel_evals.configure(rules=[Rule(grounded_in_tools(), sample=sampling.ratio(0.1))])

Names are loaded on first use, so importing this package costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_evals._internal.util.lazy import load_names
from otel_evals._internal.util.version import __version__

if TYPE_CHECKING:
    from otel_evals import context, sampling, scorers
    from otel_evals._internal.accounting.counters import Health, RuleStats, Stats
    from otel_evals._internal.accounting.explanation import Explanation
    from otel_evals._internal.config.loader import load_config
    from otel_evals._internal.config.options import Config, Limits
    from otel_evals._internal.config.rules import Rule
    from otel_evals._internal.deliver.destination import Destination
    from otel_evals._internal.live.configure import (
        configure,
        doctor,
        force_flush,
        install,
        shutdown,
    )
    from otel_evals._internal.live.pipeline import Pipeline
    from otel_evals._internal.live.questions import explain, feedback, health, stats
    from otel_evals._internal.live.verdicts import check, check_sync, guard
    from otel_evals._internal.model import (
        Direction,
        Evaluation,
        NotScored,
        Run,
        Score,
        ScoredRun,
        ScorerFailure,
        ToolCall,
        Verdict,
    )
    from otel_evals._internal.offline.run_evals import run_evals
    from otel_evals._internal.scorers.kit.scorer import Scorer, scorer
    from otel_evals.errors import ConfigError, DestinationError, JudgeError, OtelEvalsError

_NAMES = {
    "_internal.accounting.counters": "Health RuleStats Stats",
    "_internal.accounting.explanation": "Explanation",
    "_internal.config.loader": "load_config",
    "_internal.config.options": "Config Limits",
    "_internal.config.rules": "Rule",
    "_internal.deliver.destination": "Destination",
    "_internal.live.configure": "configure doctor force_flush install shutdown",
    "_internal.live.questions": "explain feedback health stats",
    "_internal.live.verdicts": "check check_sync guard",
    "_internal.model": ("Direction Evaluation NotScored Run Score ScoredRun ScorerFailure ToolCall Verdict"),
    "_internal.offline.run_evals": "run_evals",
    "_internal.live.pipeline": "Pipeline",
    "_internal.scorers.kit.scorer": "Scorer scorer",
    "errors": "ConfigError DestinationError JudgeError OtelEvalsError",
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
    "Limits",
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
    "Verdict",
    "__version__",
    "check",
    "check_sync",
    "configure",
    "context",
    "doctor",
    "explain",
    "feedback",
    "force_flush",
    "guard",
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


_WHERE = {name: f"{__name__}.{module}" for module, names in _NAMES.items() for name in names.split()}
__getattr__ = load_names(globals(), _WHERE | dict.fromkeys(("context", "sampling", "scorers")))


def __dir__() -> list[str]:
    return __all__
