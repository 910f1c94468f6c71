"""Each kind of monitor: what it finds in the steps of one scorer and agent."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Protocol, Self, TypeVar

from otel_evals.statistics import (
    Detector,
    ReferenceDetector,
    Sums,
    log_e_value_worse,
    missing_indicator,
    total,
)
from otel_evals_monitor._internal.store.queries import Measured

_Bucket = TypeVar("_Bucket", contravariant=True)


class _Detects(Protocol[_Bucket]):
    @property
    def e_value(self) -> float: ...

    def updated(self, bucket: _Bucket) -> Self: ...


@dataclass(frozen=True, slots=True)
class LabelledScore:
    """One label of a run that was drawn by chance."""

    time: int
    """When it was given, seconds since the Unix epoch."""
    agrees: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What the monitors of one scorer and agent look at."""

    scorer_id: str
    scorer_version: str
    agent_name: str
    scale: float
    scaled: bool
    lower_is_better: bool
    steps: Sequence[tuple[int, Measured]]
    """By start, in seconds; those without runs are left out."""
    reference_until: int
    """When the period ends that later steps are compared with."""
    largest: float
    """The largest weight of that period."""
    inflation: float
    """Its design effect."""
    versions: Mapping[str, Mapping[int, Measured]]
    """Steps by agent version."""
    labels: Sequence[LabelledScore] = ()
    """Of runs that were drawn by chance, in the order in which they were given."""

    def good(self, sums: Sums) -> Sums:
        """Sums in which high is good, with no weight above the largest."""
        right = flipped(sums) if self.lower_is_better else sums
        return limited(right, self.largest)


@dataclass(frozen=True, slots=True)
class Findings:
    """What a monitor found."""

    kind: str
    since: int | None = None
    """About when it began; None where there is no alarm now."""
    raised: int | None = None
    evidence: float | None = None
    text: str = ""


def floor(watched: Watched, limit: float, needed: float, period: float) -> Findings:
    """Whether the mean is below a floor; above a limit, where low scores are good. In 0..1."""
    mean = 1.0 - limit if watched.lower_is_better else limit
    detector = Detector(mean, int(period), watched.largest, inflation=watched.inflation)
    buckets = ((start, watched.good(step.scored)) for start, step in watched.steps)
    found = followed("floor", detector, buckets, needed)
    side = "above the limit" if watched.lower_is_better else "below the floor"
    return _told(found, lambda since: f"{_mean_since(watched, since)}, {side} of {limit * watched.scale:g}")


def fall(watched: Watched, needed: float, period: float) -> Findings:
    """Whether the mean is worse than in the reference period."""
    before = [step.scored for start, step in watched.steps if start < watched.reference_until]
    reference = watched.good(total(before))
    later = [(start, step) for start, step in watched.steps if start >= watched.reference_until]
    if reference.mean is None or not later:
        return Findings("fall")
    detector = ReferenceDetector.start(
        reference, period=int(period), largest=watched.largest, inflation=watched.inflation
    )
    found = followed("fall", detector, ((s, watched.good(step.scored)) for s, step in later), needed)
    mean = (1.0 - reference.mean if watched.lower_is_better else reference.mean) * watched.scale
    return _told(found, lambda since: f"{_mean_since(watched, since)}, {mean:.3f} in the period before")


def missing_share(watched: Watched, limit: float, needed: float, period: float) -> Findings:
    """Whether too many runs are without the score that they should have."""
    detector = Detector(limit, int(period), watched.largest, "above", watched.inflation)
    buckets = (
        (start, limited(missing_indicator(step.scored, step.lost), watched.largest))
        for start, step in watched.steps
    )
    found = followed("missing", detector, buckets, needed)

    def told(since: int) -> str:
        steps = [step for start, step in watched.steps if start >= since]
        lost, scored = sum(s.lost.w for s in steps), sum(s.scored.w for s in steps)
        share = lost / (lost + scored) if lost + scored else 0.0
        return f"{share:.0%} of the scores are missing since {clock(since)}, more than {limit:.0%}"

    return _told(found, told)


