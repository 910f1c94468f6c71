"""Monitors of what every mean rests on: that samplers pick as they say, and that people agree with scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, select

from otel_evals.statistics import Detector, PickDetector, Picks, Sums
from otel_evals_monitor._internal.alarms.watchers import Findings, LabelledScore, clock, followed
from otel_evals_monitor._internal.store import schema
from otel_evals_monitor._internal.store.label_draws import chances_of

_NANO = 1_000_000_000


def wrong_sampler(steps: Mapping[int, Picks], needed: float, period: float) -> Findings:
    """Whether a rule picks another share of runs than its probabilities say."""
    found = followed("sampler", PickDetector(int(period)), sorted(steps.items()), needed)
    if found.since is None:
        return found
    since = [picks for start, picks in steps.items() if start >= (found.since or 0)]
    total = sum(since, Picks())
    text = (
        f"{total.picked} of {total.runs} runs were sampled since {clock(found.since)}, and "
        f"{total.expected:.0f} were to be expected: means are not to be relied on"
    )
    return Findings(found.kind, found.since, found.raised, found.evidence, text)


def disagreement(labels: Sequence[LabelledScore], limit: float, needed: float, period: float) -> Findings:
    """Whether people agree with fewer of the scores than this share; labels in the order they were given."""
    detector = Detector(limit, int(period), 1.0)
    buckets = ((label.time, Sums.of(float(label.agrees), 1.0)) for label in labels)
    found = followed("agreement", detector, buckets, needed)
    if found.since is None:
        return found
    later = [label.agrees for label in labels if label.time >= (found.since or 0)]
    text = (
        f"people agree with {sum(later)} of {len(later)} scores that they labelled since "
        f"{clock(found.since)}, fewer than {limit:.0%}"
    )
    return Findings(found.kind, found.since, found.raised, found.evidence, text)


def agreements(connection: Connection) -> Mapping[int, Sequence[LabelledScore]]:
    """The labels of runs that were drawn by chance, by slice, in the order in which they were given."""
    labels, evaluations, slices = schema.labels.c, schema.evaluations.c, schema.slices.c
    chances = chances_of(connection)
    joined = schema.labels.join(schema.evaluations, evaluations.evaluation_id == labels.evaluation_id)
    joined = joined.join(schema.slices, slices.id == evaluations.slice_id)
    columns = (labels.evaluation_id, labels.label, labels.time, evaluations.x, evaluations.slice_id)
    query = select(*columns, slices.scale).select_from(joined).where(evaluations.x.is_not(None))
    found: dict[int, list[LabelledScore]] = {}
    for row in connection.execute(query.order_by(labels.time)):
        if row.evaluation_id in chances and row.scale:
            agrees = (row.label / row.scale >= 0.5) == (row.x >= 0.5)
            found.setdefault(row.slice_id, []).append(LabelledScore(row.time // _NANO, agrees))
    return found
