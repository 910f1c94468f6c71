"""Jobs and targets are themselves: two of the same run are two."""

from __future__ import annotations

from otel_evals import Rule, scorer
from tests.support.jobs import a_job


@scorer
def one(run: object) -> float:
    return 1.0


def test_a_job_begins_with_nothing_done_and_its_rule_awaited() -> None:
    rule = Rule(one)
    job = a_job(rule)
    assert (job.attempts, job.started, job.began, job.ended, job.timed_out) == (0, 0, 0.0, False, False)
    assert list(job.target.awaited) == [rule.name]
    assert (job.target.span_id, job.target.revision) == (job.run.root_span_id, 1)
    assert (job.target.evaluations, job.target.decisions) == ((), {})


def test_jobs_of_the_same_run_are_told_apart() -> None:
    rule = Rule(one)
    first = a_job(rule)
    second = a_job(rule, first.run)
    assert first != second
    assert len({first, second, first.target, second.target}) == 4