def worse_version(watched: Watched, needed: float, period: float) -> Findings:
    """Whether the agent's newest version is worse than the one before it."""
    firsts = sorted((min(steps), version) for version, steps in watched.versions.items() if version and steps)
    if len(firsts) < 2:
        return Findings("version")
    (_, old), (since, new) = firsts[-2:]
    first = watched.good(total(step.scored for step in watched.versions[old].values()))
    second = Sums()
    for step in watched.versions[new].values():
        second += watched.good(step.scored)
    if first.mean is None or second.mean is None:
        return Findings("version")
    both = (watched.largest, watched.largest)
    log = log_e_value_worse(first, second, largest=both, inflation=(watched.inflation, watched.inflation))
    evidence = math.exp(min(log, 200.0))
    raised = max(watched.versions[new]) if evidence >= needed else None
    if raised is None:
        return Findings("version", evidence=evidence)
    means = [_in_units(watched, sums) for sums in (first, second)]
    text = f"version {new} scores {means[1]:.3f}, version {old} scored {means[0]:.3f}"
    return Findings("version", since, raised, evidence, text)


def silence(watched: Watched, step: int, end: int) -> Findings:
    """Whether no run was sampled for three times the longest usual gap."""
    starts = [start for start, _ in watched.steps]
    if len(starts) < 20:
        return Findings("silence")
    gaps = sorted(later - earlier for earlier, later in pairwise(starts))
    usual = gaps[int(len(gaps) * 0.95)]
    last = starts[-1] + step
    if end - last < 3 * usual:
        return Findings("silence")
    text = f"no run has been sampled since {clock(last)}; usual gaps are {usual // 60} minutes at most"
    return Findings("silence", last, end, None, text)


def limited(sums: Sums, largest: float) -> Sums:
    """The sums with all weights reduced in proportion, where one exceeds the largest."""
    if sums.w_max <= largest:
        return sums
    r = largest / sums.w_max
    return replace(
        sums,
        w=sums.w * r,
        wx=sums.wx * r,
        wxx=sums.wxx * r,
        ww=sums.ww * r * r,
        wwx=sums.wwx * r * r,
        wwxx=sums.wwxx * r * r,
        w_max=largest,
    )


def flipped(sums: Sums) -> Sums:
    """The sums of 1 - x."""
    return replace(
        sums,
        wx=sums.w - sums.wx,
        wxx=max(0.0, sums.w - 2.0 * sums.wx + sums.wxx),
        wwx=sums.ww - sums.wwx,
        wwxx=max(0.0, sums.ww - 2.0 * sums.wwx + sums.wwxx),
        x_min=None if sums.x_max is None else 1.0 - sums.x_max,
        x_max=None if sums.x_min is None else 1.0 - sums.x_min,
    )


def followed(
    kind: str,
    detector: _Detects[_Bucket],
    buckets: Iterable[tuple[int, _Bucket]],
    needed: float,
) -> Findings:
    """Run a detector over time: an alarm begins with enough evidence, and ends when none is left."""
    since: int | None = None
    raised: int | None = None
    for start, bucket in buckets:
        detector = detector.updated(bucket)
        evidence = detector.e_value
        if evidence < 1.0:
            since = raised = None
        else:
            since = start if since is None else since
            raised = start if raised is None and evidence >= needed else raised
    evidence = detector.e_value
    return Findings(kind, since if raised is not None else None, raised, evidence)


def _told(found: Findings, text: Callable[[int], str]) -> Findings:
    return found if found.since is None else replace(found, text=text(found.since))


def _mean_since(watched: Watched, since: int) -> str:
    sums = total(step.scored for start, step in watched.steps if start >= since)
    mean = (sums.mean or 0.0) * watched.scale
    return f"the mean is {mean:.3f} since {clock(since)}"


def _in_units(watched: Watched, good: Sums) -> float:
    mean = good.mean or 0.0
    return (1.0 - mean if watched.lower_is_better else mean) * watched.scale


def clock(seconds: int) -> str:
    """A time as alarms tell it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
