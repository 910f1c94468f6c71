"""Whatever rules, scorers, traffic and ends meet: all channels tell the same outcomes, each of them once.

To repeat a round that failed: `python -m pytest -n 0 -m "" tests/behaviour/test_fuzz.py -k "[17]"`, its seed.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from otel_evals import Evaluation, Score, ScorerFailure, Stats
from tests.behaviour.fuzzing import Round
from tests.support.waits import eventually

NOT_EVALUATED = {"no_run", "not_captured", "other_version"}
"""Reasons of checks that found nothing to judge: counted, but no evaluation of a run."""
Outcome = tuple[str, str, int, str, Any]
Book = Counter[tuple[str, str, str | None]]
"""Outcomes by rule, status and reason."""


def outcome(evaluation: Evaluation) -> Outcome:
    found = evaluation.outcome
    value = found.value if isinstance(found, Score) else evaluation.reason
    return evaluation.rule, evaluation.evaluation_id, evaluation.revision, evaluation.status, value


def counted(stats: Stats) -> Book:
    """What the counters say became of the runs that each rule was asked about."""
    book = Book()
    for name, rule in stats.rules.items():
        book[name, "scored", None] += rule.scored
        for status in ("not_sampled", "not_scored", "failed", "dropped"):
            for reason, count in getattr(rule, status).items():
                book[name, status, reason] += count
    return +book


def evaluations_in(book: Book) -> Book:
    """Those outcomes that evaluations have."""
    return Book(
        {key: n for key, n in book.items() if key[1] != "not_sampled" and key[2] not in NOT_EVALUATED}
    )


def in_metrics(each: Round) -> Book:
    book = Book()
    for point in each.app.points("otel_evals.evaluations"):
        a = dict(point.attributes)
        reason = a.get("otel_evals.reason", a.get("error.type"))
        book[a["gen_ai.evaluation.name"], a["otel_evals.outcome"], reason] += point.value
    return +book


def in_explanations(each: Round) -> Book:
    book = Book()
    for trace in dict.fromkeys(each.traces):
        for decision in each.app.pipeline.explain(trace).decisions:
            reason = None if decision.status == "scored" else decision.reason
            book[decision.rule, decision.status, reason] += 1
    return book


def of_runs(each: Round, book: Book) -> Book:
    """Without conversations, of which explain tells for each of their runs, and checks that found no run."""
    names = {rule.name for rule in each.rules if rule.scope != "conversation"}
    return Book({key: n for key, n in book.items() if key[0] in names and key[2] not in NOT_EVALUATED})


def in_jsonl(path: Path) -> list[Outcome]:
    lines = path.read_text().splitlines() if path.exists() else []
    found = [e for line in lines for e in json.loads(line)["evaluations"]]
    return [
        (
            e["rule"],
            e["evaluation_id"],
            e["revision"],
            e["status"],
            e["value"] if e["status"] == "scored" else e["reason"],
        )
        for e in found
    ]


def check_channels(each: Round) -> None:
    app = each.app
    eventually(lambda: not app.pipeline.health().thread_alive)
    stats, sent = app.pipeline.stats(), app.pipeline.destination_stats()
    assert stats.check() == []
    assert {name: rule.pending for name, rule in stats.rules.items() if rule.pending} == {}
    assert (app.pipeline.health().pending, stats.conversations.waiting) == (0, 0)
    assert {name: s.pending for name, s in sent.items() if s.pending} == {}

    book = counted(stats)
    assert in_metrics(each) == book
    assert of_runs(each, in_explanations(each)) == of_runs(each, book)
    runs = {p.attributes.get("otel_evals.reason"): p.value for p in app.points("otel_evals.runs") if p.value}
    assert runs == {**({None: stats.eligible} if stats.eligible else {}), **stats.ignored}

    delivered = [outcome(evaluation) for evaluation in each.kept.evaluations]
    assert len({key[1:3] for key in delivered}) == len(delivered), "one outcome per id and revision"
    by_kind = Counter((name, end, None if end == "scored" else value) for name, _, _, end, value in delivered)
    assert by_kind <= evaluations_in(book)
    lost = {name: sum(counts.lost_evaluations.values()) for name, counts in sent.items()}
    assert not each.calm or not any(lost.values())
    total = evaluations_in(book).total()
    assert total - len(delivered) <= lost["memory"], "one that is being sent at the deadline counts as lost"

    written = in_jsonl(each.folder / "scores.jsonl")
    assert len(set(written)) == len(written)
    assert total - len(written) <= lost["jsonl"]
    if len(written) == len(delivered):
        assert set(written) == set(delivered)
    if len(delivered) == total and not lost["results"]:
        check_results(each.folder / "results.db", delivered)
    check_traces(each, list(each.kept.evaluations), whole=len(delivered) == total)


def check_results(path: Path, delivered: list[Outcome]) -> None:
    latest = {key[1]: key[2] for key in sorted(delivered, key=lambda key: key[2])}
    if not latest:  # there is no file without a run
        return
    with closing(sqlite3.connect(path)) as store:
        assert dict(store.execute("SELECT evaluation_id, revision FROM evaluations")) == latest


def check_traces(each: Round, evaluations: list[Evaluation], *, whole: bool) -> None:
    """Events and attributes are those of the delivered evaluations, if none was lost on the way."""
    told = {}
    for event in each.app.events():
        a = event.attributes
        value = a.get("gen_ai.evaluation.score.value", a.get("error.type"))
        told[a["otel_evals.evaluation.id"], a["otel_evals.evaluation.revision"]] = value
    known = {
        (e.evaluation_id, e.revision): e.outcome.value if isinstance(e.outcome, Score) else e.reason
        for e in evaluations
        if isinstance(e.outcome, Score | ScorerFailure)
    }
    assert len(told) == len(each.app.events())
    assert told == known if whole else known.items() <= told.items()
    on_spans = {}
    for span in each.app.exported.get_finished_spans():
        attributes = dict(span.attributes or {})
        for key, found in attributes.items():
            if key.startswith("otel_evals.score.") and key.count(".") == 2:
                on_spans[attributes[f"{key}.evaluation_id"]] = (f"{span.context.span_id:016x}", found)  # type: ignore[union-attr]
    names = {r.name for r in each.rules if r.scope != "conversation"}
    scored = {
        e.evaluation_id: (e.span_id, e.outcome.value)
        for e in evaluations
        if isinstance(e.outcome, Score) and e.rule in names
    }
    if whole:
        assert on_spans == scored if each.calm else on_spans.items() <= scored.items()


SEEDS = [*range(20), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(20, 220))]


@pytest.mark.parametrize("seed", SEEDS)
def test_every_outcome_is_counted_once_and_told_alike_in_every_channel(seed: int, tmp_path: Path) -> None:
    each = Round(seed, tmp_path)
    print(each)
    each.drive()
    each.end()
    check_channels(each)
