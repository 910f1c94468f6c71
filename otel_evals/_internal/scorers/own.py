"""Judges with a question of your own: classes, a list of criteria, a criterion for a conversation."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from string import Template
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, create_model

from otel_evals._internal.judges.fence import TrustedText
from otel_evals._internal.judges.judge import Judge
from otel_evals._internal.model import Direction, NotScored, Run, Score
from otel_evals._internal.scorers.judged import (
    Judgement,
    Slots,
    build,
    described,
    judgement,
    normalise_word,
    numbered,
)
from otel_evals._internal.scorers.kit.context import AnyParams, Resolver, evidence
from otel_evals._internal.scorers.kit.missing import missing
from otel_evals._internal.scorers.kit.prompt import READY_SLOTS
from otel_evals._internal.scorers.kit.steps import StepScorer
from otel_evals._internal.util.options import call_with, suggestion
from otel_evals.errors import ConfigError

_MOST_CRITERIA = 100


@dataclass(frozen=True)
class Criterion:
    """One criterion of a rubric."""

    description: str
    required: bool = True
    """The answer fails without it."""


Criteria = str | Sequence[str | Criterion | Mapping[str, Any]]


def classifier(
    model: Judge | str,
    *,
    question: str,
    classes: Mapping[str, float],
    descriptions: Mapping[str, str] | None = None,
    get_context: Resolver | None = None,
    without_context: bool = False,
    prompt: str | None = None,
    direction: Direction = Direction.HIGHER,
    id: str = "classifier",
) -> StepScorer[None, Any]:
    """The worth of the class that a judge chooses for the run.

    Range: lowest..highest worth among the classes. Label: the class.
    Formula: the chosen class's worth.
    Needs: the final answer; the user's words, the tool calls with their results and the retrieved documents
    help; with `get_context`, its pieces in place of calls and documents.
    Not scored: output not recorded; `no_context` if `get_context` finds nothing, unless `without_context`.
    Cost: one judge call.

    Args:
        question: the decision, in words.
        classes: worth by class, at least two.
        descriptions: by class, when it applies.
        prompt: the whole question in place of the built-in one, with the slots `$criterion` (the question)
            and `$classes`, and any of `$question` (the user's words, if there are any), `$context`, `$input`,
            `$output`, `$system`, `$expected`, `$history` and `$tool_calls`.
        direction: HIGHER if a higher worth is better.

    Raises:
        ConfigError: there are fewer than two classes, a worth is no number, a description has no class, or
            the judge cannot be used.
    """
    labels = {normalise_word(label): label for label in classes}
    if len(labels) < 2 or len(labels) != len(classes) or "" in labels:
        raise ConfigError(
            f"{id}.classes", "needs at least two classes that differ by more than case and punctuation"
        )
    stray = sorted((descriptions or {}).keys() - classes.keys())
    if stray:
        raise ConfigError(f"{id}.descriptions", f"describes {stray[0]!r}, which is not a class")
    # Models change the case and punctuation of labels.
    choice: Any = Annotated[
        Literal[tuple(classes)], BeforeValidator(lambda w: labels.get(normalise_word(w), w))
    ]
    form = create_model("Classification", __base__=judgement("classifier").reply, label=(choice, ...))
    shown = {label: (descriptions or {}).get(label, "") for label in classes}

    def slots(params: AnyParams) -> Slots:
        return {"criterion": TrustedText(question), "classes": described(shown)}

    def score(params: AnyParams, kind: Judgement) -> Score:
        reply = params.results.analyze
        return Score(value=float(classes[reply.label]), label=reply.label, explanation=reply.reason or None)

    return build(
        "classifier",
        model,
        id=id,
        scale=None,
        slots=slots,
        score=score,
        prompt=_own(id, prompt, "criterion", "classes"),
        changes={"reply": form, "direction": Direction(direction)},
        **_evidence(get_context, without_context),
    )


def rubric(
    model: Judge | str,
    *,
    criteria: Criteria | Callable[[Run], Criteria | None],
    get_context: Resolver | None = None,
    without_context: bool = False,
    prompt: str | None = None,
    scale: float = 1.0,
    id: str = "rubric",
) -> StepScorer[list[Criterion], Any]:
    """Score `scale` if an answer satisfies every required criterion, or every criterion if none is required.

    Range: 0 or scale, higher is better. Label: `satisfied` or `not_satisfied`.
    Formula: scale if all required criteria are met, else 0 (Mastra evals, rubric scorer; the configuration,
    not the judge, says which criteria are required).
    Needs: the final answer; the user's words, the tool calls with their results and the retrieved documents
    help; with `get_context`, its pieces in place of calls and documents.
    Not scored: `no_criteria`, `too_many_criteria`; output not recorded; `no_context` if `get_context` finds
    nothing, unless `without_context`.
    Cost: one judge call.

    Args:
        criteria: a list of texts or Criterion, a text with one criterion per line, or a function of the run
            that returns one of these.
        prompt: the whole question in place of the built-in one, with the slot `$criteria`, and any of
            `$question` (the user's words, if there are any), `$context`, `$input`, `$output`, `$system`,
            `$expected`, `$history` and `$tool_calls`.

    Raises:
        ConfigError: there are no criteria, `scale` is not positive, or the judge cannot be used.
    """
    of_run: Any = criteria
    fixed = None if callable(criteria) else _parsed(criteria, id)
    if fixed == []:
        raise ConfigError(f"{id}.criteria", "is empty: name at least one")

    def prepare(params: AnyParams) -> list[Criterion] | NotScored:
        found = _parsed(of_run(params.run) or (), id) if fixed is None else fixed
        if len(found) > _MOST_CRITERIA:
            return NotScored(reason="too_many_criteria", explanation=f"{len(found)} criteria")
        return found or NotScored(reason="no_criteria", explanation="this run has no criteria to judge by")

    def slots(params: AnyParams) -> Slots:
        lines = [criterion.description for criterion in params.results.preprocess]
        # A run's criteria are data, which is fenced.
        return {"criteria": lines if fixed is None else numbered(lines)}

    # `count` ensures that each criterion has exactly one verdict.
    def score(params: AnyParams, kind: Judgement) -> Score:
        verdicts = sorted(params.results.analyze.criteria, key=lambda verdict: verdict.criterion)
        pairs = list(zip(params.results.preprocess, verdicts, strict=True))
        # Without a required criterion, all of them decide.
        decisive = [verdict for criterion, verdict in pairs if criterion.required] or verdicts
        met = all(verdict.verdict == "met" for verdict in decisive)
        lines = [_line(criterion, verdict) for criterion, verdict in pairs]
        return _satisfied(met, scale, "\n".join(lines))

    scorer = build(
        "rubric",
        model,
        id=id,
        scale=scale,
        slots=slots,
        score=score,
        count=lambda params: len(params.results.preprocess),
        prompt=_own(id, prompt, "criteria"),
        **_evidence(get_context, without_context),
    )
    return scorer.preprocess(prepare)


def multi_turn_judge(
    model: Judge | str,
    *,
    criterion: str,
    get_context: Resolver | None = None,
    without_context: bool = False,
    scale: float = 1.0,
    id: str = "multi_turn_judge",
) -> StepScorer[None, Any]:
    """Score `scale` if the assistant's turns, including earlier ones, satisfy a criterion.

    Range: 0 or scale, higher is better. Label: `satisfied` or `not_satisfied`.
    Formula: scale if the criterion is satisfied, else 0 (Mastra evals, multi-turn judge scorer).
    Needs: the assistant's words of this turn; earlier turns if the spans have them; the tool calls with
    their results and the retrieved documents help; with `get_context`, its pieces in place of these.
    Not scored: `output_not_recorded` if no turn of the assistant was recorded; `no_context` if `get_context`
    finds nothing, unless `without_context`.
    Cost: one judge call.

    Args:
        criterion: the requirement on the conversation, in words.

    Raises:
        ConfigError: `criterion` is empty, `scale` is not positive, or the judge cannot be used.
    """
    if not criterion.strip():
        raise ConfigError(
            f"{id}.criterion", "is empty: describe the criterion that the conversation must satisfy"
        )

    def slots(params: AnyParams) -> Slots:
        return {"criterion": TrustedText(criterion), "turns": _turns(params.run)}

    def score(params: AnyParams, kind: Judgement) -> Score:
        reply = params.results.analyze
        return _satisfied(reply.verdict == "met", scale, reply.reason or None)

    shown = _evidence(get_context, without_context)
    return build("multi_turn_judge", model, id=id, scale=scale, slots=slots, score=score, **shown)


def _satisfied(met: bool, scale: float, why: str | None) -> Score:
    label = "satisfied" if met else "not_satisfied"
    return Score(value=scale if met else 0.0, label=label, explanation=why)


def _evidence(get_context: Resolver | None, without_context: bool) -> dict[str, Any]:
    """Return the options of a judge that is shown everything by default, and is asked in any case then."""
    if get_context is not None:
        return {"get_context": get_context, "without_context": without_context}
    return {"get_context": evidence(), "without_context": True}


def _own(id: str, prompt: str | None, *needed: str) -> str | None:
    """Check the slots of a prompt of the configuration."""
    if prompt is None:
        return None
    named, known = set(Template(prompt).get_identifiers()), {*READY_SLOTS, "question", *needed}
    lost = [slot for slot in needed if slot not in named]
    if lost:
        raise ConfigError(f"{id}.prompt", f"has no slot ${lost[0]}: write it where it belongs in the text")
    unknown = sorted(named - known)
    if unknown:
        raise ConfigError(f"{id}.prompt", f"has the slot ${unknown[0]}{suggestion(unknown[0], known)}")
    return prompt


def _line(criterion: Criterion, verdict: Any) -> str:
    met = "met" if verdict.verdict == "met" else "NOT met"
    optional = "" if criterion.required else " (optional)"
    why = verdict.reason or verdict.words
    return f"{met}{optional}: {criterion.description}" + (f" ({why})" if why else "")


def _parsed(criteria: Criteria, scorer_id: str) -> list[Criterion]:
    if isinstance(criteria, str):
        lines = [re.sub(r"^\s*(?:[-*•]|\d+[.)])\s+", "", line).strip() for line in criteria.splitlines()]
        return [Criterion(line) for line in lines if line]
    return [_criterion(item, scorer_id) for item in criteria]


def _criterion(item: str | Criterion | Mapping[str, Any], scorer_id: str) -> Criterion:
    if isinstance(item, Criterion):
        return item
    if isinstance(item, str):
        return Criterion(item)
    made: Criterion = call_with(Criterion, item, f"{scorer_id}.criteria")
    return made


def _turns(run: Run) -> list[str] | NotScored:
    said = (*run.history, *run.input_messages, *run.output_messages)
    turns = [(m.role, m.text) for m in said if m.role in ("user", "assistant") and m.text]
    # The answer may be recorded outside of the messages.
    if run.output and ("assistant", run.output) not in turns:
        turns.append(("assistant", run.output))
    if not any(role == "assistant" for role, _ in turns):
        return missing(run, "output") or NotScored(reason="output_not_recorded")
    return [f"{role}: {text}" for role, text in turns]
