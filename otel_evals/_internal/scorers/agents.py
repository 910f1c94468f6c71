"""How an agent worked: its tool calls, its steps, and the step at which it failed, by a judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, create_model

from otel_evals._internal.judges.fence import TrustedText
from otel_evals._internal.judges.judge import Judge
from otel_evals._internal.model import NotScored, OperationKind, Run, Score, ToolCall
from otel_evals._internal.scorers.bounds import check_list, round_half_up, unreadable
from otel_evals._internal.scorers.judged import (
    Judgement,
    Slots,
    build,
    described,
    judgement,
    normalise_word,
    numbered,
    prompt_text,
)
from otel_evals._internal.scorers.kit.context import AnyParams, said_before
from otel_evals._internal.scorers.kit.run_steps import RunStep, run_steps
from otel_evals._internal.scorers.kit.steps import StepScorer
from otel_evals._internal.util.plain import as_text
from otel_evals.errors import ConfigError


def tool_call_judge(
    model: Judge | str,
    *,
    available_tools: Sequence[str] | Mapping[str, str] | None = None,
    id: str = "tool_call_judge",
) -> StepScorer[None, Any]:
    """The share of the agent's tool calls that were appropriate for the user's request.

    A call is right, or it uses the wrong tool (also one that is not at hand), makes up a required argument,
    has a wrong argument or lacks a condition, or is needless.

    Range: 0..1, higher is better.
    Formula: right calls / calls, rounded to two decimals; without calls 0 if the judge names missing calls,
    else 1 (Mastra evals, tool call accuracy scorer, judge form).
    Needs: the user's words; the tools at hand from `available_tools`, by default from the tool definitions
    in the spans; the conversation before, the system instructions and the final answer help.
    Not scored: input not recorded; neither a tool call nor an answer recorded; `no_tools_known` if neither a
    tool call nor any tool at hand is known.
    Cost: one judge call.

    Args:
        available_tools: names of the tools at hand, or descriptions by name.

    Raises:
        ConfigError: an option is no list, or the judge cannot be used.
    """
    check_list(f"{id}.available_tools", available_tools or ())

    def tools(run: Run) -> list[str]:
        if available_tools is None:
            return _defined(run)
        if isinstance(available_tools, Mapping):
            return described(available_tools).split("\n") if available_tools else []
        return list(available_tools)

    def slots(params: AnyParams) -> Slots:
        run = params.run
        absent = None if run.tool_calls else unreadable(run, "output")
        known = tools(run)
        if absent is None and not known and not run.tool_calls:
            absent = NotScored(reason="no_tools_known")
        unknown = "not known: take every tool that was called as one of them"
        none = TrustedText(unknown if available_tools is None else "none: every call is wrong_tool")
        return {
            "tools": absent or known or none,
            "calls": list(map(_call, run.tool_calls)),
            "earlier": said_before(run),
            "rules": run.system_instructions or "",
            "answer": run.output or "",
        }

    def score(params: AnyParams, kind: Judgement) -> Score:
        reply = params.results.analyze
        missing = [f"missing: {each}" for each in reply.missing]
        if not reply.calls:
            return Score(value=float(not missing), explanation="\n".join(["no calls", *missing]))
        judged: Score = kind.score(reply)
        return Score(value=judged.value, explanation="\n".join([judged.explanation or "", *missing]))

    return build("tool_call_judge", model, id=id, slots=slots, score=score, count=_calls)


def trajectory_judge(
    model: Judge | str,
    *,
    expected_steps: Sequence[str] | None = None,
    id: str = "trajectory_judge",
) -> StepScorer[None, Any]:
    """Necessity, order and completeness of the agent's steps (its tool calls).

    Range: 0..1, higher is better.
    Formula: 0.6 * necessary / steps + 0.3 * in order / steps + 0.1 * steps / (steps + missing steps),
    rounded to two decimals; without any step 0 if steps are missing, 0.5 if some were in vain, else 1
    (after Mastra evals, trajectory accuracy scorer, judge form, whose best score is 0.9).
    Needs: the user's words and the tool calls with their results; the final answer and the tool definitions
    in the spans help.
    Not scored: input not recorded.
    Cost: one judge call.

    Args:
        expected_steps: the steps that should have been taken, in words; by default the judge decides.

    Raises:
        ConfigError: an option is no list, or the judge cannot be used.
    """
    given = check_list(f"{id}.expected_steps", expected_steps or ())
    wanted = numbered(given) or TrustedText("not stated; decide by what the user wants")

    def slots(params: AnyParams) -> Slots:
        run = params.run
        return {
            "wanted": wanted,
            "tools": _defined(run) or TrustedText("not recorded"),
            "steps": [_with_result(c) for c in run.tool_calls],
            "answer": run.output or "",
        }

    return build("trajectory_judge", model, id=id, slots=slots, score=_trajectory_score, count=_calls)


def _trajectory_score(params: AnyParams, kind: Judgement) -> Score:
    reply = params.results.analyze
    taken, lost = len(reply.steps), len(reply.missing)
    noted = [_step_note(step) for step in reply.steps if not (step.necessary and step.in_order)]
    explanation = "\n".join(
        [f"{taken - len(noted)} of {taken} steps necessary and in order", *noted]
        + [f"missing: {step}" for step in reply.missing]
    )
    if not taken:
        return Score(value=0.0 if lost else 0.5 if reply.needless else 1.0, explanation=explanation)
    shares = {
        "necessary": sum(step.necessary for step in reply.steps) / taken,
        "in_order": sum(step.in_order for step in reply.steps) / taken,
        "complete": taken / (taken + lost),
    }
    value = sum(kind.worth[name] * share for name, share in shares.items())
    return Score(value=round_half_up(value), explanation=explanation)


def _step_note(step: Any) -> str:
    faults = [name for name, good in (("needless", step.necessary), ("misplaced", step.in_order)) if not good]
    return f"{' and '.join(faults)}: step {step.step}" + (f" ({step.reason})" if step.reason else "")


def failure_step(
    model: Judge | str,
    *,
    categories: Mapping[str, str] | None = None,
    assume_failed: bool = False,
    id: str = "failure_step",
) -> StepScorer[list[RunStep], Any]:
    """The step with the decisive mistake of a run that failed, the kind of mistake and the reason.

    The decisive mistake is the first one that was not put right and without which the run could have
    succeeded. Inputs, such as the task, cannot be blamed, unless a later one misled the agent.

    Range: 0 if the run failed, else 1; higher is better. Label: the category, or `none`.
    Formula: the judge decides. `Score.span_id` is the span of the step; the score's event, and scores in
    backends that take scores of spans, belong to that span.
    Needs: the operations of the run, or its messages and tool calls.
    Not scored: `no_steps`.
    Cost: one judge call.

    Args:
        categories: descriptions of the kinds of failures by name, the first that fits comes first. By default
            guardrail_triggered, system_failed, call_invalid, request_unsupported, request_unclear,
            goal_missed, result_misread, information_invented, instruction_not_followed and other, after
            AgentRx (Microsoft, 2026).
        assume_failed: the run is known to have failed, such as by another score; the judge names the step.

    Raises:
        ConfigError: there are no categories, or the judge cannot be used.
    """
    if categories is None:
        categories = failure_categories()
    if not categories:
        raise ConfigError(f"{id}.categories", "is empty: name at least one")
    names = {normalise_word(name): name for name in categories}

    def word(said: Any) -> Any:
        return names.get(normalise_word(said), said)

    # Empty too: a run that did not fail has no category.
    category: Any = Annotated[Literal[("", *categories)], BeforeValidator(word)]
    form = create_model("FailureReply", __base__=judgement("failure_step").reply, category=(category, ""))

    def slots(params: AnyParams) -> Slots:
        steps = [f"{step.title}\n{step.text}" for step in params.results.preprocess]
        return {"categories": described(categories), "steps": steps}

    def check(params: AnyParams, reply: Any) -> str | None:
        if not reply.failed:
            return "the run did fail: name the step" if assume_failed else None
        if not 1 <= reply.step <= len(params.results.preprocess):
            return f"there is no step {reply.step}; the last one is {len(params.results.preprocess)}"
        return None if reply.category else "the category is not one of the list"

    def score(params: AnyParams, kind: Judgement) -> Score:
        reply = params.results.analyze
        if not reply.failed:
            return Score(value=1.0, label="none", explanation=reply.reason or None)
        step = params.results.preprocess[reply.step - 1]
        return Score(
            value=0.0,
            label=reply.category,
            explanation=f"step {reply.step}, {step.title}: {reply.reason}",
            span_id=step.span_id,
        )

    asked: dict[str, Any] = {"slots": slots, "score": score, "check": check, "changes": {"reply": form}}
    # The categories are a part of the scorer's version.
    name = "known_failure" if assume_failed else "failure_step"
    scorer = build(name, model, id=id, options={"categories": dict(categories)}, **asked)
    return scorer.preprocess(lambda params: _steps(params.run))


def failure_categories() -> dict[str, str]:
    """Return kinds of failures that exclude each other, in the order in which they are tried."""
    instructions, _ = prompt_text("failure_categories")
    return dict(line.split(": ", 1) for line in instructions.splitlines())


def _steps(run: Run) -> Any:
    steps = run_steps(run)
    if not any(step.text for step in steps):
        return NotScored(reason="no_steps", explanation="no step of the run has any content")
    return steps


def _defined(run: Run) -> list[str]:
    """Return the distinct tools in the tool definitions of the model calls."""
    definitions = [d for o in run.of_kind(OperationKind.INFERENCE) for d in o.tool_definitions]
    definitions += run.root.tool_definitions if run.root else ()
    # Each model call records the definitions again.
    return list(dict.fromkeys(as_text(definition) for definition in definitions))


def _calls(params: AnyParams) -> int:
    return len(params.run.tool_calls)


def _call(call: ToolCall) -> str:
    return f"{call.name}({'' if call.arguments is None else as_text(call.arguments)})"


def _with_result(call: ToolCall) -> str:
    if call.status == "error":
        return f"{_call(call)}, failed: {call.error or call.error_type or 'no reason recorded'}"
    return _call(call) if call.result is None else f"{_call(call)} returned {as_text(call.result)}"
