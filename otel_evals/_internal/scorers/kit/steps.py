"""The four-step scorer: preprocess, analyze, generate_score, generate_reason.

Each step is a function or a question to a judge; only the score is required. They run in this order, in
whatever order they were chained. The outcome keeps each step's result, prompt and cost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar, cast, get_args, overload

from msgspec import structs

from otel_evals._internal.judges.judge import Judge, window_of
from otel_evals._internal.judges.resolver import resolve_judge
from otel_evals._internal.model import Context, Direction, NotScored, Run, Score, StepRecord
from otel_evals._internal.scorers.kit.context import (
    AnyParams,
    Params,
    Resolver,
    Results,
    StepName,
    resolve,
    seen,
)
from otel_evals._internal.scorers.kit.facts import check_scale
from otel_evals._internal.scorers.kit.fingerprint import fingerprint
from otel_evals._internal.scorers.kit.prompt import PromptStep
from otel_evals._internal.scorers.kit.scorer import Judgement, Scorer, StepFailure, to_score
from otel_evals._internal.scorers.kit.step_record import StepRecordBuilder, describe_error
from otel_evals._internal.util.calls import call, must_propagate
from otel_evals.errors import ConfigError

_P = TypeVar("_P")
_A = TypeVar("_A")
_R = TypeVar("_R")

_ORDER: tuple[StepName, ...] = get_args(StepName)


@dataclass(frozen=True, kw_only=True)
class ReasonParams(Params[_P, _A]):
    """The arguments of `generate_reason`, with the score."""

    score: float


@dataclass(frozen=True, kw_only=True)
class StepScorer(Scorer, Generic[_P, _A]):
    """A scorer in up to four steps. Immutable: each method returns a new one."""

    id: str
    version: str = ""
    direction: Direction = Direction.HIGHER
    inline: bool = False
    judge: Judge | None = None
    instructions: str = ""
    get_context: Resolver | None = None
    without_context: bool = False
    scale: float | None = 1.0
    options: Mapping[str, Any] = field(default_factory=dict)
    steps: Mapping[StepName, Any] = field(default_factory=dict)
    fixed_version: bool = False

    def __post_init__(self) -> None:
        check_scale(self.id, self.scale)
        if not self.fixed_version:
            object.__setattr__(self, "version", self._fingerprint())

    # --- building ---

    @overload
    def preprocess(
        self, step: PromptStep[_R] | Callable[[Params[None, None]], Awaitable[_R | NotScored]]
    ) -> StepScorer[_R, _A]: ...
    @overload
    def preprocess(self, step: Callable[[Params[None, None]], _R | NotScored]) -> StepScorer[_R, _A]: ...
    def preprocess(self, step: Any) -> Any:
        """Prepare the run, for instance list its claims. The result is `params.results.preprocess`."""
        return self._with("preprocess", step)

    @overload
    def analyze(
        self, step: PromptStep[_R] | Callable[[Params[_P, None]], Awaitable[_R | NotScored]]
    ) -> StepScorer[_P, _R]: ...
    @overload
    def analyze(self, step: Callable[[Params[_P, None]], _R | NotScored]) -> StepScorer[_P, _R]: ...
    def analyze(self, step: Any) -> Any:
        """Judge, for instance give verdicts. The result is `params.results.analyze`."""
        return self._with("analyze", step)

    def generate_score(
        self,
        step: PromptStep[Any]
        | Callable[[Params[_P, _A]], Judgement]
        | Callable[[Params[_P, _A]], Awaitable[Judgement]],
    ) -> StepScorer[_P, _A]:
        """Compute the score: a function, or a judge whose reply has a `score`."""
        return self._with("generate_score", step)

    def generate_reason(
        self,
        step: PromptStep[str]
        | Callable[[ReasonParams[_P, _A]], str | None]
        | Callable[[ReasonParams[_P, _A]], Awaitable[str | None]],
    ) -> StepScorer[_P, _A]:
        """Explain the score. If this fails, the score has no explanation."""
        return self._with("generate_reason", step)

    def check(self) -> None:
        """Check that there is a score step, and a judge for every prompt.

        Raises:
            ConfigError: names the missing part.
        """
        if "generate_score" not in self.steps:
            raise ConfigError(f"{self.id}.generate_score", "is missing: add .generate_score(function)")
        for name, step in self.steps.items():
            if isinstance(step, PromptStep) and step.judge is None and self.judge is None:
                raise ConfigError(f"{self.id}.{name}", "asks a judge, but there is none: pass judge=...")

    def prepare(self) -> None:
        """Prepare the judges."""
        own = (step.judge for step in self.steps.values() if isinstance(step, PromptStep))
        for judge in (self.judge, *own):
            load = getattr(judge, "prepare", None)
            if load is not None:
                load()

    def _with(self, name: StepName, step: Any) -> StepScorer[Any, Any]:
        if not isinstance(step, PromptStep) and not callable(step):
            raise ConfigError(f"{self.id}.{name}", f"must be a function or a PromptStep, not {step!r:.60}")
        return replace(self, steps={**self.steps, name: step})

    def _fingerprint(self) -> str:
        steps = [self.steps.get(name) for name in _ORDER]
        # Of a judge only what changes its judgement: not its key, its limits or its address.
        judges = [_described(getattr(owner, "judge", None)) for owner in (self, *steps)]
        steps = [replace(step, judge=None) if isinstance(step, PromptStep) else step for step in steps]
        context = (self.get_context, self.without_context)
        return fingerprint(
            self.id, self.direction, self.scale, self.options, self.instructions, judges, context, steps
        )

    # --- scoring ---

    async def score(self, run: Run) -> Score | NotScored:
        """Run the steps; raise StepFailure with the finished steps if one raises."""
        self.check()
        return await _StepExecution(self, run).outcome()


def step_scorer(
    id: str,
    *,
    judge: Judge | str | None = None,
    instructions: str = "",
    get_context: Resolver | None = None,
    without_context: bool = False,
    scale: float | None = 1.0,
    direction: Direction = Direction.HIGHER,
    inline: bool = False,
    version: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> StepScorer[None, None]:
    """Begin a four-step scorer.

    Args:
        id: the scorer's name, unique among the rules.
        judge: answers the prompts: a judge, or a model's name for LiteLLM; a step may name another.
        instructions: system message of the prompts; a step may have its own.
        get_context: resolver called before `analyze`.
        without_context: judge even if the resolver finds nothing; by default the run is not scored.
        scale: scores are within 0..scale; None accepts every finite number.
        direction: HIGHER if a higher score is better.
        inline: run sync steps on the engine's own thread; only for functions that take microseconds.
        version: by default a fingerprint of all options and steps.
        options: the scorer's own options, a part of that fingerprint.

    Raises:
        ConfigError: a value is out of range, or the judge's library is not installed.
    """
    return StepScorer(
        id=id,
        judge=None if judge is None else resolve_judge(judge),
        instructions=instructions,
        get_context=get_context,
        without_context=without_context,
        scale=scale,
        direction=direction,
        inline=inline,
        version=version or "",
        fixed_version=version is not None,
        options=options or {},
    )


def _described(judge: Judge | None) -> tuple[Any, ...] | None:
    """Return what a version depends on of a judge."""
    if judge is None:
        return None
    return (judge.model, window_of(judge), *(["images"] if getattr(judge, "images", False) else []))


class _StepNotScored(Exception):  # noqa: N818  # the way out of the middle of a pipeline, not an error
    def __init__(self, answer: NotScored) -> None:
        self.answer = answer


class _StepExecution:
    """One run on its way through the steps."""

    def __init__(self, scorer: StepScorer[Any, Any], run: Run) -> None:
        self.scorer = scorer
        self.run = run
        self.done: tuple[StepRecord, ...] = ()
        self.preprocessed: Any = None
        self.analyzed: Any = None
        self.context: Context | None = None

    async def outcome(self) -> Score | NotScored:
        try:
            self.preprocessed = await self._step("preprocess")
            self.analyzed = await self._step("analyze")
            score = cast("Score", await self._step("generate_score"))
        except _StepNotScored as stopped:
            return structs.replace(stopped.answer, steps=self.done)
        explanation = await self._reason(score)
        return structs.replace(score, explanation=explanation or score.explanation, steps=self.done)

    async def _reason(self, score: Score) -> str | None:
        try:
            return cast("str | None", await self._step("generate_reason", score.value))
        # The time may be up while the judge writes the reason: the score is known.
        except (_StepNotScored, StepFailure, asyncio.CancelledError):
            return None

    async def _step(self, name: StepName, score: float | None = None) -> Any:
        """Run one step, if there is one, and record it."""
        step = self.scorer.steps.get(name)
        if step is None:
            return None
        record = StepRecordBuilder(name)
        try:
            params = await self._params(name, score, record)
            value = await self._run(step, params, record)
        except BaseException as error:
            self.done += (record.failed(error),)
            if must_propagate(error):
                error.steps = self.done  # type: ignore[attr-defined]  # as StepFailure has, for their cost
                raise
            raise StepFailure(f"{name}: {describe_error(error)}", steps=self.done) from error
        self.done += (record.record(value),)
        if isinstance(value, NotScored):
            raise _StepNotScored(value)
        return value

    async def _run(self, step: Any, params: AnyParams, record: StepRecordBuilder) -> Any:
        # Before the judge is paid: there is no material to judge by.
        if params.context is not None and not (params.context.pieces or self.scorer.without_context):
            return NotScored(reason="no_context", explanation=params.context.note)
        if isinstance(step, PromptStep):
            value = await step.ask(params, record, self.scorer)
        else:
            value = await call(step, params, inline=self.scorer.inline)
        match params.step:
            case "generate_score":
                return to_score(getattr(value, "score", value), scale=self.scorer.scale)
            case "generate_reason" if not isinstance(value, str | None):
                raise TypeError(f"a reason must be a text, not {type(value).__name__}")
        return value

    async def _params(self, name: StepName, score: float | None, record: StepRecordBuilder) -> AnyParams:
        kind: Any = Params if score is None else ReasonParams
        results = Results(self.preprocessed, self.analyzed)
        params: AnyParams = kind(run=self.run, results=results, step=name, score=score)
        resolver = self.scorer.get_context
        if resolver is None or name == "preprocess":
            return params
        if self.context is None:  # verdicts and reasons refer to the context of `analyze`
            self.context = await resolve(resolver, params)
        if name != "generate_score":
            record.context = seen(self.context)
        return replace(params, context=self.context)
