"""Evaluators of other libraries as scorers."""

from __future__ import annotations

import copy
import importlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from otel_evals._internal.model import Direction, NotScored, Run, Score, SpanRecord, StepRecord, Usage
from otel_evals._internal.scorers.bounds import built, extra_library
from otel_evals._internal.scorers.kit.fingerprint import fingerprint
from otel_evals._internal.scorers.kit.missing import missing
from otel_evals._internal.scorers.kit.scorer import Scorer, to_score
from otel_evals._internal.util.plain import as_text
from otel_evals.errors import ConfigError


def deepeval_metric(
    metric: Any,
    *,
    options: Mapping[str, Any] | None = None,
    id: str | None = None,
    direction: Direction = Direction.HIGHER,
    test_case: Callable[[Run], Any] | None = None,
) -> Scorer:
    """Wrap a metric of DeepEval as a scorer; needs DeepEval 4 or later.

    The metric gets the run's input, output, ground truth (as the expected output), documents (as the
    retrieval context, and as the context) and tool calls. A run without a field that the metric needs is
    not scored. DeepEval calls the judge: limits, budgets and fences of this package do not apply to it.

    Args:
        metric: a metric, or its class as `package.module:name`. Every run is measured with a copy.
        options: arguments of that class.
        id: of the scorer; by default the metric's name in lower_snake_case.
        direction: LOWER for the bias, toxicity and hallucination of DeepEval before 4.2.
        test_case: builds another LLMTestCase from a run, for instance with expected tools.

    Raises:
        ConfigError: the library is not installed, or `metric` is no metric of it.
    """
    name = id or "deepeval"
    theirs = extra_library("deepeval.metrics", name, "deepeval").BaseMetric
    made = _made(metric, options, f"{name}.metric", theirs, "a DeepEval metric")
    # Plain values only: the repr of a client contains an address, which differs between processes.
    settings = {k: v for k, v in vars(made).items() if isinstance(v, str | int | float | list)}
    shown = id or "_".join(str(made.__name__).lower().split())
    version = fingerprint(shown, type(made).__qualname__, repr(settings), direction)
    return _Adapted(made, partial(_measured, test_case or _case), shown, version, 1.0, Direction(direction))


@dataclass(frozen=True)
class _Adapted(Scorer):
    theirs: Any
    measure: Callable[[Any, Run], Awaitable[Score | NotScored]]
    id: str
    version: str
    scale: float | None
    direction: Direction = Direction.HIGHER

    async def score(self, run: Run) -> Score | NotScored:
        return missing(run, "output") or to_score(await self.measure(self.theirs, run), scale=self.scale)


def _made(given: Any, options: Mapping[str, Any] | None, field: str, wanted: type, what: str) -> Any:
    made = built(given, options, field)
    if not isinstance(made, wanted):
        raise ConfigError(field, f"is not {what}, but {made!r:.100}")
    return made


async def _measured(test_case: Callable[[Run], Any], metric: Any, run: Run) -> Score | NotScored:
    metric = copy.copy(metric)  # a metric keeps its last measurement
    try:
        await metric.a_measure(test_case(run), _show_indicator=False)
    except Exception as error:
        # DeepEval raises this for a test case without a field that the metric reads.
        if type(error).__name__ != "MissingTestCaseParamsError":
            raise
        return NotScored(reason="fields_missing", explanation=str(error))
    return Score(value=metric.score, explanation=metric.reason, steps=_steps(metric))


def _steps(metric: Any) -> tuple[StepRecord, ...]:
    """Return the cost of the metric's judge, if a judge was asked."""
    used = Usage(input_tokens=metric.input_tokens or 0, output_tokens=metric.output_tokens or 0)
    cost = metric.evaluation_cost
    if cost is None and not used.total_tokens:
        return ()
    return (StepRecord(name="measure", model=metric.evaluation_model, usage=used, cost=cost),)


def _case(run: Run) -> Any:
    cases = importlib.import_module("deepeval.test_case")
    documents = [document.content for document in run.documents if document.content] or None
    return cases.LLMTestCase(
        input=run.input or "",
        actual_output=run.output,
        expected_output=None if run.ground_truth is None else as_text(run.ground_truth),
        retrieval_context=documents,
        context=documents,
        # DeepEval accepts only an object as the arguments of a call.
        tools_called=[
            cases.ToolCall(
                name=call.name,
                input_parameters=call.arguments if isinstance(call.arguments, dict) else None,
                output=call.result,
            )
            for call in run.tool_calls
        ],
        completion_time=run.duration,
    )


