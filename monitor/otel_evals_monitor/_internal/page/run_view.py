"""A run as its page shows it: the selected score, and steps named after their actions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from otel_evals_monitor._internal.report.runs import RecordedEvaluation, RecordedRun
from otel_evals_monitor._internal.report.words import count

_ACTIONS = {
    "preprocess": "prepare the run",
    "analyze": "analyse the run",
    "generate_score": "compute the score",
    "generate_reason": "explain the score",
}
_MOST_ROWS, _MOST_COLUMNS = 200, 5


@dataclass(frozen=True, slots=True)
class Step:
    title: str
    prompt: Any
    result: Any
    columns: Sequence[str] = ()
    """Names of the columns if the result is a table."""


@dataclass(frozen=True, slots=True)
class RunView:
    run: RecordedRun
    link: str | None
    """Address of the trace in a tracing backend."""
    chosen: str
    """Id of the evaluation whose steps and label are shown, perhaps of another run of the trace."""

    @property
    def selected(self) -> RecordedEvaluation | None:
        """The chosen evaluation, if it is of this run."""
        return next((e for e in self.run.evaluations if e.columns["evaluation_id"] == self.chosen), None)

    @property
    def steps(self) -> list[Step]:
        return steps_of(self.selected) if self.selected else []

    @property
    def unsupported(self) -> list[str]:
        """Parts of the answer that a scorer's steps found nowhere."""
        steps = (step for each in self.run.evaluations for step in steps_of(each) if step.columns)
        found = (item for step in steps for item in step.result)
        return [str(each["text"]) for each in found if each.get("found") is False and each.get("text")]


def chosen_of(runs: Sequence[RecordedRun], wanted: str) -> str:
    """Return the wanted evaluation's id, or the worst score's."""
    every = [each for run in runs for each in run.evaluations]
    # The wanted one comes first.
    worst = sorted(every, key=lambda each: (each.columns["evaluation_id"] != wanted, _goodness(each)))
    return str(worst[0].columns["evaluation_id"]) if worst else ""


def _goodness(each: RecordedEvaluation) -> float:
    """Return the score in 0..1, where high is good; 2 without a score."""
    x: float | None = each.columns["x"]
    if x is None:
        return 2.0
    return 1.0 - x if each.slice["direction"] == "lower_is_better" else x


def steps_of(evaluation: RecordedEvaluation) -> list[Step]:
    """Return the recorded steps that have a prompt or a result."""
    return [
        _step(each)
        for each in evaluation.steps
        if each.get("prompt") or each.get("result") is not None or each.get("error")
    ]


def _step(recorded: Mapping[str, Any]) -> Step:
    name, model = str(recorded.get("name") or "step"), recorded.get("model")
    result: Any = recorded.get("result")
    action, columns = _ACTIONS.get(name, f"run {name}"), _columns(result)
    title = f"Asked {model} to {action}" if model else action.capitalize()
    if "found" in columns:
        missing = sum(each.get("found") is False for each in result)
        verdict = f"{missing} found nowhere" if missing else "all supported"
        title = f"Checked {count(len(result), 'fact')}: {verdict}"
    if recorded.get("error"):
        title, result = f"{title}, which failed", result or recorded["error"]
    return Step(title, recorded.get("prompt"), result[:_MOST_ROWS] if columns else result, columns)


def _columns(result: Any) -> Sequence[str]:
    """Return the keys of a list of flat objects; empty for other results."""
    if not isinstance(result, list) or not all(isinstance(each, dict) for each in result):
        return ()
    names = list(dict.fromkeys(str(name) for each in result for name in each))
    nested = any(isinstance(value, dict | list) for each in result for value in each.values())
    return () if nested or len(names) > _MOST_COLUMNS else names
