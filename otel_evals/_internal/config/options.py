"""The options: as fields of `Config`, and as keyword arguments of `configure`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

from pydantic import BeforeValidator, Field, PositiveInt, SkipValidation
from pydantic.dataclasses import dataclass

from otel_evals._internal.config.imports import PREFIX, imported
from otel_evals._internal.config.rules import Rule
from otel_evals._internal.config.validation import MODEL, PositiveSeconds, Seconds, raises_config_errors
from otel_evals._internal.deliver.destination import Destination, EventPreset
from otel_evals._internal.redaction.personal_data import redact_pii
from otel_evals._internal.redaction.redactor import Redaction
from otel_evals._internal.redaction.secrets import redact_secrets
from otel_evals._internal.sampling.algebra import Sampler
from otel_evals._internal.sampling.conditions import cascade_order
from otel_evals._internal.util.options import suggestion
from otel_evals.errors import ConfigError

_WHERE_SPANS = {"linked": "linked", "same_trace": "same_trace", "off": False, True: "linked", False: False}
"""YAML reads `off` as false."""


def _where_spans(value: Any) -> Any:
    if isinstance(value, str | bool) and value in _WHERE_SPANS:
        return _WHERE_SPANS[value]
    raise ConfigError("evaluation_spans", f"must be linked, same_trace or off, not {value!r:.100}")


_REDACTIONS = {"secrets": redact_secrets, "pii": redact_pii}


def _redaction(value: Any) -> Redaction:
    if isinstance(value, Redaction):
        return value
    if value is False or value == "off":  # YAML reads `off` as false
        return Redaction(())
    given = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
    redaction = Redaction(tuple(map(_redacting, given)))
    if redact_pii in redaction.functions:
        redact_pii("0" * 12)  # raises if its library is missing
    return redaction


def _redacting(value: Any) -> Callable[[str], str]:
    if isinstance(value, str):
        if value in _REDACTIONS:
            return _REDACTIONS[value]
        if not value.startswith(PREFIX):
            known = (*_REDACTIONS, "off", f"{PREFIX}package.module:function")
            raise ConfigError("redact", f"{value!r:.100} is unknown{suggestion(value, known)}")
        value = imported(value, "redact")
    if not callable(value):
        raise ConfigError("redact", f"must be a name or a function of a text, not {value!r:.100}")
    function: Callable[[str], str] = value
    return function


@raises_config_errors
@dataclass(frozen=True, config=MODEL, kw_only=True)
class Limits:
    """Bounds of memory; anything beyond them is dropped, and counted with its reason."""

    max_bytes: PositiveInt = 256 * 1024 * 1024
    """Approximate limit in bytes for the spans and log records of open traces. The same limit applies to
    items waiting to be read, to runs being scored, to the runs of conversations, to each destination's queue,
    and to held spans."""
    queue_size: PositiveInt = 2048
    """Maximum number of queued evaluations of each rule."""
    max_open_traces: PositiveInt = 10_000
    """Maximum number of traces that are assembled at once."""
    max_spans_per_trace: PositiveInt = 2_000
    """Maximum number of spans per trace; a run with more is not scored (`run_truncated`)."""
    max_age: PositiveSeconds = 600.0
    """Seconds without a new span after which a trace with an open root is evicted and counted as lost, even
    if the root ends later."""
    max_held_spans: PositiveInt = 2048
    """Maximum number of held spans; further spans are exported without attributes."""
    max_conversations: PositiveInt = 10_000
    """Maximum number of conversations in memory, for rules of scope `conversation`."""
    conversation_keep: Seconds = 3_600.0
    """Seconds after its last run that a judged conversation is kept, to be judged again if it continues."""


@raises_config_errors
@dataclass(frozen=True, config=MODEL, kw_only=True)
class Config:
    """All options; the defaults suit a busy production service."""

    rules: tuple[Rule, ...] = ()
    """Scorers to run, with their sampling."""
    destinations: tuple[SkipValidation[Destination], ...] = ()
    """Destinations of scored runs, in addition to OpenTelemetry."""
    hold: Seconds = 10.0
    """Seconds after its end that a judged span may wait for its scores before it is exported."""
    evaluation_spans: Annotated[Literal["linked", "same_trace", False], BeforeValidator(_where_spans)] = (
        "linked"
    )
    """Record `evaluate <scorer>` spans. `linked`: for evaluations that call a judge, each in its own trace
    with a link to the judged span. `same_trace`: for every evaluation, below the judged span; the trace then
    includes the duration, tokens and cost of scoring. `off`: none."""
    capture_content: bool = True
    """Keep prompts, contexts and explanations on the scores; the scores themselves never depend on it."""
    redact: Annotated[SkipValidation[Redaction], BeforeValidator(_redaction)] = Redaction()
    """Redaction of every text before it leaves: in prompts of judges, on spans and events, at destinations.
    `secrets` (keys, tokens, passwords), `pii` (email addresses, telephone numbers, payment cards, IBANs),
    `python:package.module:function`, a list of these, or `off`; in code also functions that take and return
    a text. If one fails, the whole text is removed."""
    trust_remote: bool = False
    """Trust the marks of incoming requests: that an evaluation sent them (such requests are not scored), and
    their trace's sampling threshold and randomness (`ot=` in tracestate). By default only signed marks count
    (see OTEL_EVALS_TRUST_KEY). Enable it for services behind a proxy that removes strangers' `baggage` and
    `tracestate`."""
    handle_sigterm: bool = False
    """Shut down gracefully on SIGTERM too, then let the signal have its usual effect."""
    journal: Path | None = None
    """Folder that keeps sampled runs until all destinations have accepted their scores: the next process
    scores what a crash left. Created if it is missing; none by default."""
    limits: Limits = Limits()
    """Bounds of memory, as a section."""

    span_attributes: bool = True
    """Attach scores to the judged span as attributes; the span is held for up to `hold` seconds."""
    wrap_exporters: bool = True
    """Wrap the exporters of the tracer provider to add scores to judged spans. If false, only exporters
    wrapped by `Pipeline.hold` add them."""
    evaluation_events: bool = True
    """Emit a `gen_ai.evaluation.result` log event per evaluation."""
    semconv: Literal["current", "proposed"] = "current"
    """`proposed`: on evaluation events and spans, also write attributes that are proposed for OpenTelemetry's
    GenAI conventions. They follow the proposals and may change in any release."""
    metrics: bool = True
    """Record metrics."""
    grace: Seconds = 0.5
    """Seconds after its root's end in which a run's other spans and log records may still arrive.

    A run without open spans in its trace is read 20 ms after its root's end instead.
    """
    no_traffic_after: Seconds = 60.0
    """Seconds without any run after which one log line names the likely cause; 0 disables it."""
    shutdown_timeout: PositiveSeconds = 10.0
    """Maximum seconds that shutdown takes."""
    sections: dict[str, Any] = Field(default_factory=dict)
    """Sections that other packages define, by name; a file and `configure` have them at the top level."""

    def __post_init__(self) -> None:
        seen: dict[tuple[str, str], int] = {}
        for index, rule in enumerate(self.rules):
            first = seen.setdefault((rule.scorer_id, rule.scope), index)
            if first != index:
                problem = (
                    f"{rule.scorer_id!r} is the id of rules[{first}] too; give one of the scorers another id"
                )
                raise ConfigError(f"rules[{index}].scorer", problem)
        if self.journal is not None:
            _check_journal(self.journal)
        for index, destination in enumerate(self.destinations):
            if isinstance(destination, EventPreset) and not self.evaluation_events:
                problem = f"{destination.name} reads evaluation events: leave evaluation_events on"
                raise ConfigError(f"destinations[{index}]", problem)
        cascade_order([(rule.scorer_id, rule.group, rule.sampling) for rule in self.rules])

    @property
    def holds(self) -> bool:
        """Return True if spans are held for scores; conversation scores never hold one."""
        return self.span_attributes and any(rule.scope != "conversation" for rule in self.rules)

    @property
    def ceiling(self) -> float:
        """Highest sampling probability of a trace at its first span, over all rules.

        It is 1 with conversation rules: they sample by the conversation's id, which is unknown by then.
        """
        ceilings = (r.sampling.ceiling for r in self.rules)
        any_trace = any(r.scope == "conversation" and r.sampling.ceiling > 0 for r in self.rules)
        return 1.0 if any_trace else max(ceilings, default=0.0)


def _check_journal(path: Path) -> None:
    if path.exists() and not path.is_dir():
        raise ConfigError("journal", f"{str(path)!r} is a file: name a folder")
    if not path.parent.is_dir():
        raise ConfigError("journal", f"the folder {str(path.parent)!r} does not exist: create it first")
    place = path if path.exists() else path.parent
    if not os.access(place, os.W_OK):
        raise ConfigError("journal", f"{str(place)!r} cannot be written by this user: change its permissions")


class ConfigOptions(TypedDict, total=False):
    """Types of the fields of `Config` as keyword arguments of `configure`, for editors and type checkers."""

    sample: Sampler | str | float
    hold: float | str
    evaluation_spans: Literal["linked", "same_trace", "off", True, False]
    capture_content: bool
    redact: Redaction | Callable[[str], str] | Sequence[str | Callable[[str], str]] | Literal[False]
    trust_remote: bool
    handle_sigterm: bool
    journal: str | Path | None
    limits: Limits | Mapping[str, float | str]
    span_attributes: bool
    wrap_exporters: bool
    evaluation_events: bool
    semconv: Literal["current", "proposed"]
    metrics: bool
    grace: float | str
    no_traffic_after: float | str
    shutdown_timeout: float | str
    alarms: object
    gateway: object
