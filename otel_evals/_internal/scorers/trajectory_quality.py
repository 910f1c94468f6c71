"""Quality of an agent's trajectory: expected steps, budgets, repeated failures, forbidden tools."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from types import MappingProxyType
from typing import Any

from otel_evals._internal.model import NotScored, Run, Score, StepRecord
from otel_evals._internal.scorers import trajectory
from otel_evals._internal.scorers.bounds import check_list, round_half_up
from otel_evals._internal.scorers.kit.scorer import FunctionScorer, scorer
from otel_evals._internal.scorers.trajectory import ExpectedStep, Ordering, Step
from otel_evals._internal.util.options import call_with
from otel_evals.errors import ConfigError

_WEIGHTS: Mapping[str, float] = MappingProxyType(
    {"accuracy": 0.4, "efficiency": 0.3, "tool_failures": 0.2, "forbidden": 0.1}
)
_PENALTY = 0.2
_OWN = 0.7


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Expectations on a trajectory; a field that is None is not checked."""

    steps: Sequence[Any] | None = None
    """Expected steps: names, mappings or ExpectedSteps; a step's own `plan` is for an agent's own run."""
    ordering: Ordering = "relaxed"
    allow_repeats: bool = True
    max_steps: int | None = None
    max_tokens: int | None = None
    max_seconds: float | None = None
    no_redundant_calls: bool | None = None
    """True penalises the same call twice in a row; None does so next to one of the three limits."""
    max_retries_per_tool: int = 2
    forbidden_tools: Sequence[str] = ()
    forbidden_sequences: Sequence[Sequence[str]] = field(default_factory=tuple)
    """Names that must not directly follow each other."""

    def __post_init__(self) -> None:
        trajectory.check_ordering("trajectory_quality.plan.ordering", self.ordering)
        if self.steps is not None:
            object.__setattr__(
                self, "steps", trajectory.expected_steps("trajectory_quality.plan.steps", self.steps)
            )
        check_list("trajectory_quality.plan.forbidden_tools", self.forbidden_tools)
        # A text is refused in either place: its items are texts, which are no sequences of names.
        for sequence in self.forbidden_sequences:
            check_list("trajectory_quality.plan.forbidden_sequences", sequence)
        for name in ("max_steps", "max_tokens", "max_seconds"):
            if (limit := getattr(self, name)) is not None and limit <= 0:
                raise ConfigError(f"trajectory_quality.plan.{name}", f"must be positive, not {limit!r}")


class _NotMeasuredError(Exception):
    """A limit is set on an unknown measurement."""


class _ForbiddenError(Exception):
    pass


def trajectory_quality(
    plan: Plan | Mapping[str, Any], *, weights: Mapping[str, float] = _WEIGHTS
) -> FunctionScorer:
    """Quality of an agent's trajectory, in up to four respects.

    `accuracy`, if steps are expected: as trajectory_accuracy. `efficiency`, if there is a limit: mean of
    max(0, 1 - (actual - limit) / limit) for each limit, and of 1 - 0.2 for each call that repeats the one
    before it. `tool_failures`, if a failed call was retried: 1 - 0.2 for each retry of a tool beyond
    `max_retries_per_tool`. `forbidden`, if something is: 1, or 0 for the whole score if it was done.

    Range: 0..1, higher is better, two decimals.
    Formula: the weighted mean of the respects that apply, 1 if none does; if expected steps have plans of
    their own, 0.7 * that + 0.3 * mean of their scores.
    Source: the code trajectory scorer of Mastra's evals, for which a missing measurement is an error.
    Needs: token usage or an ended root for such a limit.
    Not scored: `tokens_not_recorded`, `seconds_not_recorded`.
    Cost: none; microseconds.

    Raises:
        ConfigError: a plan without expectations, wrong limits or steps, unknown weights.
    """
    checked = _plan(plan)
    if checked == Plan():
        raise ConfigError("trajectory_quality.plan", "checks nothing: give steps, limits or forbidden calls")
    unknown = set(weights) - set(_WEIGHTS)
    if unknown:
        raise ConfigError("trajectory_quality.weights", f"there is no respect {', '.join(sorted(unknown))}")
    worth = {**_WEIGHTS, **weights}

    @scorer(id="trajectory_quality", inline=True)
    def trajectory_quality(run: Run) -> Score | NotScored:
        tokens = run.usage.total_tokens or None
        taken = Step(name="", steps=trajectory.steps_of(run), tokens=tokens, seconds=run.duration)
        try:
            score, respects = _judge(checked, taken, worth)
        except _ForbiddenError as error:
            return Score(value=0.0, label="forbidden", explanation=str(error))
        except _NotMeasuredError as error:
            return NotScored(reason=f"{error}_not_recorded", explanation=f"the run has no {error}")
        explanation = ", ".join(f"{name} {value:.2f}" for name, value in respects.items())
        steps = (StepRecord(name="analyze", result=respects),)
        return Score(
            value=round_half_up(score), explanation=explanation or "nothing to object to", steps=steps
        )

    return trajectory_quality


