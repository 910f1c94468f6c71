"""Builds the scorers that ask a judge from a prompt, the form of the reply and the worth of its verdicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from string import Template
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field, create_model

from otel_evals._internal.judges.fence import Slot, TrustedText
from otel_evals._internal.judges.judge import Judge
from otel_evals._internal.model import Direction, NotScored, Score
from otel_evals._internal.scorers.bounds import check_list, check_range, round_half_up
from otel_evals._internal.scorers.kit.context import (
    AnyParams,
    Resolver,
    combine,
    documents,
    static,
    tool_results,
)
from otel_evals._internal.scorers.kit.prompt import PromptStep
from otel_evals._internal.scorers.kit.steps import StepScorer, step_scorer
from otel_evals.errors import ConfigError

_EDGES = " \t\r\n.,;:!?\"'`*_()[]。、！？，"  # noqa: RUF001  # of Chinese and Japanese too
_NO_CHANGES: Mapping[str, Any] = MappingProxyType({})
_BETWEEN = "\n\n---\n\n"
"""Stands between the instructions and the question in a prompt's file."""


def normalise_word(verdict: Any) -> Any:
    """Strip what models put around a word: blanks, quotes, punctuation, capitals."""
    if not isinstance(verdict, str):
        return verdict
    return verdict.strip(_EDGES).casefold().replace(" ", "_").replace("-", "_")


Word = BeforeValidator(normalise_word)


Slots = Mapping[str, Slot | NotScored]
"""The material of a prompt by slot; a NotScored if the run lacks it."""


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """A row of judgements.yaml: a question to a judge, and the worth of its verdicts."""

    prompt: str
    reply: type[BaseModel]
    items: str = ""
    in_order: str = ""
    worth: Mapping[str, float] = field(default_factory=dict)
    """By verdict; others are worth 0."""
    direction: Direction = Direction.HIGHER
    nothing: NotScored | Score | None = None
    words: Mapping[str, str] = field(default_factory=dict)

    def score(self, reply: Any, scale: float = 1.0) -> Any:
        """Return the mean worth of the items, explained by the items that are not in order."""
        items = getattr(reply, self.items)
        if not items:
            return self.nothing
        value = sum(self.worth.get(item.verdict, 0.0) for item in items) / len(items)
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


@cache
def judgement(scorer: str) -> Judgement:
    """Return the question of a built-in scorer."""
    row = dict(_table()["judgements"][scorer])
    row["prompt"] = row.get("prompt", scorer)
    row["reply"] = _form(row["reply"])
    if "nothing" in row:
        row["nothing"] = _outcome(**row["nothing"])
    return Judgement(**row | {"direction": Direction(row.get("direction", Direction.HIGHER))})


def _outcome(because: str, not_scored: str | None = None, score: float = 0.0) -> NotScored | Score:
    if not_scored is not None:
        return NotScored(reason=not_scored, explanation=because)
    return Score(value=float(score), explanation=because)


_PLAIN: Mapping[str, tuple[Any, Any]] = {
    "text": (str, ""),
    "number": (int, 0),
    "flag": (bool, False),
    "share": (Annotated[float, Field(ge=0, le=1)], 0.0),
}
"""Types of fields, and their values if they are left out."""


@cache
def _form(name: str) -> type[BaseModel]:
    """Return the model of a form of replies."""
    fields = dict(_table()["forms"][name])
    about = fields.pop("about", None)
    made: dict[str, Any] = {field: _field(form) for field, form in fields.items()}
    return create_model(name, __doc__=about, **made)


def _field(form: str | list[str]) -> tuple[Any, Any]:
    if isinstance(form, list):
        return Annotated[Literal[tuple(form)], Word], ...
    name = form.removeprefix("optional ")
    # pydantic copies a default list for each reply.
    kind, default = _PLAIN.get(name, (None, []))
    if kind is None:
        item = name.removeprefix("list of ")
        kind = list[_PLAIN[item][0] if item in _PLAIN else _form(item)]  # type: ignore[misc]  # made here
    return kind, ... if name == form else default


@cache
def _table() -> Mapping[str, Any]:
    import yaml  # for scorers that ask a judge only

    text = files("otel_evals._internal.scorers").joinpath("judgements.yaml").read_text(encoding="utf-8")
    table: Mapping[str, Any] = yaml.safe_load(text)
    return table


