"""Checks a run against limits of steps, tokens, time and money. Code only."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from otel_evals._internal.model import NotScored, OperationKind, Run, Score
from otel_evals._internal.scorers.kit.scorer import FunctionScorer, scorer
from otel_evals.errors import ConfigError

_NO_PRICES: Mapping[str, tuple[float, float]] = MappingProxyType({})
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


def _measure(name: str, run: Run, prices: Mapping[str, tuple[float, float]]) -> float | NotScored:
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


def _usd(run: Run, prices: Mapping[str, tuple[float, float]]) -> float | NotScored:
    costs = []
    for operation in run.of_kind(OperationKind.INFERENCE):
        # The cost of the other calls is a lower bound, which may already exceed the limit.
        if (usage := operation.usage) is None:
            continue
        model = operation.response_model or operation.request_model or ""
        # The longest prefix: gpt-5-mini has another price than gpt-5.
        price = max((name for name in prices if model.startswith(name)), key=len, default=None)
        if price is None:
            return NotScored(reason="price_unknown", explanation=f"no price is given for the model {model!r}")
        for_input, for_output = prices[price]
        costs.append((usage.input_tokens * for_input + usage.output_tokens * for_output) / _MILLION)
    return sum(costs) if costs else _NO_TOKENS
