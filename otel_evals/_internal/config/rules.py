"""A rule: a scorer, where it applies, and how its runs are sampled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PositiveInt
from pydantic.dataclasses import dataclass

from otel_evals._internal.config.conditions import condition
from otel_evals._internal.config.mistakes import scorer_mistake
from otel_evals._internal.config.validation import MODEL, PositiveSeconds, raises_config_errors
from otel_evals._internal.model import Run
from otel_evals._internal.processes.portable import NotPortableError, pack
from otel_evals._internal.sampling.algebra import Sampler, always, ratio
from otel_evals._internal.sampling.parser import parse
from otel_evals._internal.scoring.scorer import Scorer
from otel_evals.errors import ConfigError

__all__ = ["Rule"]


def _sampler(value: Any) -> Any:
    if isinstance(value, str):
        return parse(value)
    return ratio(value) if isinstance(value, int | float) else value


def _scorer(value: Any) -> Any:
    mistake = scorer_mistake(value)
    if mistake is not None:
        raise ConfigError("scorer", mistake)
    return value


@raises_config_errors
@dataclass(frozen=True, config=MODEL)
class Rule:
    """A scorer, where it applies, and how its runs are sampled.

    Raises:
        ConfigError: an option is wrong.
    """

    scorer: Annotated[Scorer, BeforeValidator(_scorer)]
    """Judges the runs."""
    _: KW_ONLY
    sample: Annotated[Sampler, BeforeValidator(_sampler)] = Field(default_factory=always)
    """Which of the runs it applies to are scored."""
    when: Annotated[Callable[[Run], Any] | None, BeforeValidator(condition)] = None
    """Which runs it applies to; all by default. In YAML a mapping: run fields and attributes, each with a
    value or a list of values; or `cel` with an expression."""
    scope: Literal["run", "agent", "conversation"] = "run"
    """`run` judges runs; `agent` judges every agent operation in a run, as a run of its own; `conversation`
    judges all runs of a conversation together, each time it has become idle."""
    idle: PositiveSeconds = 300.0
    """Seconds without a new run after which a conversation is judged; for the scope `conversation`."""
    timeout: PositiveSeconds = 30.0
    """Seconds that one attempt may take."""
    concurrency: PositiveInt = 16
    """How many runs this rule scores at once."""
    attempts: PositiveInt = 3
    """How often an evaluation is attempted if the judge is unavailable."""
    isolation: Literal["thread", "process"] = "thread"
    """`process` scores in child processes: for scorers that compute for long or may crash."""

    def __post_init__(self) -> None:
        self.scorer.check()
        if self.scope != "conversation" and self.idle != Rule.idle:
            raise ConfigError(
                "idle", f"goes with scope='conversation', not with {self.scope!r}; leave it out"
            )
        if self.isolation == "process":
            _check_portable(self.scorer)

    @cached_property
    def name(self) -> str:
        """The rule's unique name in counters and logs: the scorer's id, and `@scope` if that is not `run`."""
        return self.scorer.id if self.scope == "run" else f"{self.scorer.id}@{self.scope}"

    @cached_property
    def scorer_id(self) -> str:
        """The scorer's id."""
        return self.scorer.id

    @cached_property
    def evaluates_as(self) -> str:
        """What ids of evaluations are derived from: the scorer's id, and the scope `agent`.

        A run's root may be an agent that is judged by itself as well.
        """
        return self.name if self.scope == "agent" else self.scorer.id

    @cached_property
    def asked_with(self) -> str:
        """Rules with the same value are evaluated together: those of one scope, and of one idle time."""
        return f"conversation, idle {self.idle:g} s" if self.scope == "conversation" else self.scope


def _check_portable(scorer: Scorer) -> None:
    try:
        pack(scorer)
    except NotPortableError as error:
        raise ConfigError("isolation", f"{scorer.id!r} {error}") from None