def _plan(given: Plan | Mapping[str, Any]) -> Plan:
    made: Plan = given if isinstance(given, Plan) else call_with(Plan, given, "trajectory_quality.plan")
    return made


def _judge(plan: Plan, taken: Step, weights: Mapping[str, float]) -> tuple[float, dict[str, float]]:
    # First of all: a forbidden call decides the score even if a measurement is missing.
    _check_forbidden(plan, [step.name for step in taken.steps])
    respects = dict(_respects(plan, taken))
    # Respects that do not apply leave their weight to the others.
    total = sum(weights[name] for name in respects)
    own = sum(weights[name] * value for name, value in respects.items()) / total if total else 1.0
    nested = [_nested(step, taken, weights) for step in plan.steps or () if step.plan is not None]
    return (_OWN * own + (1 - _OWN) * sum(nested) / len(nested) if nested else own), respects


def _nested(expected: ExpectedStep, taken: Step, weights: Mapping[str, float]) -> float:
    step = next((step for step in taken.steps if replace(expected, plan=None).matches(step)), None)
    if step is None:
        return 0.0
    return _judge(_plan(expected.plan), step, weights)[0]


def _respects(plan: Plan, taken: Step) -> Iterator[tuple[str, float]]:
    if plan.steps is not None:
        yield "accuracy", trajectory.compare(plan.steps, taken.steps, plan.ordering, plan.allow_repeats).score
    terms = list(_efficiency(plan, taken))
    if terms:
        yield "efficiency", sum(terms) / len(terms)
    retries = _retries(taken.steps)
    if retries:
        excess = sum(max(0, count - plan.max_retries_per_tool) for count in retries.values())
        yield "tool_failures", max(0.0, 1 - _PENALTY * excess)
    if plan.forbidden_tools or plan.forbidden_sequences:
        # `_check_forbidden` has raised for any other case.
        yield "forbidden", 1.0


def _efficiency(plan: Plan, taken: Step) -> Iterator[float]:
    limits = {
        "steps": (plan.max_steps, len(taken.steps)),
        "tokens": (plan.max_tokens, taken.tokens),
        "seconds": (plan.max_seconds, taken.seconds),
    }
    limited = False
    for name, (limit, actual) in limits.items():
        if limit is None:
            continue
        if actual is None:
            raise _NotMeasuredError(name)
        limited = True
        yield max(0.0, 1 - max(0.0, actual - limit) / limit)
    if plan.no_redundant_calls or (limited and plan.no_redundant_calls is None):
        same = sum(a.name == b.name and a.arguments == b.arguments for a, b in pairwise(taken.steps))
        yield max(0.0, 1 - _PENALTY * same)


def _retries(steps: Sequence[Step]) -> dict[str, int]:
    """Count how often each tool was called again after a failure."""
    calls: defaultdict[str, list[bool]] = defaultdict(list)
    for step in steps:
        calls[step.name].append(step.failed)
    # A failure of the last call was not retried.
    counts = {name: sum(failed[:-1]) for name, failed in calls.items()}
    return {name: count for name, count in counts.items() if count}


def _check_forbidden(plan: Plan, names: Sequence[str]) -> None:
    for tool in plan.forbidden_tools:
        if tool in names:
            raise _ForbiddenError(f"{tool} is forbidden and was called")
    for sequence in plan.forbidden_sequences:
        size = len(sequence)
        if any(list(names[i : i + size]) == list(sequence) for i in range(len(names) - size + 1)):
            raise _ForbiddenError(f"{' then '.join(sequence)} is forbidden and was done")
