"""The share of appropriate tool calls, by a judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from otel_evals._internal.context import Params
from otel_evals._internal.judges.judge import Judge
from otel_evals._internal.model import NotScored, OperationKind, Run
from otel_evals._internal.scorers.bounds import unreadable
from otel_evals._internal.scorers.common import judge_scorer, one_verdict_each, round_half_up, with_reason
from otel_evals._internal.scoring.prompt import PromptStep
from otel_evals._internal.scoring.steps import StepScorer
from otel_evals._internal.util.plain import as_text

INSTRUCTIONS = """\
You judge an agent's choice of tools, not its final answer and not what the tools returned. Asking back is
as good as a call where the user left something out."""

EVALUATIONS = """\
Decide for each tool call below whether it was appropriate: the right tool for what the user wants, with
sensible arguments taken from what was said, and needed. A repeated call that brings nothing new is not
appropriate. Give one evaluation for each call, in their order: the tool (tool_called), was_appropriate, and
the reasoning in one sentence. Then list as missing_tools the tools that were at hand and should have been
called but were not; none where the user had to be asked back first.

The user said:
$input

The tools at hand:
$tools

The calls:
$calls"""

REASON = """\
An agent's choice of tools was judged. Its score is $score on a scale from 0, all wrong, to 1, all right.
Explain in two or three sentences which calls were right, which were not, and what was missing. Write in the
language of the user.

The user said:
$input

The evaluations:
$evaluations

Missing tools:
$missing"""


class CallVerdict(BaseModel):
    tool_called: str
    was_appropriate: bool
    reasoning: str = ""


class ToolCallsReply(BaseModel):
    evaluations: list[CallVerdict]
    missing_tools: list[str] = []


def tool_call_judge(
    model: Judge | str,
    *,
    available_tools: Sequence[str] | Mapping[str, str] | None = None,
    explain: bool = True,
    id: str = "tool_call_judge",
) -> StepScorer[None, ToolCallsReply]:
    """The share of the agent's tool calls that were appropriate for the user's request.

    Range: 0..1, higher is better.
    Formula: appropriate calls / calls, rounded to two decimals; without calls 0 if the judge names missing
    tools, else 1 (Mastra evals, tool call accuracy scorer, judge form).
    Needs: the user's words; the tools at hand from `available_tools`, by default from the tool definitions
    in the spans.
    Not scored: input not recorded; neither a tool call nor an answer recorded; `no_tools_known` if neither a
    tool call nor any tool at hand is known.
    Cost: two judge calls (evaluations, reason), one without `explain`.

    Args:
        available_tools: names of the tools at hand, or descriptions by name.

    Raises:
        ConfigError: the judge cannot be used.
    """

    def tools(run: Run) -> list[str]:
        if available_tools is None:
            return _defined(run)
        named = (
            available_tools.items()
            if isinstance(available_tools, Mapping)
            else ((t, "") for t in available_tools)
        )
        return [f"{name}: {description}".removesuffix(": ") for name, description in named]

    def data(params: Params[Any, Any]) -> dict[str, list[str] | NotScored]:
        absent = None if params.run.tool_calls else unreadable(params.run, "output")
        if absent is not None:
            return {"tools": absent, "calls": []}
        known = tools(params.run)
        if not known and not params.run.tool_calls:
            return {"tools": NotScored(reason="no_tools_known"), "calls": []}
        return {"tools": known, "calls": _calls(params)}

    scorer = (
        judge_scorer(id, model, INSTRUCTIONS)
        .analyze(
            PromptStep(
                prompt=EVALUATIONS,
                schema=ToolCallsReply,
                data=data,
                check=one_verdict_each(lambda reply: reply.evaluations, _calls),
            )
        )
        .generate_score(_score)
    )
    return with_reason(scorer, REASON, explain, _found)


def _score(params: Params[None, ToolCallsReply]) -> float:
    found = params.results.analyze
    if not found.evaluations:
        return 0.0 if found.missing_tools else 1.0
    return round_half_up(sum(e.was_appropriate for e in found.evaluations) / len(found.evaluations))


def _defined(run: Run) -> list[str]:
    """Return the distinct tools in the tool definitions of the model calls."""
    definitions = [d for o in run.of_kind(OperationKind.INFERENCE) for d in o.tool_definitions]
    definitions += run.root.tool_definitions if run.root else ()
    texts = [
        as_text({k: d[k] for k in ("name", "description", "function") if k in d} or d) for d in definitions
    ]
    return list(dict.fromkeys(texts))


def _calls(params: Params[Any, Any]) -> list[str]:
    return [f"{c.name}({'' if c.arguments is None else as_text(c.arguments)})" for c in params.run.tool_calls]


def _found(params: Params[None, ToolCallsReply]) -> dict[str, list[str]]:
    found = params.results.analyze
    lines = [
        f"{e.tool_called}: {'appropriate' if e.was_appropriate else 'not appropriate'} ({e.reasoning})"
        for e in found.evaluations
    ]
    return {"evaluations": lines, "missing": found.missing_tools}
