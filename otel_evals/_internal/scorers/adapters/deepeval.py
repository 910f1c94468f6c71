"""Metrics of DeepEval as scorers."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from otel_evals._internal.model import Direction, NotScored, Run, Score, StepRecord, ToolCall, Usage
from otel_evals._internal.scorers.extras import built, extra_library
from otel_evals._internal.scoring.fingerprint import fingerprint
from otel_evals._internal.scoring.scorer import Scorer, missing, to_score
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
