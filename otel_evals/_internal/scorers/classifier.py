"""Sorts runs into classes of your own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, create_model

from otel_evals._internal.context import Params, Resolver
from otel_evals._internal.judges.fence import TrustedText
from otel_evals._internal.judges.judge import Judge
from otel_evals._internal.model import Direction, Score
from otel_evals._internal.scorers.common import judge_scorer, normalise_word
from otel_evals._internal.scoring.prompt import PromptStep
from otel_evals._internal.scoring.steps import StepScorer
from otel_evals.errors import ConfigError

INSTRUCTIONS = """\
You sort recorded conversations of an assistant into classes, by a question and descriptions of the classes.
Choose the one class that fits best, even if none fits well."""

CLASSIFICATION = """\
Answer the question about the conversation below by choosing one class. Give the reason in one or two
sentences that name what decides, in the language of the answer; then the label of the class.

The question:
$criterion

The classes:
$classes

The user said:
$question

The answer:
$output"""

WITH_CONTEXT = """

What else is known:
$context"""


def classifier(
    model: Judge | str,
    *,
    question: str,
    classes: Mapping[str, float],
    descriptions: Mapping[str, str] | None = None,
    get_context: Resolver | None = None,
    without_context: bool = False,
    direction: Direction = Direction.HIGHER,
    id: str = "classifier",
) -> StepScorer[None, Any]:
    """The worth of the class that a judge chooses for the run.

    Range: lowest..highest worth among the classes. Label: the class.
    Formula: the chosen class's worth.
    Needs: the final answer; the user's words help; context if `get_context` is given.
    Not scored: output not recorded; `no_context` if the resolver finds nothing, unless `without_context`.
    Cost: one judge call.

    Args:
        question: the decision, in words.
        classes: worth by class, at least two.
        descriptions: by class, when it applies.
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
    if stray := sorted((descriptions or {}).keys() - classes.keys()):
        raise ConfigError(f"{id}.descriptions", f"describes {stray[0]!r}, which is not a class")

    choice: Any = Annotated[
        Literal[tuple(classes)], BeforeValidator(lambda w: labels.get(normalise_word(w), w))
    ]
    schema: type[BaseModel] = create_model("Classification", reason=(str, ""), label=(choice, ...))
    shown = "\n".join(f"{label}: {(descriptions or {}).get(label, '')}".rstrip(": ") for label in classes)

    def score(params: Params[None, Any]) -> Score:
        label = params.results.analyze.label
        return Score(value=float(classes[label]), label=label)

    return (
        judge_scorer(
            id,
            model,
            INSTRUCTIONS,
            get_context=get_context,
            without_context=without_context,
            direction=direction,
            scale=None,
        )
        .analyze(
            PromptStep(
                prompt=CLASSIFICATION + (WITH_CONTEXT if get_context else ""),
                schema=schema,
                data=lambda params: {
                    "criterion": TrustedText(question),
                    "classes": TrustedText(shown),
                    "question": params.run.input or "",
                },
            )
        )
        .generate_score(score)
        .generate_reason(lambda params: params.results.analyze.reason)
    )
