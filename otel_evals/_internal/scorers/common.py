"""Shared parts of the built-in scorers: reply models, rounding, means, context sources, checks of options."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator

from otel_evals._internal.context import Params, Resolver, documents, static
from otel_evals._internal.judges.fence import Slot
from otel_evals._internal.judges.judge import Judge
from otel_evals._internal.model import NotScored
from otel_evals._internal.scoring.prompt import PromptStep
from otel_evals._internal.scoring.steps import StepScorer, step_scorer
from otel_evals.errors import ConfigError

_P = TypeVar("_P")
_A = TypeVar("_A")
Data = Callable[[Params[Any, Any]], Mapping[str, Slot | NotScored]]

_EDGES = " \t\r\n.,;:!?\"'`*_()[]。、！？，"  # noqa: RUF001  # of Chinese and Japanese too


def normalise_word(verdict: Any) -> Any:
    """Strip what models put around a word: blanks, quotes, punctuation, capitals."""
    return verdict.strip(_EDGES).casefold() if isinstance(verdict, str) else verdict


Word = BeforeValidator(normalise_word)
YesNo = Annotated[Literal["yes", "no"], Word]
YesNoUnsure = Annotated[Literal["yes", "no", "unsure"], Word]
Level = Annotated[Literal["high", "medium", "low", "none"], Word]


class Claims(BaseModel):
    claims: list[str]


class ClaimVerdict(BaseModel):
    verdict: YesNoUnsure
    reason: str = ""


class ClaimVerdicts(BaseModel):
    verdicts: list[ClaimVerdict]


def judge_scorer(id: str, model: Judge | str, instructions: str, **options: Any) -> StepScorer[None, None]:
    """Begin a scorer whose own code takes microseconds."""
    return step_scorer(id, judge=model, instructions=instructions, inline=True, **options)


def score_items(
    scorer: StepScorer[None, None],
    items: PromptStep[_P],
    prompt: str,
    schema: type[_A],
    reason: str | None,
    *,
    names: tuple[str, str, str] = ("claims", "verdicts", "verdict"),
    otherwise: Callable[[Params[Any, Any]], list[str]] | None = None,
    nothing: str = "",
    unsure: float = 0.0,
) -> StepScorer[_P, _A]:
    """Score the share of items, taken from a text by a judge, on which its verdict is yes.

    Args:
        scorer: without steps.
        items: asks for the items.
        prompt: asks for a verdict on each item.
        schema: form of the verdicts.
        reason: asks for a reason; None for no reason.
        names: the fields of the replies: items, verdicts, and the word of a verdict.
        otherwise: the items if there are none; else such a run is not scored.
        nothing: explanation of a run that is not scored because it has no items.
        unsure: worth of the verdict `unsure`; `yes` is worth 1.
    """
    items_name, verdicts_name, word = names
    absent = NotScored(reason=f"no_{items_name}", explanation=nothing)

    def listed(params: Params[Any, Any]) -> list[str]:
        found: list[str] = getattr(params.results.preprocess, items_name)
        return found or (otherwise(params) if otherwise else [])

    def of(reply: Any) -> list[Any]:
        return list(getattr(reply, verdicts_name))

    def score(params: Params[Any, Any]) -> float:
        words = [getattr(each, word) for each in of(params.results.analyze)]
        return round_half_up(mean_worth(words, yes=1.0, unsure=unsure) * (scorer.scale or 1.0))

    def lines(params: Params[Any, Any]) -> dict[str, list[str]]:
        pairs = zip(listed(params), of(params.results.analyze), strict=True)
        return {verdicts_name: [f"{getattr(each, word)}: {item} ({each.reason})" for item, each in pairs]}

    verdicts = PromptStep(
        prompt=prompt,
        schema=schema,
        data=lambda params: {items_name: listed(params) or absent},
        check=one_verdict_each(of, listed),
    )
    scored = scorer.preprocess(items).analyze(verdicts).generate_score(score)
    return with_reason(scored, reason or "", reason is not None, lines)


def one_verdict_each(
    verdicts: Callable[[Any], Sequence[Any]],
    things: Callable[[Params[Any, Any]], Sequence[Any]],
    *,
    at_least: bool = False,
) -> Callable[[Params[Any, Any], Any], str | None]:
    """Check that a reply has one verdict for each thing; with `at_least`, one or more."""

    def check(params: Params[Any, Any], reply: Any) -> str | None:
        got, wanted = len(verdicts(reply)), len(things(params))
        if got == wanted or (at_least and got > wanted):
            return None
        return f"it holds {got} verdicts for {wanted} items; give exactly one for each"

    return check


def round_half_up(value: float) -> float:
    """Round to two decimals, halves up: 0.125 becomes 0.13, 2.675 becomes 2.68."""
    return math.floor((value + 2.220446049250313e-16) * 100 + 0.5) / 100


def mean_worth(verdicts: Sequence[str], **worth: float) -> float:
    """Return the mean worth of verdicts; verdicts without a given worth count as 0."""
    return sum(worth.get(verdict, 0.0) for verdict in verdicts) / len(verdicts)


def with_reason(
    scorer: StepScorer[_P, _A], prompt: str, explain: bool, data: Data | None = None
) -> StepScorer[_P, _A]:
    """Add a reason written by the judge, if `explain`; `$scale` and `$question` are filled here."""
    if not explain:
        return scorer
    scale = scorer.scale or 1.0

    def filled(params: Params[Any, Any]) -> dict[str, Slot | NotScored]:
        shared: dict[str, Slot | NotScored] = {"scale": scale, "question": params.run.input or ""}
        return {**shared, **(data(params) if data else {})}

    return scorer.generate_reason(PromptStep(prompt=prompt, schema=str, data=filled))


def context_pieces(params: Params[Any, Any]) -> Sequence[str]:
    return params.context.pieces if params.context else ()


def context_source(scorer_id: str, get_context: Resolver | None, context: Sequence[str] | None) -> Resolver:
    """Return the scorer's own resolver, its fixed pieces, or the retrieved documents."""
    if get_context is not None:
        return get_context
    if context is None:
        return documents()
    if not context:
        raise ConfigError(f"{scorer_id}.context", "is empty: name pieces, or leave it out to use documents")
    return static(*context)


def check_range(field: str, value: float, low: float = 0.0, high: float = math.inf) -> float:
    """Return `value`; raise ConfigError if it is out of bounds."""
    if not low <= value <= high:
        bounds = f"within {low:g}..{high:g}" if high < math.inf else f"at least {low:g}"
        raise ConfigError(field, f"must be {bounds}, not {value!r}")
    return value