def pydantic_evaluator(
    evaluator: Any,
    *,
    options: Mapping[str, Any] | None = None,
    id: str | None = None,
    result: str | None = None,
    labels: Mapping[str, float] | None = None,
    scale: float | None = 1.0,
    direction: Direction = Direction.HIGHER,
) -> Scorer:
    """Wrap an evaluator of pydantic-evals as a scorer; needs pydantic-evals 2 or later.

    The evaluator gets the run's input, output, ground truth (as the expected output), duration and spans;
    name, metadata and attributes of a case are empty, metrics contain the tokens. True is 1 and False is 0.

    Args:
        evaluator: an `Evaluator`, or its class as `package.module:name`.
        options: arguments of that class.
        id: of the scorer; by default the evaluator's own name.
        result: name of the result that is the score, if the evaluator returns several.
        labels: worth of the labels that it returns.
        scale: scores are within 0..scale; None accepts every finite number.
        direction: HIGHER if a higher score is better.

    Raises:
        ConfigError: the library is not installed, or `evaluator` is no evaluator of it.
    """
    name = id or "pydantic_evals"
    theirs = extra_library("pydantic_evals.evaluators", name, "pydantic-evals").Evaluator
    made = _made(evaluator, options, f"{name}.evaluator", theirs, "a pydantic-evals evaluator")
    shown, worth = id or str(made.get_default_evaluation_name()), dict(labels or {})
    version = fingerprint(shown, repr(made), result, worth, scale, direction)
    measure = partial(_evaluated, result, worth)
    return _Adapted(made, measure, shown, version, scale, Direction(direction))


async def _evaluated(
    result: str | None, labels: Mapping[str, float], evaluator: Any, run: Run
) -> Score | NotScored:
    """Evaluate the run; raise ValueError for an unknown label or several results."""
    found = await evaluator.evaluate_async(_context(run))
    if isinstance(found, Mapping):
        names = list(found) if result is None else [result]
        if len(names) != 1 or names[0] not in found:
            raise ValueError(
                f"the results are {', '.join(map(str, found))}: say in `result` which is the score"
            )
        found = found[names[0]]
    value, reason = (found.value, found.reason) if hasattr(found, "reason") else (found, None)
    if not isinstance(value, str):
        return Score(value=value, explanation=reason)
    if value not in labels:
        raise ValueError(f"the label is {value!r}: give its value in `labels`")
    return Score(value=labels[value], label=value, explanation=reason)


def _context(run: Run) -> Any:
    from pydantic_evals.evaluators import EvaluatorContext
    from pydantic_evals.otel.span_tree import SpanTree

    return EvaluatorContext(
        name=None,
        inputs=run.input,
        metadata=None,
        expected_output=run.ground_truth,
        output=run.output,
        duration=run.duration or 0.0,
        _span_tree=SpanTree(nodes_by_id={n.node_key: n for n in (_node(o.span) for o in run.operations)}),
        attributes={},
        metrics={"input_tokens": run.usage.input_tokens, "output_tokens": run.usage.output_tokens},
    )


def _node(span: SpanRecord) -> Any:
    from pydantic_evals.otel.span_tree import SpanNode

    status = "error" if span.status == "ERROR" else "ok" if span.status == "OK" else "unset"
    # Older versions have no status.
    more: dict[str, Any] = {"status": status} if "status" in SpanNode.__dataclass_fields__ else {}
    return SpanNode(
        name=span.name,
        trace_id=int(span.trace_id, 16),
        span_id=int(span.span_id, 16),
        parent_span_id=int(span.parent_span_id, 16) if span.parent_span_id else None,
        start_timestamp=datetime.fromtimestamp(span.start_time / 1e9, tz=UTC),
        end_timestamp=datetime.fromtimestamp((span.end_time or span.start_time) / 1e9, tz=UTC),
        attributes=dict(span.attributes),
        **more,
    )
