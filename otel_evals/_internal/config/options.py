"""All options besides rules. A wrong value raises when the Config is built, naming the field."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PositiveInt, SkipValidation
from pydantic.dataclasses import dataclass

from otel_evals._internal.config.redaction import build_redaction
from otel_evals._internal.config.rules import Rule
from otel_evals._internal.config.validation import MODEL, PositiveSeconds, Seconds, raises_config_errors
from otel_evals._internal.deliver.destination import Destination
from otel_evals._internal.deliver.preset import EventPreset
from otel_evals._internal.redaction.redactor import Redaction
from otel_evals._internal.sampling.cascades import cascade_order
from otel_evals.errors import ConfigError

__all__ = ["Config"]

_WHERE_SPANS = {"linked": "linked", "same_trace": "same_trace", "off": False, True: "linked", False: False}
"""YAML reads `off` as false."""


def _where_spans(value: Any) -> Any:
    if isinstance(value, str | bool) and value in _WHERE_SPANS:
        return _WHERE_SPANS[value]
    raise ConfigError("evaluation_spans", f"must be linked, same_trace or off, not {value!r:.100}")


@raises_config_errors
@dataclass(frozen=True, config=MODEL, kw_only=True)
class Config:
    """All options; the defaults suit a busy production service."""

    rules: tuple[Rule, ...] = ()
    """What is scored, and how."""
    destinations: tuple[SkipValidation[Destination], ...] = ()
    """Where scored runs go besides OpenTelemetry."""
    span_attributes: bool = True
    """Attach scores to the judged span as attributes; it is held for them, for at most `hold` seconds."""
    wrap_exporters: bool = True
    """Wrap the exporters of the tracer provider, so that judged spans carry their scores; without it, only
    exporters wrapped by `Pipeline.hold` do."""
    evaluation_events: bool = True
    """Emit a `gen_ai.evaluation.result` log event per evaluation."""
    evaluation_spans: Annotated[Literal["linked", "same_trace", False], BeforeValidator(_where_spans)] = (
        "linked"
    )
    """Where `evaluate <scorer>` spans are recorded. `linked`: for evaluations that call a judge, each in a
    trace of its own with a link to the judged span. `same_trace`: for every evaluation, below the judged
    span, whose trace then has the duration, tokens and cost of scoring too. `off`: nowhere."""
    metrics: bool = True
    """Record metrics."""
    metric_attributes: tuple[Literal["version", "tenant"], ...] = ()
    """What the sums of weighted means are told apart by, besides scorer and agent: `version` of the agent,
    `tenant`; of each, the first hundred values, and `_OTHER` for the rest."""
    hold: Seconds = 10.0
    """Seconds after its end that a judged span may wait for its scores before it is exported."""
    hold_limit: PositiveInt = 2048
    """How many spans are held at most; more are exported without attributes."""
    grace: Seconds = 0.5
    """Seconds after its root's end in which a run's other spans and log records may still arrive.

    A run is read at once when no span of its trace is open and its instrumentation scopes sent nothing after
    a root's end in 32 runs, and never a log record.
    """
    max_age: PositiveSeconds = 600.0
    """Seconds without a new span after which a trace is evicted whose root has not ended: as lost, even if it
    ends later."""
    max_open_traces: PositiveInt = 10_000
    """How many traces are assembled at once."""
    max_spans_per_trace: PositiveInt = 2_000
    """How many spans of one trace are kept; a run that has more is not scored (`run_truncated`)."""
    max_bytes: PositiveInt = 256 * 1024 * 1024
    """How many bytes the spans and log records of open traces may take, approximately; the same goes for what
    waits before they are read, for runs that wait for scorers or for each destination, and for held spans."""
    max_conversations: PositiveInt = 10_000
    """How many conversations are held at once, for rules of scope `conversation`."""
    max_conversation_bytes: PositiveInt = 256 * 1024 * 1024
    """How much memory, in bytes, the runs of these conversations may take, approximately."""
    conversation_keep: Seconds = 3_600.0
    """Seconds after its last run that a judged conversation is kept, to be judged again if it continues."""
    queue_size: PositiveInt = 2048
    """How many evaluations may be queued; more are dropped and counted."""
    trust_remote: bool = False
    """Believe what requests say of themselves: that evaluations sent them, which are not scored, and by which
    threshold their trace was sampled (`ot=th:` in tracestate). By default only marks that are signed (see
    OTEL_EVALS_TRUST_KEY) count. For services behind a proxy that removes strangers' `baggage` and
    `tracestate`."""
    capture_content: bool = True
    """Keep prompts, contexts and explanations on the scores; the scores themselves never depend on it."""
    redact: Annotated[SkipValidation[Redaction], BeforeValidator(build_redaction)] = Redaction()
    """What every text goes through before it leaves: into prompts of judges, onto spans and events, to
    destinations. `secrets` (keys, tokens, passwords), `pii` (email addresses, telephone numbers, payment
    cards, IBANs), `python:package.module:function`, a list of these, or `off`; in code also functions that
    take and return a text. Where one fails, nothing of the text is left."""
    explain_traces: PositiveInt = 10_000
    """How many traces the trace log keeps for `explain`; within 24 MiB."""
    quiet_after: Seconds = 60.0
    """Seconds after which it is logged once that nothing was seen, with the likely cause; 0 for never."""
    shutdown_timeout: PositiveSeconds = 10.0
    """Seconds that shutdown may take."""
    handle_sigterm: bool = False
    """Shut down gracefully on SIGTERM too, then let the signal have its usual effect."""
    store: Path | None = None
    """File that keeps sampled runs until they are scored and delivered, over crashes too; none by default."""
    store_max_bytes: Annotated[int, Field(ge=1024 * 1024)] = 1024 * 1024 * 1024
    """How large that file may grow; beyond it, the oldest runs are evicted and counted."""
    store_max_age: PositiveSeconds = 86_400.0
    """Seconds after which a run that could not be scored is evicted."""
    store_keep: Seconds = 600.0
    """Seconds that a scored run is kept, so that late spans have it scored again."""
    store_lease: PositiveSeconds = 15.0
    """Seconds without a heartbeat after which another process takes over a process's runs."""
    store_attempts: PositiveInt = 3
    """How often scoring a run may fail, not counting unavailable judges, before it becomes a dead letter."""
    sections: dict[str, Any] = Field(default_factory=dict)
    """Sections that other packages define, by name; in a file and in `configure` they are options of their own."""

    def __post_init__(self) -> None:
        seen: dict[tuple[str, str], int] = {}
        for index, rule in enumerate(self.rules):
            first = seen.setdefault((rule.scorer.id, rule.scope), index)
            if first != index:
                problem = (
                    f"{rule.scorer.id!r} is the id of rules[{first}] too; give one of the scorers another id"
                )
                raise ConfigError(f"rules[{index}].scorer", problem)
        if self.store is not None:
            _check_store(self.store)
        for index, destination in enumerate(self.destinations):
            if isinstance(destination, EventPreset) and not self.evaluation_events:
                problem = f"{destination.name} reads evaluation events: leave evaluation_events on"
                raise ConfigError(f"destinations[{index}]", problem)
        cascade_order([(rule.scorer.id, rule.asked_with, rule.sample) for rule in self.rules])

    @property
    def holds(self) -> bool:
        """Whether spans are held for scores; for those of conversations they never are."""
        return self.span_attributes and any(rule.scope != "conversation" for rule in self.rules)

    @property
    def ceiling(self) -> float:
        """The highest sampling probability that any rule can give a trace at its first span.

        It is 1 with conversation rules: the conversation's id, which they sample by, is not known then.
        """
        ceilings = (r.sample.ceiling for r in self.rules)
        any_trace = any(r.scope == "conversation" and r.sample.ceiling > 0 for r in self.rules)
        return 1.0 if any_trace else max(ceilings, default=0.0)


def _check_store(path: Path) -> None:
    if path.is_dir():
        raise ConfigError("store", f"{path} is a folder: name a file in it")
    if not path.parent.is_dir():
        raise ConfigError("store", f"the folder {path.parent} does not exist: create it first")
    place = path if path.exists() else path.parent
    if not os.access(place, os.W_OK):
        raise ConfigError("store", f"{place} cannot be written by this user: change its permissions")