def build(
    name: str,
    model: Judge | str,
    *,
    id: str,
    scale: float | None = 1.0,
    slots: Callable[[AnyParams], Slots] | None = None,
    score: Callable[[AnyParams, Judgement], Any] | None = None,
    changes: Mapping[str, Any] = _NO_CHANGES,
    count: Callable[[AnyParams], int] | None = None,
    check: Callable[[AnyParams, Any], str | None] | None = None,
    prompt: str | None = None,
    **options: Any,
) -> StepScorer[Any, Any]:
    """Build a scorer of one question.

    Args:
        name: of the question in judgements.yaml.
        slots: fills the slots of the prompt that are not ready-made; `$question` is the user's words.
        score: computes the score, by default the mean worth of the items.
        changes: fields of the question that options change.
        count: number of items that the reply must have.
        check: further check of the reply.
        prompt: another question in place of the one in the file.
        options: of `step_scorer`.
    """
    kind = replace(judgement(name), **changes)
    instructions, question = prompt_text(kind.prompt, **kind.words)

    def data(params: AnyParams) -> Slots:
        return {"question": params.run.input or "", **(slots(params) if slots else {})}

    def complaint(params: AnyParams, reply: Any) -> str | None:
        if count is not None and _numbers(getattr(reply, kind.items)) != [*range(1, count(params) + 1)]:
            got, wanted = len(getattr(reply, kind.items)), count(params)
            return (
                f"it holds {got} verdicts for {wanted} {kind.items}; give one for each, by its number from 1"
            )
        return check(params, reply) if check else None

    def scored(params: AnyParams) -> Any:
        return score(params, kind) if score else kind.score(params.results.analyze, scale or 1.0)

    # The worths of verdicts are part of the scorer's version.
    options = {"direction": kind.direction, "options": dict(kind.worth), **options}
    step = PromptStep(prompt=prompt or question, schema=kind.reply, data=data, check=complaint)
    # Inline, since the only step besides the question is arithmetic.
    return (
        step_scorer(id, judge=model, instructions=instructions, inline=True, scale=scale, **options)
        .analyze(step)
        .generate_score(scored)
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
    # Safe: the other slots are filled for each run.
    instructions, question = (Template(part).safe_substitute(words) for part in _file(name))
    return instructions, question


def worths(field: str, name: str, given: Mapping[str, float] | None) -> dict[str, float]:
    """Return the worths of verdicts with a user's own, each 0..1.

    Raises:
        ConfigError: one is out of range, or of an unknown verdict.
    """
    known = judgement(name).worth
    unknown = sorted((given or {}).keys() - known.keys())
    if unknown:
        raise ConfigError(field, f"knows no {unknown[0]!r}; known: {', '.join(known)}")
    return {
        verdict: check_range(f"{field}.{verdict}", worth, 0.0, 1.0)
        for verdict, worth in {**known, **(given or {})}.items()
    }


def material(
    scorer_id: str,
    get_context: Resolver | None,
    context: Sequence[str] | None,
    otherwise: Resolver | None = None,
) -> Resolver:
    """Return the scorer's own resolver, its fixed pieces, or by default results of tools and retrievers."""
    given = None if context is None else static(*check_list(f"{scorer_id}.context", context))
    return get_context or given or otherwise or combine(tool_results(), documents())


def pieces_of(scorer_id: str, get_context: Resolver | None, context: Sequence[str] | None) -> Resolver:
    """Return the scorer's own resolver, its fixed pieces, or the retrieved documents."""
    if context is not None and not context:
        raise ConfigError(f"{scorer_id}.context", "is empty: name pieces, or leave it out to use documents")
    return material(scorer_id, get_context, context, documents())


def numbered(lines: Sequence[str]) -> TrustedText:
    """Return lines of the configuration as a numbered list."""
    return TrustedText("\n".join(f"{n}. {line}" for n, line in enumerate(lines, 1)))


def described(texts: Mapping[str, str]) -> TrustedText:
    """Return names of the configuration with their descriptions, one a line."""
    return TrustedText("\n".join(f"{name}: {text}".removesuffix(": ") for name, text in texts.items()))
