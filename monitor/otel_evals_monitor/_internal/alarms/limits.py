"""Limits of the alarms, and the time that their checks cover."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass

from otel_evals.sdk.config import MODEL, raises_config_errors

STEP = 600
"""Seconds of a time step."""
PERIOD = 1008
"""Steps in a week: the period of the traffic, and how far back a check reads."""

_Share = Annotated[float, Field(gt=0.0, lt=1.0)]


@raises_config_errors
@dataclass(frozen=True, config=MODEL, kw_only=True)
class AlarmLimits:
    """Limits of the monitors, and the accepted probability of false alarms."""

    floors: dict[str, Annotated[float, Field(ge=0.0)]] = Field(default_factory=dict)
    """By scorer: lowest acceptable mean; highest, if low scores are good."""
    missing: _Share = 0.2
    """Highest acceptable share of missing scores."""
    level: _Share = 0.05
    """Probability of any false alarm in a week, over all monitors."""
