"""The steps of a run, compared with expected steps and with limits of steps, tokens, time and money."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, get_args

from otel_evals._internal.model import NotScored, Operation, OperationKind, Run, Score, ToolCall
from otel_evals._internal.scorers.bounds import check_list, round_half_up
from otel_evals._internal.scorers.kit.scorer import FunctionScorer, scorer
from otel_evals._internal.util.options import call_with
from otel_evals.errors import ConfigError

Ordering = Literal["relaxed", "strict", "unordered"]
"""Expected steps are found in order with others between, at the same places, or anywhere."""

_REPEATED = 0.1
_EXTRA = 0.5
_LIFTED = (OperationKind.OTHER, OperationKind.WORKFLOW)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A tool call, a retrieval, or a whole run of another agent."""

    name: str
    kind: str = "tool"
    """`tool`, `retrieval` or `agent`."""
    arguments: Any = None
    result: Any = None
    failed: bool = False
    tokens: int | None = None
    """Usage of an agent's own run."""
    seconds: float | None = None
    steps: tuple[Step, ...] = ()
    """Steps of an agent's own run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedStep:
    """An expected step; a field that is None is not compared."""

    name: str
    kind: str | None = None
    arguments: Any = None
    result: Any = None
    plan: Any = None
    """For `trajectory_quality`: the Plan of an agent's own run."""

    def matches(self, step: Step) -> bool:
        wanted = (self.kind, self.arguments, self.result)
        got = (step.kind, step.arguments, step.result)
        return self.name == step.name and all(w is None or w == g for w, g in zip(wanted, got, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class TrajectoryComparison:
    score: float
    matched: int
    missing: tuple[str, ...]


def expected_steps(field: str, steps: Sequence[Any]) -> tuple[ExpectedStep, ...]:
    """Convert names and mappings to ExpectedSteps; raise ConfigError for anything else."""
    return tuple(_expected(f"{field}[{i}]", step) for i, step in enumerate(check_list(field, steps)))


def check_ordering(field: str, ordering: str) -> None:
    if ordering not in get_args(Ordering):
        raise ConfigError(field, f"must be one of {', '.join(get_args(Ordering))}, not {ordering!r}")


def _expected(field: str, step: Any) -> ExpectedStep:
    match step:
        case ExpectedStep():
            return step
        case str():
            return ExpectedStep(name=step)
        case Mapping():
            made: ExpectedStep = call_with(ExpectedStep, step, field)
            return made
    raise ConfigError(field, f"must be a name or a step, not {type(step).__name__}")


def compare(
    expected: Sequence[ExpectedStep], actual: Sequence[Step], ordering: Ordering, allow_repeats: bool
) -> TrajectoryComparison:
    """Compare steps with expected ones; trajectory_accuracy documents the formula."""
    found = list(_found(expected, actual, ordering))
    names = Counter(step.name for step in actual)
    score = sum(found) / len(expected) if expected else float(not actual)
    if ordering == "strict" and expected and len(actual) > len(expected):
        score -= _EXTRA * (len(actual) - len(expected)) / len(expected)
    if not allow_repeats:
        score -= _REPEATED * sum(count > 1 for count in names.values())
    missing = tuple(step.name for step, there in zip(expected, found, strict=True) if not there)
    return TrajectoryComparison(score=min(1.0, max(0.0, score)), matched=sum(found), missing=missing)


def _found(expected: Sequence[ExpectedStep], actual: Sequence[Step], ordering: Ordering) -> Iterator[bool]:
    """Yield for each expected step whether it was taken; no step counts twice."""
    left = list(range(len(actual)))
    for place, step in enumerate(expected):
        # A strict step has one place, which may be beyond the end of a shorter run.
        candidates = left if ordering != "strict" else range(place, min(place + 1, len(actual)))
        at = next((i for i in candidates if step.matches(actual[i])), None)
        if at is not None:
            # No step counts twice, and in order none comes before the last one found.
            left = [i for i in left if (i > at if ordering == "relaxed" else i != at)]
        yield at is not None


# --- the steps of a run ---


def steps_of(run: Run) -> tuple[Step, ...]:
    """Return the steps of a run in the order they began; another agent's run is one step with inner steps."""
    below = {o.span_id: o for o in run.operations if o.span_id != run.root_span_id}
    if any(o.kind is OperationKind.AGENT for o in below.values()):
        return tuple(_steps(run.root_span_id, run.children, below))
    return tuple(_call_step(call) for call in run.tool_calls)


def _steps(
    span_id: str, children: Mapping[str, Sequence[str]], below: Mapping[str, Operation]
) -> Iterator[Step]:
    for child in children.get(span_id, ()):
        operation = below.get(child)
        if operation is None:
            continue
        # Chains and workflows only group steps: the steps inside take their place.
        if operation.kind in _LIFTED:
            yield from _steps(child, children, below)
        elif operation.kind is OperationKind.TOOL:
            yield _call_step(operation.tool_call or ToolCall(name=operation.name or ""))
            yield from _steps(child, children, below)
        elif operation.kind is OperationKind.RETRIEVAL:
            yield Step(name=operation.name or "", kind="retrieval", failed=operation.error is not None)
        elif operation.kind is OperationKind.AGENT:
            yield _agent_step(operation, tuple(_steps(child, children, below)))


def _call_step(call: ToolCall) -> Step:
    return Step(
        name=call.name,
        arguments=call.arguments,
        result=call.result,
        failed=call.status == "error",
        seconds=call.duration,
    )


def _agent_step(operation: Operation, steps: tuple[Step, ...]) -> Step:
    span = operation.span
    return Step(
        name=operation.agent_name or operation.name or "",
        kind="agent",
        failed=operation.error is not None or operation.error_type is not None,
        tokens=operation.usage.total_tokens if operation.usage else None,
        seconds=None if span.end_time is None else (span.end_time - span.start_time) / 1e9,
        steps=steps,
    )


Steps = Sequence[Any] | Callable[[Run], Sequence[Any] | None]
"""Names, mappings or ExpectedSteps; or a function from a run to these, None for any steps."""


def trajectory_accuracy(
    *, expected: Steps, ordering: Ordering = "relaxed", allow_repeats: bool = True
) -> FunctionScorer:
    """The share of an expected trajectory that an agent followed: tool calls, retrievals, other agents' runs.

    A step matches by name and, if given, by kind, arguments and result. `relaxed` finds the expected steps
    in order with others between, `strict` at their exact places, `unordered` anywhere, each step used once.

    Range: 0..1, higher is better, two decimals.
    Formula: matched / expected; with `strict` less 0.5 * extra / expected if more steps were taken; without
    `allow_repeats` less 0.1 for each name that occurs more than once. If no step is expected: 1 if none was
    taken, else 0.
    Source: the code trajectory-accuracy scorer of Mastra's evals.
    Needs: nothing; a run without steps scores 0.
    Not scored: `no_expectation` if the function returns None.
    Cost: none; microseconds.

    Raises:
        ConfigError: an unknown ordering, or an invalid step.
    """
    check_ordering("trajectory_accuracy.ordering", ordering)
    fixed = None if callable(expected) else expected_steps("trajectory_accuracy.expected", expected)

    @scorer(id="trajectory_accuracy", inline=True)
    def trajectory_accuracy(run: Run) -> Score | NotScored:
        wanted = fixed
        if callable(expected):
            given = expected(run)
            wanted = None if given is None else expected_steps("trajectory_accuracy.expected", given)
        if wanted is None:
            return NotScored(reason="no_expectation", explanation="no steps are expected of this run")
        found = compare(wanted, steps_of(run), ordering, allow_repeats)
        missing = f"; missing: {', '.join(found.missing)}" if found.missing else ""
        explanation = f"{found.matched} of {len(wanted)} expected steps taken{missing}"
        return Score(value=round_half_up(found.score), explanation=explanation)

    return trajectory_accuracy


# --- limits ---

Prices = Mapping[str, tuple[float, float]]
"""US dollars per million input and output tokens, by model."""
_NO_PRICES: Prices = MappingProxyType({})
_MILLION = 1_000_000


def within_budget(
    *,
    max_model_calls: int | None = None,
    max_tool_calls: int | None = None,
    max_tokens: int | None = None,
    max_seconds: float | None = None,
    max_usd: float | None = None,
    prices: Mapping[str, tuple[float, float]] = _NO_PRICES,
    id: str = "within_budget",
) -> FunctionScorer:
    """Check a run against its limits, and compute how far it exceeded the worst one.

    Money is the tokens of each model call times its model's price: US dollars per million input and output
    tokens, by model name or a prefix of it.

    Range: 0..1, higher is better. Labels: `within`, `over`.
    Formula: the least of limit / actual over the exceeded limits, 1 if none was.
    Needs: the measurements of the limits.
    Not scored: `tokens_not_recorded`, `duration_not_recorded`, `price_unknown`, unless another limit is
    exceeded.
    Cost: none; microseconds.

    Raises:
        ConfigError: there is no limit, one is not positive, or `max_usd` comes without prices.
    """
    limits = {
        "model calls": max_model_calls,
        "tool calls": max_tool_calls,
        "tokens": max_tokens,
        "seconds": max_seconds,
        "US dollars": max_usd,
    }
    given = {name: limit for name, limit in limits.items() if limit is not None}
    if not given or any(limit <= 0 for limit in given.values()):
        raise ConfigError(id, "give at least one limit; each must be positive")
    if max_usd is not None and not prices:
        raise ConfigError(f"{id}.prices", "max_usd needs the models' prices")

    @scorer(id=id, inline=True)
    def within_budget(run: Run) -> Score | NotScored:
        actual = {name: _measure(name, run, prices) for name in given}
        broken = {n: a for n, a in actual.items() if not isinstance(a, NotScored) and a > given[n]}
        if broken:
            text = ", ".join(f"{a:.6g} {name}, limit {given[name]:.6g}" for name, a in broken.items())
            return Score(value=min(given[n] / a for n, a in broken.items()), label="over", explanation=text)
        unknown = next((a for a in actual.values() if isinstance(a, NotScored)), None)
        return unknown or Score(value=1.0, label="within", explanation="within all limits")

    return within_budget


_NO_TOKENS = NotScored(reason="tokens_not_recorded", explanation="the run has no token usage")


def _measure(name: str, run: Run, prices: Prices) -> float | NotScored:
    match name:
        case "model calls":
            return sum(1 for _ in run.of_kind(OperationKind.INFERENCE))
        case "tool calls":
            return len(run.tool_calls)
        case "tokens":
            return run.usage.total_tokens or _NO_TOKENS
        case "US dollars":
            return _usd(run, prices)
    if run.duration is None:
        return NotScored(reason="duration_not_recorded", explanation="the run's root never ended")
    return run.duration


def _usd(run: Run, prices: Prices) -> float | NotScored:
    costs = []
    for operation in run.of_kind(OperationKind.INFERENCE):
        # The cost of the other calls is a lower bound, which may already exceed the limit.
        usage = operation.usage
        if usage is None:
            continue
        model = operation.response_model or operation.request_model or ""
        # The longest prefix: gpt-5-mini has another price than gpt-5.
        price = max((name for name in prices if model.startswith(name)), key=len, default=None)
        if price is None:
            return NotScored(reason="price_unknown", explanation=f"no price is given for the model {model!r}")
        for_input, for_output = prices[price]
        costs.append((usage.input_tokens * for_input + usage.output_tokens * for_output) / _MILLION)
    return sum(costs) if costs else _NO_TOKENS
