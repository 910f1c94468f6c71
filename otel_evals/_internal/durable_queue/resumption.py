"""Turns the tasks of a stored run back into evaluations to make."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from otel_evals._internal.config.rules import Rule
from otel_evals._internal.durable_queue.stored_run import StoredRun
from otel_evals._internal.evaluate.queue_interface import Resumption
from otel_evals._internal.model import OperationKind, Run, Sampled
from otel_evals._internal.read.conversation import as_conversation, evaluation_id
from otel_evals._internal.read.runs import subruns


def judged_runs(stored: StoredRun, runs: Sequence[Run]) -> Sequence[Run]:
    """Return the runs to judge: the runs of the stored spans, or the conversation they form."""
    is_conversation = any(task.scope == "conversation" for task in stored.status.tasks or ())
    return [as_conversation(runs)] if is_conversation and runs else runs


def resumptions(
    stored: StoredRun, runs: Sequence[Run], rules: Mapping[str, Rule]
) -> tuple[list[Resumption], list[int]]:
    """Return the evaluations to make now, and the positions of tasks whose rule is not configured here."""
    tasks = stored.status.tasks or ()
    roots = {run.root_span_id: run for run in runs}
    parts: dict[str, dict[str, Run]] = {"run": roots, "conversation": roots}
    found, absent = [], []
    for position in _left(stored):
        task = tasks[position]
        rule = rules.get(task.rule)
        if rule is None:
            absent.append(position)
            continue
        if rule.scope not in parts:
            parts[rule.scope] = {part.root_span_id: part for run in runs for part in subruns(run)}
        run = parts[rule.scope].get(task.target)
        if run is None:
            raise ValueError(f"the judged span {task.target} is no longer among the run's spans")
        if stored.lacking.get(task.target) != ():
            sampled = Sampled(task.probability, task.sampler)
            found.append(Resumption(task.rule, run, sampled, stored.status.revision))
    return found, absent


def expected_ids(
    stored: StoredRun, rules: Mapping[str, Rule], read: Callable[[], Sequence[Run]]
) -> dict[str, list[str]]:
    """Return the ids of the evaluations to make by rules configured here, by judged span.

    `read` assembles the stored spans; only the ids of conversations need it.
    """
    ids: dict[str, list[str]] = {}
    for position in _left(stored):
        task = (stored.status.tasks or ())[position]
        rule = rules.get(task.rule)
        if rule is not None:
            run = Run(trace_id=stored.trace_id, root_span_id=task.target, root_kind=OperationKind.OTHER)
            if rule.scope == "conversation":
                run = next((r for r in judged_runs(stored, read()) if r.root_span_id == task.target), run)
            judged = evaluation_id(run, rule.evaluates_as, rule.facts.version)
            ids.setdefault(task.target, []).append(judged)
    return ids


def _left(stored: StoredRun) -> Sequence[int]:
    left = stored.status.left
    return range(len(stored.status.tasks or ())) if left is None else left
