"""The configuration section `alarms`, and the check for alarms in a process that scores."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from opentelemetry._logs import Logger, LogRecord, SeverityNumber
from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY, Context, attach, set_value
from pydantic import AfterValidator
from pydantic.dataclasses import dataclass

from otel_evals import semconv
from otel_evals.errors import ConfigError
from otel_evals.sdk.config import MODEL, PositiveSeconds, Problems, raises_config_errors, suggestion
from otel_evals_monitor._internal.alarms.limits import AlarmLimits
from otel_evals_monitor._internal.alarms.receivers import HttpReceiver, Receiver

if TYPE_CHECKING:
    from otel_evals_monitor._internal.alarms.check import AlarmCheck
    from otel_evals_monitor._internal.alarms.record import Alarm

_logger = logging.getLogger(__name__)


def _http_url(url: str) -> str:
    if not re.match(r"https?://[^/?#@\s]+([/?#]|$)", url):
        # Without the address, which may contain a password.
        raise ConfigError("", "must begin with http:// or https://, and have no user or password")
    return url


_Url = Annotated[str, AfterValidator(_http_url)]


@raises_config_errors
@dataclass(frozen=True, config=MODEL, kw_only=True)
class AlarmOptions(AlarmLimits):
    """Alarms on the results store, checked by every process that scores."""

    store: str | None = None
    """SQLite file or `postgresql://` URL; by default the store of the destination `results`."""
    every: PositiveSeconds = 60.0
    """Seconds between two checks; processes with the same store take turns."""
    webhook: _Url | None = None
    """Address to post each alarm's start and end to, as JSON."""
    slack: bool = False
    """Post in Slack's format."""
    alertmanager: _Url | None = None
    """Base URL of an Alertmanager."""
    page: _Url | None = None
    """Address of the page of `otel-evals monitor`, for links in notifications."""
    events: bool = True
    """Emit a log event `otel_evals.alarm` for each alarm's start and end."""

    def watch(self, destinations: tuple[object, ...], logger: Callable[[], Logger]) -> AlarmWatch:
        """Start the check for alarms in the background.

        Raises:
            ConfigError: there is no store to watch.
        """
        return AlarmWatch(self, destinations, logger)


def receivers_of(options: AlarmOptions, lasts: float) -> list[Receiver]:
    """Return the receivers at addresses; an Alertmanager's alert `lasts` so many seconds."""
    found: list[Receiver] = []
    if options.webhook:
        form: Literal["slack", "webhook"] = "slack" if options.slack else "webhook"
        found.append(HttpReceiver(options.webhook, form, options.page))
    if options.alertmanager:
        found.append(HttpReceiver(options.alertmanager, "alertmanager", options.page, lasts))
    return found


def check_floors(config: Any) -> None:
    """Check the floors of the section `alarms` against the rules of a configuration.

    Raises:
        ConfigError: a floor is for a scorer without a rule, or outside the scorer's scale.
    """
    problems = Problems()
    scales = {rule.scorer_id: rule.facts.scale for rule in config.rules}
    for name, floor in config.sections["alarms"].floors.items():
        field, scale = f"alarms.floors.{name}", scales.get(name)
        if name not in scales:
            problems.add(field, f"no rule has the scorer {name!r}{suggestion(name, scales)}")
        elif scale is None:
            problems.add(field, f"{name!r} has no scale, so its mean has no floor; fix: leave it out")
        elif floor > scale:
            problems.add(field, f"scores are in 0..{scale:g}; fix: a number in this range, not {floor:g}")
    problems.raise_any()


class AlarmEvents:
    name = shown = "opentelemetry"
    repeats = False

    def __init__(self, logger: Logger) -> None:
        self._logger = logger

    def notify(self, alarm: Alarm) -> None:
        at, severity = alarm.raised, SeverityNumber.WARN
        if alarm.ended is not None:
            at, severity = alarm.ended, SeverityNumber.INFO
        attributes: dict[str, Any] = {
            semconv.ALARM_KIND: alarm.kind,
            semconv.ALARM_STATE: alarm.state,
            semconv.ALARM_MONITOR: alarm.monitor,
            semconv.ALARM_SINCE: alarm.since,
            semconv.ALARM_EVIDENCE: alarm.evidence,
            semconv.ALARM_TRACES: list(alarm.trace_ids),
            semconv.GEN_AI_EVALUATION_NAME: alarm.scorer_id,
            semconv.GEN_AI_AGENT_NAME: alarm.agent_name or None,
        }
        self._logger.emit(
            LogRecord(
                timestamp=at * 1_000_000_000,
                observed_timestamp=time.time_ns(),
                # An empty context, so the event belongs to no span.
                context=Context(),
                severity_number=severity,
                body=alarm.text,
                event_name=semconv.ALARM_EVENT,
                attributes={name: value for name, value in attributes.items() if value is not None},
            )
        )


class AlarmWatch:
    """Checks for alarms on a daemon thread; see `AlarmOptions.watch`."""

    def __init__(
        self, options: AlarmOptions, destinations: Sequence[object], logger: Callable[[], Logger]
    ) -> None:
        self._options = options
        places = [options.store, *(getattr(each, "place", None) for each in destinations)]
        self._place: Any = next(filter(None, places), None)
        if self._place is None:
            raise ConfigError("alarms.store", "is needed without a destination `results`")
        self._logger = logger
        self._stopped = threading.Event()
        self._logged = ""
        self.start()

    def start(self) -> None:
        """Start the thread; a forked child, which inherits no threads, calls this again."""
        # A daemon, since the wait for the next check must not delay the end of the process.
        thread = threading.Thread(target=self._run, name="otel-evals-alarms", daemon=True)
        try:
            thread.start()
        # Python raises it at the limit of threads, and from 3.12 on while the interpreter shuts down.
        except RuntimeError:
            _logger.warning("alarms are not checked: no thread can be started")

    def stop(self) -> None:
        self._stopped.set()

    def _run(self) -> None:
        attach(set_value(_SUPPRESS_INSTRUMENTATION_KEY, True))  # no spans of the store's own queries
        check: AlarmCheck | None = None
        while not self._stopped.wait(self._options.every):
            try:
                # Opened here and not in the constructor: the store may be created with the first batch.
                check = check or self._check()
                # Less than `every`, since a thread that wakes slightly early would skip its turn.
                self._log("; ".join(check.run(0.9 * self._options.every)))
            except Exception as error:  # the store may appear later
                self._log(f"the check failed: {error}")
        if check is not None:
            check.database.close()

    def _check(self) -> AlarmCheck:
        from otel_evals_monitor._internal.alarms.check import AlarmCheck
        from otel_evals_monitor._internal.store.database import Database

        # An alert of a lasting alarm survives three checks that fail.
        receivers = receivers_of(self._options, max(600.0, 4.0 * self._options.every))
        if self._options.events:
            receivers.append(AlarmEvents(self._logger()))
        return AlarmCheck(Database(self._place, create=False), self._options, receivers)

    def _log(self, problem: str) -> None:
        """Log a problem once, until it changes or ends."""
        if problem and problem != self._logged:
            _logger.warning("alarms: %s", problem)
        self._logged = problem
