"""Evaluators of pydantic-evals as scorers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from otel_evals._internal.model import Direction, NotScored, Run, Score, SpanRecord
from otel_evals._internal.scorers.extras import built, extra_library
from otel_evals._internal.scoring.fingerprint import fingerprint
from otel_evals._internal.scoring.scorer import Scorer, missing, to_score
from otel_evals.errors import ConfigError


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
