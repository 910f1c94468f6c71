"""Metrics of which any OpenTelemetry backend can compute the mean score of all runs, and its interval.

A histogram of the scores of sampled runs says nothing about the others as soon as a sampler looks at the run.
These counters are the sums behind weighted estimates (`otel_evals._internal.statistics.sums`): they add up
over processes and time, and their increase over a time window is all that the window's estimate needs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from opentelemetry.metrics import Meter

from otel_evals import semconv
from otel_evals._internal.deliver.record import tenant_of
from otel_evals._internal.model import Evaluation, Run, Score, ScorerFailure
from otel_evals._internal.util.error_log import tell

_logger = logging.getLogger(__name__)

MetricDimension = Literal["version", "tenant"]
"""What the estimates' counters can be told apart by, besides scorer and agent."""
_DIMENSIONS: Mapping[str, tuple[str, Callable[[Run], str]]] = {
    "version": (semconv.GEN_AI_AGENT_VERSION, lambda run: run.agent_version or ""),
    "tenant": (semconv.TENANT_ID, lambda run: str(tenant_of(run) or "")[:_LONGEST]),
}
_LONGEST = 200
_OTHER = "_OTHER"  # OpenTelemetry's word for a value that is not told
_MAX_NAMES = 100
_SCORED = ("scored", "", "")


class BoundedNames:
    """Bounds the number of an attribute's values: the first hundred stay, the others become `_OTHER`."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def __call__(self, name: str) -> str:
        """The name, or `_OTHER`."""
        if name not in self._known:
            if len(self._known) >= _MAX_NAMES:
                return _OTHER
            self._known.add(name)
        return name


@dataclass(slots=True, eq=False)
class _Series:
    """What came since the counters were last told, of one rule and agent."""

    attributes: dict[str, str]
    scale: float | None
    begun: bool = False
    runs: dict[tuple[str, str, str], float] = field(default_factory=dict)
    """Sums of w, by outcome and the attribute with its reason."""
    squares: float = 0.0
    scores: float = 0.0
    cross: float = 0.0
    score_squares: float = 0.0

    def add(self, weight: float, score: float) -> None:
        """Count a scored run."""
        self.runs[_SCORED] = self.runs.get(_SCORED, 0.0) + weight
        if self.scale:
            weighed = weight * score / self.scale
            self.squares += weight * weight
            self.scores += weighed
            self.cross += weight * weighed
            self.score_squares += weighed * weighed

    def clear(self) -> None:
        """All that came was told."""
        self.runs = {}
        self.squares = self.scores = self.cross = self.score_squares = 0.0


class Estimates:
    """Counts evaluations by the weight of their runs: one over the recorded probability.

    Evaluations without a recorded probability are not counted, and revisions are not counted again. Five
    counters a run cost as much as reading it: on a running event loop, they are told once for all runs of
    the loop's present turn.

    Args:
        meter: creates the instruments.
        scales: of the scorers, by the rule's name. A scorer that has none has no sums of scores.
        agents: bounds the number of agents' names.
        by: further attributes, `version` or `tenant`, each with a hundred values at most.
    """

    def __init__(
        self,
        meter: Meter,
        scales: Mapping[str, float | None],
        agents: BoundedNames,
        by: Iterable[MetricDimension] = (),
    ) -> None:
        self._scales = scales
        self._by = [(*_DIMENSIONS[name], BoundedNames()) for name in by]
        self._agents = agents
        self._reasons = BoundedNames()
        self._series: dict[tuple[str, ...], _Series] = {}
        self._untold: list[_Series] = []
        self._runs = meter.create_counter(
            semconv.METRIC_ESTIMATE_RUNS,
            unit="{run}",
            description="Runs for which the evaluated ones stand, by outcome: the sum of their weights w.",
        )
        self._squares = meter.create_counter(
            semconv.METRIC_ESTIMATE_RUNS_SQUARED, unit="1", description="Sum of w * w of scored runs."
        )
        self._scores = meter.create_counter(
            semconv.METRIC_ESTIMATE_SCORE,
            unit="1",
            description="Sum of w * x of scored runs, x being the score over its scale.",
        )
        self._cross = meter.create_counter(
            semconv.METRIC_ESTIMATE_SCORE_CROSS, unit="1", description="Sum of w * w * x of scored runs."
        )
        self._score_squares = meter.create_counter(
            semconv.METRIC_ESTIMATE_SCORE_SQUARED,
            unit="1",
            description="Sum of w * w * x * x of scored runs.",
        )

    def expect(self, rule: str, run: Run) -> None:
        """A rule begins to score a run: its series start at zero, so that their first increase shows."""
        series = self._of(self._key(rule, run))
        if not series.begun:
            series.begun = True
            series.runs.setdefault(_SCORED, 0.0)
            self._tell_soon(series)

    def record(self, run: Run, evaluation: Evaluation) -> str | None:
        """Count one evaluation; returns the name of its agent, bounded in number."""
        key = self._key(evaluation.rule or evaluation.scorer_id, run)
        weight, outcome = evaluation.sampled.weight, evaluation.outcome
        if weight is not None and evaluation.revision == 1:
            series = self._of(key)
            if isinstance(outcome, Score):
                series.add(weight, outcome.value)
            else:
                why = semconv.ERROR_TYPE if isinstance(outcome, ScorerFailure) else semconv.REASON
                ended = evaluation.status, why, self._reasons(evaluation.reason or "unknown")
                series.runs[ended] = series.runs.get(ended, 0.0) + weight
            self._tell_soon(series)
        return key[1] or None

    def _key(self, rule: str, run: Run) -> tuple[str, ...]:
        agent = self._agents(run.agent_name) if run.agent_name else ""
        return rule, agent, *(bounded(read(run)) for _, read, bounded in self._by)

    def _of(self, key: tuple[str, ...]) -> _Series:
        series = self._series.get(key)
        if series is None:
            rule, agent, *others = key
            attributes = {semconv.GEN_AI_EVALUATION_NAME: rule}
            if agent:
                attributes[semconv.GEN_AI_AGENT_NAME] = agent
            attributes.update(zip((name for name, _, _ in self._by), others, strict=True))
            series = self._series[key] = _Series(attributes, self._scales.get(rule))
        return series

    def _tell_soon(self, series: _Series) -> None:
        self._untold.append(series)
        if len(self._untold) == 1:
            try:
                asyncio.get_running_loop().call_soon(self._tell)
            except RuntimeError:
                self._tell()

    def _tell(self) -> None:
        untold, self._untold = self._untold, []
        for series in dict.fromkeys(untold):
            try:
                self._tell_of(series)
            except BaseException as error:  # somebody else's meter
                tell(_logger, "estimates could not be counted", error=error)
            series.clear()

    def _tell_of(self, series: _Series) -> None:
        for (outcome, why, reason), weight in series.runs.items():
            ended = {semconv.OUTCOME: outcome, why: reason} if why else {semconv.OUTCOME: outcome}
            self._runs.add(weight, {**series.attributes, **ended})
        if series.scale and _SCORED in series.runs:
            self._squares.add(series.squares, series.attributes)
            self._scores.add(series.scores, series.attributes)
            self._cross.add(series.cross, series.attributes)
            self._score_squares.add(series.score_squares, series.attributes)
