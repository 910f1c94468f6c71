"""From a spooled run's tasks back to what there is to score."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from otel_evals.assembly.build import subruns
from otel_evals.assembly.conversation import as_conversation
from otel_evals.engine import Job
from otel_evals.judging import evaluation_id
from otel_evals.model import OperationKind, Outcome, Run, Sampled
from otel_evals.store.entry import Entry

__all__ = ["Picked", "Scoring", "expected_ids", "judged_runs", "pick_up"]


@dataclass(frozen=True, slots=True)
class Picked:
    """A task with the run it is about."""

    name: str
    """Of the rule."""
    run: Run
    sampled: Sampled
    place: int
    """Among the tasks."""


class Scoring(Protocol):
    """What judging does for the spool."""

    def finish(self, job: Job, outcome: Outcome) -> None:
        """End a job with an outcome."""

    def withdraw(self, job: Job, reason: str) -> None:
        """End a job without one: the spool has it."""

    def resume(self, picked: Sequence[Picked], entry: Entry) -> int:
        """Score what the spool kept; returns the number of judged spans."""

    @property
    def waiting(self) -> int:
        """Jobs that have no slot yet."""


def judged_runs(entry: Entry, runs: Sequence[Run]) -> Sequence[Run]:
    """What the tasks of an entry are about: the runs of its spans, or the conversation that these make."""
    whole = any(task.rule.endswith("@conversation") for task in entry.status.tasks or ())
    return [as_conversation(runs)] if whole and runs else runs


def pick_up(entry: Entry, runs: Sequence[Run], rules: Mapping[str, Any]) -> tuple[list[Picked], list[int]]:
    """The tasks of an entry that are to be done now, and those whose rule is not configured.

    `runs` are its judged runs.

    Raises:
        ValueError: the spans do not hold a judged span any more.
    """
    tasks = entry.status.tasks or ()
    left = _left(entry)
    whole = {run.root_span_id: run for run in runs}
    parts: dict[str, dict[str, Run]] = {"run": whole, "conversation": whole}
    picked, absent = [], []
    for place in left:
        task = tasks[place]
        rule = rules.get(task.rule)
        if rule is None:
            absent.append(place)
            continue
        if rule.scope not in parts:
            parts[rule.scope] = {part.root_span_id: part for run in runs for part in subruns(run)}
        run = parts[rule.scope].get(task.target)
        if run is None:
            raise ValueError(f"its spans do not hold the judged span {task.target} any more")
        if entry.lacking.get(task.target) != ():
            picked.append(Picked(task.rule, run, Sampled(task.probability, task.words), place))
    return picked, absent


def expected_ids(
    entry: Entry, rules: Mapping[str, Any], read: Callable[[], Sequence[Run]]
) -> dict[str, list[str]]:
    """By judged span: the ids of the evaluations that are to be made, where their rules are configured.

    `read` makes the runs of its spans, without which the id of a conversation's evaluation cannot be told.
    """
    ids: dict[str, list[str]] = {}
    for place in _left(entry):
        task = (entry.status.tasks or ())[place]
        rule = rules.get(task.rule)
        if rule is not None:
            run = Run(trace_id=entry.trace_id, root_span_id=task.target, root_kind=OperationKind.OTHER)
            if rule.scope == "conversation":
                run = next((r for r in judged_runs(entry, read()) if r.root_span_id == task.target), run)
            ids.setdefault(task.target, []).append(evaluation_id(run, rule.scorer))
    return ids


def _left(entry: Entry) -> Sequence[int]:
    return range(len(entry.status.tasks or ())) if entry.status.left is None else entry.status.left
