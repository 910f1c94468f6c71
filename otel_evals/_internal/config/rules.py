"""A rule: a scorer, where it applies, and how its runs are sampled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PositiveInt
from pydantic.dataclasses import dataclass

from otel_evals._internal.config.conditions import ReviewCondition, condition, review_condition
from otel_evals._internal.config.imports import scorer_mistake
from otel_evals._internal.config.plugins import build_scorer
from otel_evals._internal.config.validation import MODEL, PositiveSeconds, raises_config_errors
from otel_evals._internal.model import Run
from otel_evals._internal.sampling.algebra import Sampler, SamplerFacts, always, facts_of_sampler, ratio
from otel_evals._internal.sampling.parser import parse
from otel_evals._internal.scorers.kit.facts import ScorerFacts, facts_of
from otel_evals._internal.scorers.kit.isolation import NotPortableError, pack
from otel_evals._internal.scorers.kit.scorer import Scorer
from otel_evals.errors import ConfigError


def _sampler(value: Any) -> Any:
    if isinstance(value, str):
        return parse(value)
    return ratio(value) if isinstance(value, int | float) else value


def _scorer(value: Any) -> Any:
    if isinstance(value, str):
        try:
            return build_scorer(value, {}, "rule")
        except ConfigError as error:
            raise ConfigError("scorer", error.problem) from None
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
    """Scorer of the runs, or the name of a registered one."""
    _: KW_ONLY
    sample: Annotated[Sampler, BeforeValidator(_sampler)] = Field(default_factory=always)
    """Sampler of the runs that the rule applies to."""
    when: Annotated[Callable[[Run], Any] | None, BeforeValidator(condition)] = None
    """Condition for a run to be judged; all runs by default. In YAML a mapping of run fields and attributes
    to a value or a list of values."""
    scope: Literal["run", "agent", "conversation"] = "run"
    """`run` judges runs; `agent` judges every agent operation as a separate run; `conversation` judges all
    runs of a conversation together, each time it becomes idle."""
    idle: PositiveSeconds = 300.0
    """Seconds without a new run after which a conversation is judged; for the scope `conversation`."""
    timeout: PositiveSeconds = 30.0
    """Maximum seconds per attempt."""
    concurrency: PositiveInt = 16
    """Maximum number of runs that this rule scores at once."""
    attempts: PositiveInt = 3
    """Maximum attempts per evaluation while the judge is unavailable."""
    review: Annotated[str | None, AfterValidator(lambda text: text and str(review_condition(text)))] = None
    """Scores whose runs a person should review, such as `score < 0.5`; the page's label queue has them."""
    isolation: Literal["thread", "process"] = "thread"
    """`process` scores in child processes: for scorers that are slow to compute or may crash."""

    def __post_init__(self) -> None:
        self.scorer.check()
        _ = self.facts, self.sampling
        if self.scope != "conversation" and self.idle != Rule.idle:
            raise ConfigError(
                "idle", f"only applies to scope='conversation', not {self.scope!r}; leave it out"
            )
        scale = self.facts.scale
        if self.reviews and scale is not None and not 0.0 <= self.reviews.limit <= scale:
            raise ConfigError(
                "review", f"scores are in 0..{scale:g}; fix: compare with a number in this range"
            )
        if self.isolation == "process":
            try:
                pack(self.scorer)
            except NotPortableError as error:
                raise ConfigError("isolation", f"{self.scorer_id!r} {error}") from None

    @cached_property
    def facts(self) -> ScorerFacts:
        """The scorer's properties, read when the rule is built."""
        return facts_of(self.scorer)

    @cached_property
    def sampling(self) -> SamplerFacts:
        """The sampler's properties, read when the rule is built."""
        return facts_of_sampler(self.sample)

    @cached_property
    def reviews(self) -> ReviewCondition | None:
        """The condition of `review`."""
        return None if self.review is None else review_condition(self.review)

    @cached_property
    def name(self) -> str:
        """Unique name in counters and logs: the scorer's id, and `@scope` unless it is `run`."""
        return self.scorer_id if self.scope == "run" else f"{self.scorer_id}@{self.scope}"

    @cached_property
    def scorer_id(self) -> str:
        """The scorer's id."""
        return self.facts.id

    @cached_property
    def evaluation_key(self) -> str:
        """Base of evaluation ids: the scorer's id, and the scope `agent`.

        The root of a run may be an agent that is judged separately too.
        """
        return self.name if self.scope == "agent" else self.scorer_id

    @cached_property
    def group(self) -> str:
        """Group of rules that are evaluated together: same scope and same idle time."""
        return f"conversation, idle {self.idle:g} s" if self.scope == "conversation" else self.scope


def judges_of(scorer: Any) -> Iterator[Any]:
    """Yield the judge of every prompt, of all members of a panel."""
    for member in getattr(scorer, "_members", ()):
        yield from judges_of(member)
    if not hasattr(scorer, "steps"):
        return
    # Most scorers ask no judge: what judges need is loaded for the others only.
    from otel_evals._internal.scorers.kit.prompt import PromptStep
    from otel_evals._internal.scorers.kit.steps import StepScorer

    if isinstance(scorer, StepScorer):
        for step in scorer.steps.values():
            if isinstance(step, PromptStep):
                yield step.judge or scorer.judge


def missing_key(judge: Any) -> str | None:
    """Return the environment variable of a judge's key if it is not set; None if unknown."""
    from otel_evals._internal.judges.model_judge import ModelJudge

    judge = getattr(judge, "judge", judge)  # behind a cache
    return judge.missing_key() if isinstance(judge, ModelJudge) else None
