"""Evaluators of other libraries as scorers."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import ModuleType
from typing import Any

from otel_evals._internal.model import (
    Direction,
    NotScored,
    Run,
    Score,
    SpanRecord,
    StepRecord,
    ToolCall,
    Usage,
)
from otel_evals._internal.scorers.bounds import built, extra_library
from otel_evals._internal.scorers.kit.fingerprint import fingerprint
from otel_evals._internal.scorers.kit.scorer import Scorer, missing, to_score
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
        direction: DeepEval's bias, toxicity and hallucination are lower-is-better.
        test_case: builds another LLMTestCase from a run, for instance with expected tools.

    Raises:
        ConfigError: the library is not installed, or `metric` is no metric of it.
    """
    name = id or "deepeval"
    theirs = extra_library("deepeval.metrics", name, "deepeval")
    made = built(metric, options, f"{name}.metric")
    if not isinstance(made, theirs.BaseMetric):
        raise ConfigError(f"{name}.metric", f"is not a DeepEval metric, but {made!r:.100}")
    cases = extra_library("deepeval.test_case", name, "deepeval")
    shown = "_".join(str(made.__name__).lower().split())
    return _Measured(made, id or shown, test_case or (lambda run: _case(run, cases)), Direction(direction))


@dataclass(frozen=True)
class _Measured(Scorer):
    metric: Any
    id: str
    test_case: Callable[[Run], Any]
    direction: Direction = Direction.HIGHER
    scale: float | None = 1.0
    version: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        settings = {k: v for k, v in vars(self.metric).items() if isinstance(v, str | int | float | list)}
        identity = (self.id, type(self.metric).__qualname__, repr(settings), self.direction)
        object.__setattr__(self, "version", fingerprint(*identity))

    async def score(self, run: Run) -> Score | NotScored:
        if (nothing := missing(run, "output")) is not None:
            return nothing
        metric = copy.copy(self.metric)  # a metric keeps its last measurement
        try:
            await metric.a_measure(self.test_case(run), _show_indicator=False)
        except Exception as error:
            if type(error).__name__ != "MissingTestCaseParamsError":
                raise
            return NotScored(reason="fields_missing", explanation=str(error))
        scored = to_score(metric.score)
        if isinstance(scored, NotScored):
            return scored
        return Score(value=scored.value, explanation=metric.reason, steps=_steps(metric))


def _steps(metric: Any) -> tuple[StepRecord, ...]:
    """Return the cost of the metric's judge, if a judge was asked."""
    used = Usage(input_tokens=metric.input_tokens or 0, output_tokens=metric.output_tokens or 0)
    if metric.evaluation_cost is None and not used.total_tokens:
        return ()
    model = metric.evaluation_model
    return (StepRecord(name="measure", model=model, usage=used, cost=metric.evaluation_cost),)


def _case(run: Run, cases: ModuleType) -> Any:
    documents = [document.content for document in run.documents if document.content] or None
    return cases.LLMTestCase(
        input=run.input or "",
        actual_output=run.output,
        expected_output=None if run.ground_truth is None else as_text(run.ground_truth),
        retrieval_context=documents,
        context=documents,
        tools_called=[_tool_call(call, cases) for call in run.tool_calls],
        completion_time=run.duration,
    )


def _tool_call(call: ToolCall, cases: ModuleType) -> Any:
    arguments = call.arguments if isinstance(call.arguments, dict) else None
    return cases.ToolCall(name=call.name, input_parameters=arguments, output=call.result)


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
    theirs = extra_library("pydantic_evals.evaluators", name, "pydantic-evals")
    made = built(evaluator, options, f"{name}.evaluator")
    if not isinstance(made, theirs.Evaluator):
        raise ConfigError(f"{name}.evaluator", f"is not a pydantic-evals evaluator, but {made!r:.100}")
    return _Evaluated(
        made, id or str(made.get_default_evaluation_name()), result, labels or {}, scale, Direction(direction)
    )


@dataclass(frozen=True)
class _Evaluated(Scorer):
    evaluator: Any
    id: str
    result: str | None
    labels: Mapping[str, float]
    scale: float | None
    direction: Direction = Direction.HIGHER
    version: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        identity = (self.id, repr(self.evaluator), self.result, dict(self.labels), self.scale, self.direction)
        object.__setattr__(self, "version", fingerprint(*identity))

    async def score(self, run: Run) -> Score | NotScored:
        """Evaluate the run; raise ValueError for an unknown label or several results."""
        if (nothing := missing(run, "output")) is not None:
            return nothing
        return self._scored(await self.evaluator.evaluate_async(_context(run)))

    def _scored(self, found: Any) -> Score | NotScored:
        value, reason = _with_reason(self._chosen(found))
        if isinstance(value, str):
            if value not in self.labels:
                raise ValueError(f"{self.id} returned the label {value!r}: give its value in `labels`")
            return Score(value=_worth(self.labels[value], self.scale), label=value, explanation=reason)
        scored = to_score(value, scale=self.scale)
        if isinstance(scored, Score):
            return Score(value=scored.value, label=scored.label, explanation=reason)
        return scored

    def _chosen(self, found: Any) -> Any:
        """Select the score from the results of the evaluator."""
        if not isinstance(found, Mapping):
            return found
        if self.result in found:
            return found[self.result]
        if self.result is None and len(found) == 1:
            return next(iter(found.values()))
        raise ValueError(
            f"{self.id} returned {', '.join(map(str, found))}: say in `result` which is the score"
        )


def _worth(worth: float, scale: float | None) -> float:
    scored = to_score(worth, scale=scale)
    return scored.value if isinstance(scored, Score) else math.nan


def _with_reason(found: Any) -> tuple[Any, str | None]:
    return (found.value, found.reason) if hasattr(found, "reason") else (found, None)


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
