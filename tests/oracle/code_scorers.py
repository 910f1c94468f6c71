"""From a recorded case to our code-only scorer with the same options."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from otel_evals.model import Operation, OperationKind, Run, SpanRecord, ToolCall, Usage
from otel_evals.scorers import (
    FunctionScorer,
    Scorer,
    checks,
    completeness,
    content_similarity,
    keyword_coverage,
    textual_difference,
    tone_consistency,
    tool_call_accuracy,
    trajectory_accuracy,
    trajectory_quality,
)
from tests.oracle.cases import Case, snake, step_call
from tests.support.replacing import replace

RENAMED = {
    "max_total_tokens": "max_tokens",
    "max_total_duration_ms": "max_seconds",
    "blacklisted_tools": "forbidden_tools",
    "blacklisted_sequences": "forbidden_sequences",
    "allow_repeated_steps": "allow_repeats",
    "step_type": "kind",
    "tool_args": "arguments",
    "tool_result": "result",
    "expected_tool_order": "expected_order",
    "strict_mode": "strict",
    "children": "plan",
}
KINDS = {"tool_call": "tool", "mcp_tool_call": "tool", "agent_run": "agent", "workflow_step": "agent"}


def _options(case: Case) -> dict[str, Any]:
    return {snake(key): value for key, value in case.options.items() if not key.startswith("$")}


def _tools(case: Case) -> Scorer:
    return tool_call_accuracy(**{RENAMED.get(key, key): value for key, value in _options(case).items()})


def _check(case: Case) -> Scorer:
    options = case.args[-1] if case.args and isinstance(case.args[-1], dict) else {}
    args = case.args[:-1] if options else case.args
    return getattr(checks, snake(case.fn))(*args, **{snake(k): v for k, v in options.items()})


# --- trajectories ---


def _plan(recorded: Mapping[str, Any], types: Types) -> dict[str, Any]:
    """A recorded expectation in our words."""
    plan = {RENAMED.get(snake(key), snake(key)): value for key, value in recorded.items()}
    if "steps" in plan:
        plan["steps"] = [_step(step, types) for step in plan["steps"]]
    if "max_seconds" in plan:
        plan["max_seconds"] /= 1000
    return plan


def _step(recorded: Mapping[str, Any], types: Types) -> dict[str, Any]:
    step = {RENAMED.get(snake(key), snake(key)): value for key, value in recorded.items()}
    # Spans tell fewer kinds of steps apart: a step that was taken, but as another type, must match none.
    if "kind" in step and (step["name"], step["kind"]) in types:
        step["kind"] = KINDS.get(step["kind"], step["kind"])
    if isinstance(step.get("plan"), Mapping):
        step["plan"] = _plan(step["plan"], types)
    return step


Types = Collection[tuple[str, str]]
"""Names of the steps that were taken, each with its type."""


def _types(steps: Any) -> Iterator[tuple[str, str]]:
    for step in steps or ():
        yield step["name"], step["stepType"]
        yield from _types(step.get("children"))


def _taken(case: Case) -> Types:
    return set(_types((case.recorded.get("output") or {}).get("steps")))


def _accuracy(case: Case) -> Scorer:
    given = case.recorded.get("expectedTrajectory") or case.options.get("expectedTrajectory")
    given = {"steps": given} if isinstance(given, list) else given or {}
    compared = {
        **case.options.get("comparisonOptions", {}),
        **{k: v for k, v in given.items() if k != "steps"},
    }
    options = {RENAMED.get(snake(key), snake(key)): value for key, value in compared.items()}
    expected = [_step(step, _taken(case)) for step in given["steps"]] if given else lambda run: None
    return _on_steps(case, trajectory_accuracy(expected=expected, **options))


def _quality(case: Case) -> Scorer:
    plan = _plan(
        {**case.options.get("defaults", {}), **case.recorded.get("expectedTrajectory", {})}, _taken(case)
    )
    weights = {RENAMED.get(snake(key), snake(key)): w for key, w in case.options.get("weights", {}).items()}
    return _on_steps(case, trajectory_quality(plan, weights=weights))


def _on_steps(case: Case, scorer: FunctionScorer) -> Scorer:
    """The scorer, on a run whose spans are the recorded steps."""
    recorded = case.recorded.get("output") or {}
    run = _run(recorded.get("steps", ()), recorded.get("totalDurationMs"))
    return FunctionScorer(lambda _: scorer.function(run), id=scorer.id, scale=None)


def _run(steps: Any, duration: float | None) -> Run:
    root = Operation(span=SpanRecord(trace_id="", span_id="0"), kind=OperationKind.AGENT, convention="")
    operations, children = [root], {}
    for operation, below in _operations("0", steps, children):
        operations.append(operation)
        children[operation.span_id] = below
    usage = sum((o.usage for o in operations if o.usage), Usage())
    return Run(
        trace_id="",
        root_span_id="0",
        root_kind=OperationKind.AGENT,
        operations=tuple(operations),
        children=children,
        tool_calls=tuple(o.tool_call for o in operations if o.tool_call),
        usage=usage,
        end_time=_nanoseconds(steps if duration is None else [{"durationMs": duration}]),
    )


def _nanoseconds(steps: Any) -> int | None:
    """How long steps took together; None where not every one tells."""
    told = [step.get("durationMs") for step in steps]
    return int(sum(told) * 1e6) if told and None not in told else None


def _operations(
    parent: str, steps: Any, children: dict[str, tuple[str, ...]]
) -> Iterator[tuple[Operation, tuple[str, ...]]]:
    ids = tuple(f"{parent}.{i}" for i in range(len(steps)))
    children[parent] = ids
    for span_id, step in zip(ids, steps, strict=True):
        yield _operation(span_id, step), ()
        yield from _operations(span_id, step.get("children") or (), children)


def _operation(span_id: str, step: Mapping[str, Any]) -> Operation:
    kind = {"model_generation": OperationKind.INFERENCE}.get(step["stepType"], OperationKind.TOOL)
    kind = OperationKind.AGENT if KINDS.get(step["stepType"]) == "agent" else kind
    call: ToolCall | None = step_call(dict(step)) if kind is OperationKind.TOOL else None
    tokens = Usage(input_tokens=step.get("promptTokens", 0), output_tokens=step.get("completionTokens", 0))
    return Operation(
        span=SpanRecord(trace_id="", span_id=span_id, end_time=_nanoseconds(step.get("children") or [step])),
        kind=kind,
        convention="",
        name=step["name"],
        tool_call=replace(call, span_id=span_id) if call else None,
        usage=tokens if tokens.total_tokens else None,
    )


def _content_similarity(case: Case) -> Scorer:
    return content_similarity(**_options(case))


BUILD: dict[str, Callable[[Case], Scorer]] = {
    "check": _check,
    "completeness": lambda case: completeness(),
    "content-similarity": _content_similarity,
    "keyword-coverage": lambda case: keyword_coverage(),
    "textual-difference": lambda case: textual_difference(),
    "tone": lambda case: tone_consistency(**_options(case)),
    "tool-call-accuracy-code": _tools,
    "trajectory-accuracy-code": _accuracy,
    "trajectory-code": _quality,
}
