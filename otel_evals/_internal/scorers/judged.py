"""Builds the scorers that ask a judge from a prompt, the form of the reply and the worth of its verdicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from string import Template
from typing import Any

from pydantic import BaseModel, BeforeValidator

from otel_evals._internal.context import Params, Resolver, combine, documents, static, tool_results
from otel_evals._internal.judges.fence import Slot, TrustedText
from otel_evals._internal.judges.judge import Judge
from otel_evals._internal.model import Direction, NotScored, Score
from otel_evals._internal.scorers.bounds import round_half_up
from otel_evals._internal.scoring.prompt import PromptStep
from otel_evals._internal.scoring.steps import StepScorer, step_scorer
from otel_evals.errors import ConfigError

_EDGES = " \t\r\n.,;:!?\"'`*_()[]。、！？，"  # noqa: RUF001  # of Chinese and Japanese too
_BETWEEN = "\n\n---\n\n"
"""Stands between the instructions and the question in a prompt's file."""


def normalise_word(verdict: Any) -> Any:
    """Strip what models put around a word: blanks, quotes, punctuation, capitals."""
    if not isinstance(verdict, str):
        return verdict
    return verdict.strip(_EDGES).casefold().replace(" ", "_").replace("-", "_")


Word = BeforeValidator(normalise_word)


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """A built-in question to a judge, and the worth of its verdicts."""

    prompt: str
    """Name of its file in `prompts`."""
    reply: type[BaseModel]
    items: str = ""
    """Field of the reply with the judged items, each of which has a `verdict`."""
    in_order: str = ""
    """Verdict that needs no reason."""
    worth: Mapping[str, float] = field(default_factory=dict)
    """By verdict; others are worth 0."""
    direction: Direction = Direction.HIGHER
    nothing: NotScored | Score | None = None
    """Outcome if there are no items."""
    words: Mapping[str, str] = field(default_factory=dict)
    """Fills slots of the file that do not depend on the run."""

    def score(self, reply: Any, scale: float = 1.0, worth: Mapping[str, float] | None = None) -> Any:
        """Return the mean worth of the items, explained by the items that are not in order."""
        items = getattr(reply, self.items)
        if not items:
            return self.nothing
        worth = self.worth if worth is None else worth
        value = sum(worth.get(item.verdict, 0.0) for item in items) / len(items)
        return Score(value=round_half_up(value * scale), explanation=self.explained(items))

    def explained(self, items: Sequence[Any]) -> str:
        good = sum(item.verdict == self.in_order for item in items)
        noted = [_noted(item) for item in items if item.verdict != self.in_order]
        return "\n".join([f"{good} of {len(items)} {self.items} {self.in_order}", *noted])


def _noted(item: BaseModel) -> str:
    """Return an item with its verdict, the words that decide and the reason."""
    given = {name: value for name, value in item if value not in ("", None)}
    verdict, reason = given.pop("verdict", ""), given.pop("reason", "")
    subject = "; ".join(
        value if isinstance(value, str) else f"{name} {value}" for name, value in given.items()
    )
    return f"{verdict}: {subject}" + (f" ({reason})" if reason else "")


def build(
    kind: Judgement,
    model: Judge | str,
    *,
    id: str,
    scale: float | None = 1.0,
    slots: Callable[[Params[Any, Any]], Mapping[str, Slot | NotScored]] | None = None,
    score: Callable[[Params[Any, Any]], Any] | None = None,
    count: Callable[[Params[Any, Any]], int] | None = None,
    check: Callable[[Params[Any, Any], Any], str | None] | None = None,
    prompt: str | None = None,
    **options: Any,
) -> StepScorer[Any, Any]:
    """Build a scorer of one question.

    Args:
        kind: the question.
        slots: fills the slots of the prompt that are not ready-made; `$question` is the user's words.
        score: computes the score, by default the mean worth of the items.
        count: number of items that the reply must have.
        check: further check of the reply.
        prompt: another question in place of the one in the file.
        options: of `step_scorer`.
    """
    instructions, question = prompt_text(kind.prompt, **kind.words)

    def data(params: Params[Any, Any]) -> dict[str, Slot | NotScored]:
        return {"question": params.run.input or "", **(slots(params) if slots else {})}

    def complaint(params: Params[Any, Any], reply: Any) -> str | None:
        if count is not None and _numbers(getattr(reply, kind.items)) != [*range(1, count(params) + 1)]:
            got, wanted = len(getattr(reply, kind.items)), count(params)
            return (
                f"it holds {got} verdicts for {wanted} {kind.items}; give one for each, by its number from 1"
            )
        return check(params, reply) if check else None

    options = {"direction": kind.direction, "options": dict(kind.worth), **options}
    step = PromptStep(prompt=prompt or question, schema=kind.reply, data=data, check=complaint)
    return (
        step_scorer(id, judge=model, instructions=instructions, inline=True, scale=scale, **options)
        .analyze(step)
        .generate_score(score or (lambda params: kind.score(params.results.analyze, scale or 1.0)))
    )


def _numbers(items: Sequence[BaseModel]) -> list[int]:
    """Return the numbers of items, which are their first fields, in order."""
    return sorted(next(iter(item))[1] for item in items)


@cache
def _file(name: str) -> tuple[str, str]:
    text = (files("otel_evals._internal.scorers") / "prompts" / f"{name}.txt").read_text(encoding="utf-8")
    instructions, _, question = text.strip().partition(_BETWEEN)
    return instructions, question


def prompt_text(name: str, **words: str) -> tuple[str, str]:
    """Return the instructions and the question of a prompt's file, with these slots filled."""
    instructions, question = (Template(part).safe_substitute(words) for part in _file(name))
    return instructions, question


def material(get_context: Resolver | None, context: Sequence[str] | None) -> Resolver:
    """Return the scorer's own resolver, its fixed pieces, or the results of tools and retrievers."""
    if get_context is not None:
        return get_context
    return static(*context) if context is not None else combine(tool_results(), documents())


def pieces_of(scorer_id: str, get_context: Resolver | None, context: Sequence[str] | None) -> Resolver:
    """Return the scorer's own resolver, its fixed pieces, or the retrieved documents."""
    if get_context is not None:
        return get_context
    if context is None:
        return documents()
    if not context:
        raise ConfigError(f"{scorer_id}.context", "is empty: name pieces, or leave it out to use documents")
    return static(*context)


def numbered(lines: Sequence[str]) -> TrustedText:
    """Return lines of the configuration as a numbered list."""
    return TrustedText("\n".join(f"{n}. {line}" for n, line in enumerate(lines, 1)))


def described(texts: Mapping[str, str]) -> TrustedText:
    """Return names of the configuration with their descriptions, one a line."""
    return TrustedText("\n".join(f"{name}: {text}".removesuffix(": ") for name, text in texts.items()))
