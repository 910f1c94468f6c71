"""The step at which a run went wrong, and the kind of failure, by a judge."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel

from otel_evals._internal.context import Params
from otel_evals._internal.judges.fence import Slot, TrustedText
from otel_evals._internal.judges.judge import Judge
from otel_evals._internal.model import NotScored, Run, Score
from otel_evals._internal.scorers.common import judge_scorer, normalise_word
from otel_evals._internal.scoring.prompt import PromptStep
from otel_evals._internal.scoring.run_steps import RunStep, run_steps
from otel_evals._internal.scoring.steps import StepScorer
from otel_evals.errors import ConfigError

CATEGORIES: Mapping[str, str] = MappingProxyType(
    {
        "instruction_not_followed": "a required step is left out, or one is taken that the rules forbid",
        "information_invented": "something is stated or used that neither the user nor a result has said",
        "call_invalid": "a tool is called with missing, malformed or wrong arguments",
        "result_misread": "a correct result of a tool, or another agent's message, is understood wrongly",
        "goal_missed": "the plan pursues something other than what the user wants",
        "request_unclear": "the user left out what is needed, and the agent went on without asking",
        "request_unsupported": "no tool at hand can do what the user wants",
        "guardrail_triggered": "a policy, a filter or an access rule blocked a step",
        "system_failed": "a tool, a server or the network failed, without a fault of the agent",
        "other": "none of these",
    }
)
"""Kinds of failures, after the taxonomy of AgentRx (Microsoft, 2026)."""

INSTRUCTIONS = """\
You find where an agent's run went wrong. A step is one operation: a call of a model or of a tool, or a
message. Errors that the agent noticed and repaired do not count."""

QUESTION = """\
Decide whether the run below failed: the user did not get what they asked for, was told something wrong, or a
rule was broken. If it failed, find the first step that is the cause of the failure, without which the run
would have succeeded. That is usually a step of a model that decided wrongly, not a later one in which the
mistake shows. Answer with failed, the number of that step, one of the categories, and the reason in one or
two sentences that name what in the step is wrong. For a run that did not fail, step is 0 and the category
empty.

The categories:
$categories

The steps, by number:
$steps"""


class FailureReply(BaseModel):
    failed: bool
    step: int = 0
    category: str = ""
    reason: str = ""


def failure_step(
    model: Judge | str,
    *,
    categories: Mapping[str, str] = CATEGORIES,
    id: str = "failure_step",
) -> StepScorer[list[RunStep], FailureReply]:
    """The step that made a run fail, its category and the reason.

    Range: 0 if the run failed, else 1; higher is better. Label: the category, or `none`.
    Formula: the judge decides. `Score.span_id` is the span of the step; the score's event, and scores in
    backends that take scores of spans, belong to that span.
    Needs: the operations of the run, or its messages and tool calls. Let the judge explore long runs.
    Not scored: `no_steps`.
    Cost: one judge call, and the calls of an exploration.

    Args:
        categories: descriptions of the kinds of failures by name.

    Raises:
        ConfigError: there are no categories, or the judge cannot be used.
    """
    if not categories:
        raise ConfigError(f"{id}.categories", "is empty: name at least one")
    names = {normalise_word(name): name for name in categories}

    def data(params: Params[list[RunStep], None]) -> dict[str, Slot]:
        described = "\n".join(f"{name}: {text}" for name, text in categories.items())
        steps = [f"{step.title}\n{step.text}" for step in params.results.preprocess]
        return {"categories": TrustedText(described), "steps": steps}

    def check(params: Params[list[RunStep], None], reply: FailureReply) -> str | None:
        if not reply.failed:
            return None
        if not 1 <= reply.step <= len(params.results.preprocess):
            return f"there is no step {reply.step}; the last one is {len(params.results.preprocess)}"
        return None if normalise_word(reply.category) in names else "the category is not one of the list"

    def score(params: Params[list[RunStep], FailureReply]) -> Score:
        reply = params.results.analyze
        if not reply.failed:
            return Score(value=1.0, label="none", explanation=reply.reason or None)
        step = params.results.preprocess[reply.step - 1]
        return Score(
            value=0.0,
            label=names[normalise_word(reply.category)],
            explanation=f"step {reply.step}, {step.title}: {reply.reason}",
            span_id=step.span[1] if step.span else None,
        )

    return (
        judge_scorer(id, model, INSTRUCTIONS, options={"categories": dict(categories)})
        .preprocess(lambda params: _steps(params.run))
        .analyze(PromptStep(prompt=QUESTION, schema=FailureReply, data=data, check=check))
        .generate_score(score)
    )


def _steps(run: Run) -> Any:
    steps = run_steps(run)
    if not any(step.text for step in steps):
        return NotScored(reason="no_steps", explanation="no step of the run has any content")
    return steps
