"""The `alarms` section of the configuration: what is watched in the results store, and who is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

from opentelemetry._logs import Logger
from pydantic import AfterValidator, Field
from pydantic.dataclasses import dataclass

from otel_evals.errors import ConfigError
from otel_evals.sdk.config import MODEL, PositiveSeconds, raises_config_errors

if TYPE_CHECKING:
    from otel_evals_monitor._internal.alarms.background import AlarmWatch

__all__ = ["AlarmOptions"]


def _url(value: str) -> str:
    if not value.startswith(("http://", "https://")):
        raise ConfigError("", f"must begin with http:// or https://, got {value!r:.100}")
    return value


_Url = Annotated[str, AfterValidator(_url)]
_Share = Annotated[float, Field(gt=0.0, lt=1.0)]


@raises_config_errors
@dataclass(frozen=True, config=MODEL, kw_only=True)
class AlarmOptions:
    """What is watched in the results store by a process that scores, and who is told."""

    store: str | None = None
    """SQLite file or `postgresql://` URL; by default that of the destination `results`."""
    every: PositiveSeconds = 60.0
    """Seconds between two checks; processes that share a store share them."""
    floors: dict[str, Annotated[float, Field(ge=0.0)]] = Field(default_factory=dict)
    """By scorer: the mean that is not to be fallen below; where low scores are good, exceeded."""
    missing: _Share = 0.2
    """Share of the runs that may be without the score they should have."""
    agreement: _Share = 0.8
    """Share of the scores of runs drawn by chance with which people's labels are to agree."""
    level: _Share = 0.05
    """Probability of any false alarm in a week, over all monitors."""
    webhook: _Url | None = None
    """Address that each alarm's start and end is posted to, as JSON."""
    slack: bool = False
    """Post the form that Slack understands."""
    alertmanager: _Url | None = None
    """Base URL of an Alertmanager."""
    events: bool = True
    """Emit a log event `otel_evals.alarm` for each alarm's start and end."""

    def watch(self, destinations: tuple[object, ...], logger: Callable[[], Logger]) -> AlarmWatch:
        """Start to check for alarms in the background.

        Raises:
            ConfigError: there is no store to watch.
        """
        from otel_evals_monitor._internal.alarms.background import AlarmWatch

        return AlarmWatch(self, destinations, logger)
