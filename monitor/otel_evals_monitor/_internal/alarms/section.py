"""The section `alarms` of the configuration, and the check that it starts in a process that scores."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from opentelemetry._logs import Logger, LogRecord, SeverityNumber
from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY, Context, attach, set_value
from pydantic import AfterValidator, Field
from pydantic.dataclasses import dataclass

from otel_evals import semconv
from otel_evals.errors import ConfigError
from otel_evals.sdk.config import MODEL, PositiveSeconds, raises_config_errors

if TYPE_CHECKING:
    from otel_evals_monitor._internal.alarms.alarm_record import KeptAlarm
    from otel_evals_monitor._internal.alarms.check import AlarmCheck
    from otel_evals_monitor._internal.alarms.receivers import Receiver

_logger = logging.getLogger(__name__)


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
        return AlarmWatch(self, destinations, logger)


class AlarmEvents:
    """Tells of alarms by log events of OpenTelemetry."""

    name = "opentelemetry"
    repeats = False

    def __init__(self, logger: Logger) -> None:
        self._logger = logger

    def tell(self, kept: KeptAlarm) -> None:
        """Emit the event, outside of any trace."""
        alarm, ended = kept.alarm, kept.ended
        attributes: Mapping[str, Any] = {
            semconv.ALARM_KIND: alarm.kind,
            semconv.ALARM_STATE: "started" if ended is None else "ended",
            semconv.ALARM_MONITOR: alarm.monitor,
            semconv.ALARM_SINCE: alarm.since,
            semconv.ALARM_EVIDENCE: alarm.evidence,
            semconv.ALARM_TRACES: list(alarm.trace_ids),
            semconv.GEN_AI_EVALUATION_NAME: alarm.scorer_id,
            semconv.GEN_AI_AGENT_NAME: alarm.agent_name or None,
        }
        self._logger.emit(
            LogRecord(
                timestamp=(alarm.raised if ended is None else ended) * 1_000_000_000,
                observed_timestamp=time.time_ns(),
                context=Context(),
                severity_number=SeverityNumber.WARN if ended is None else SeverityNumber.INFO,
                body=alarm.text,
                event_name=semconv.ALARM_EVENT,
                attributes={name: value for name, value in attributes.items() if value is not None},
            )
        )


class AlarmWatch:
    """Checks for alarms on a daemon thread. Processes that share a store take turns.

    Args:
        options: the section `alarms`.
        destinations: the configured destinations; the store is that of `results` by default.
        logger: gives the logger of events.

    Raises:
        ConfigError: there is no store to watch.
    """

    def __init__(
        self, options: AlarmOptions, destinations: Sequence[object], logger: Callable[[], Logger]
    ) -> None:
        self._options = options
        self._place = options.store or _place_of(destinations)
        self._logger = logger
        self._stopped = threading.Event()
        self._told = ""
        self.start()

    def start(self) -> None:
        """Begin to check; again in a forked child, which has none of its parent's threads."""
        thread = threading.Thread(
            target=self._run, args=(self._options,), name="otel-evals-alarms", daemon=True
        )
        try:
            thread.start()
        except RuntimeError:
            _logger.warning("alarms are not checked for: no thread can be had")

    def stop(self) -> None:
        """Check no more."""
        self._stopped.set()

    def _run(self, options: AlarmOptions) -> None:
        attach(set_value(_SUPPRESS_INSTRUMENTATION_KEY, True))  # the store's own queries are no spans
        check: AlarmCheck | None = None
        while not self._stopped.wait(options.every):
            try:
                check = check or self._check(options)
                self._tell("; ".join(check.run(0.9 * options.every)))
            except Exception as error:  # the store may come, or come back
                self._tell(f"the check failed: {error}")
        if check is not None:
            check.database.close()

    def _check(self, options: AlarmOptions) -> AlarmCheck:
        from otel_evals_monitor._internal.alarms.check import AlarmCheck
        from otel_evals_monitor._internal.alarms.monitors import AlarmSettings
        from otel_evals_monitor._internal.store.database import Database

        settings = AlarmSettings(
            floors=options.floors,
            missing=options.missing,
            agreement=options.agreement,
            level=options.level,
        )
        database = Database(self._place, create=False)
        return AlarmCheck(database, settings, self._receivers(options))

    def _receivers(self, options: AlarmOptions) -> list[Receiver]:
        from otel_evals_monitor._internal.alarms.receivers import Alertmanager, Webhook

        found: list[Receiver] = [AlarmEvents(self._logger())] if options.events else []
        if options.webhook:
            found.append(Webhook(options.webhook, options.slack))
        if options.alertmanager:
            found.append(Alertmanager(options.alertmanager, max(600.0, 4.0 * options.every)))
        return found

    def _tell(self, problem: str) -> None:
        """Log a problem once, until it is another or gone."""
        if problem and problem != self._told:
            _logger.warning("alarms: %s", problem)
        self._told = problem


def _place_of(destinations: Sequence[object]) -> Any:
    """The store of the destination `results`."""
    places = [place for each in destinations if (place := getattr(each, "place", None)) is not None]
    if not places:
        raise ConfigError("alarms.store", "is needed where there is no destination `results`")
    return places[0]
