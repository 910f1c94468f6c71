"""The kinds of monitors, each for the time steps of a scorer and agent."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any

from otel_evals.errors import ConfigError
from otel_evals.statistics import (
    Detector,
    PickDetector,
    Picks,
    ReferenceDetector,
    Sums,
    log_e_value_worse,
    missing_indicator,
    total,
)
from otel_evals_monitor._internal.alarms.limits import PERIOD, STEP
from otel_evals_monitor._internal.report.words import Zone
from otel_evals_monitor._internal.store.queries import Measured

_clock = Zone().full


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    scorer_id: str
    agent_name: str
    scale: float
    scaled: bool
    lower_is_better: bool
    steps: Sequence[tuple[int, Measured]]
    """Steps with runs, by start in seconds."""
    reference: Sums
    """Of the period that falls are measured against."""
    reference_window: tuple[int, int]
    """Its start and end in seconds."""
    pinned: Sums
    """Of the first week; without runs until it is over."""
    periods: Sequence[tuple[int, Sums]]
    """Sums of the quarters of days after the first week, by start."""
    largest: float
    """Largest weight of the reference period."""
    inflation: float
    """Factor by which users, conversations and slow changes inflate the variance of the reference period."""
    versions: Mapping[str, Mapping[int, Measured]]
    """Steps by agent version, of the newest scorer version."""
    scorer_began: tuple[str, int] | None = None
    """The newest scorer version and its first step, if there was another before."""

    def good(self, sums: Sums) -> Sums:
        """Return sums in which high is good, with no weight above the largest."""
        return limited(flipped(sums) if self.lower_is_better else sums, self.largest)


@dataclass(frozen=True, slots=True)
class Findings:
    kind: str
    since: int | None = None
    """Approximate start; None without evidence."""
    raised: int | None = None
    """Time at which the evidence was enough for an alarm; None before."""
    evidence: float | None = None
    """None if there is nothing to compare with."""
    text: str = ""
    before: float | None = None
    """The mean, or share, that it is compared with."""
    now: float | None = None
    """The mean, or share, since then."""
    reference: tuple[int, int] | None = None
    """Start and end of the period that a fall was measured against."""
    version: str = ""
    """The agent's version that is worse."""


def floor(watched: Watched, limit: float, needed: float) -> Findings:
    """Detect a mean below a floor, or above it if low scores are good; `limit` is in 0..1."""
    steps = [(start, step.scored) for start, step in watched.steps]
    level, side = limit, "below the floor"
    # `good` flips scores of which low is good, so an upper limit becomes a floor.
    if watched.lower_is_better:
        level, side = 1.0 - limit, "above the limit"
    if not 0.0 <= level <= 1.0:
        raise ConfigError(f"floors.{watched.scorer_id}", f"must be in 0..{watched.scale:g}")
    detector = Detector(level, PERIOD, watched.largest, inflation=watched.inflation)
    found = followed("floor", detector, ((start, watched.good(sums)) for start, sums in steps), needed)
    return _of_mean(watched, found, steps, limit, f", {side} of {limit * watched.scale:g}")


def fall(watched: Watched, needed: float) -> Findings:
    """Detect a mean that is worse than in the reference period."""
    start, until = watched.reference_window
    # Runs of the reference must not be evidence against it.
    steps = [(at, step.scored) for at, step in watched.steps if at >= until]
    before = f"in the reference from {_clock(start)} to {_clock(until)}"
    found = _against(watched, "fall", watched.reference, steps, needed, PERIOD, before)
    return replace(found, reference=(start, until))


def drift(watched: Watched, needed: float, period: int) -> Findings:
    """Detect a mean that has become slightly worse over weeks."""
    before = "in the reference, the first week"
    return _against(watched, "drift", watched.pinned, watched.periods, needed, period, before)


def _against(
    watched: Watched,
    kind: str,
    reference: Sums,
    steps: Sequence[tuple[int, Sums]],
    needed: float,
    period: int,
    before: str,
) -> Findings:
    if reference.mean is None or not steps:
        return Findings(kind)
    options = {"largest": watched.largest, "inflation": watched.inflation}
    detector = ReferenceDetector.start(watched.good(reference), period=period, **options)
    found = followed(kind, detector, ((at, watched.good(sums)) for at, sums in steps), needed)
    text = f"; it was {reference.mean * watched.scale:.3f} {before}"
    # Another version of the scorer may score the same answers differently.
    if watched.scorer_began and watched.scorer_began[1] >= watched.reference_window[0]:
        version, began = watched.scorer_began
        text += f". Version {version[:20]} of the scorer is in use since {_clock(began)}"
        text += " and may be the cause"
    return _of_mean(watched, found, steps, reference.mean, text)


def _of_mean(
    watched: Watched, found: Findings, steps: Iterable[tuple[int, Sums]], before: float, text: str
) -> Findings:
    """Return findings about a mean with its values before and now, in units of the score."""
    since, scale = found.since or 0, watched.scale
    now = (total(sums for start, sums in steps if start >= since).mean or 0.0) * scale
    text = f"the mean is {now:.3f} since {_clock(since)}{text}"
    return replace(found, before=before * scale, now=now, text=text)


def missing_share(watched: Watched, limit: float, needed: float) -> Findings:
    detector = Detector(limit, PERIOD, watched.largest, "above", watched.inflation)
    buckets = (
        (start, limited(missing_indicator(step.scored, step.lost), watched.largest))
        for start, step in watched.steps
    )
    found = followed("missing", detector, buckets, needed)
    since = found.since or 0
    steps = [step for start, step in watched.steps if start >= since]
    lost = sum(step.lost.w for step in steps)
    share = lost / (lost + sum(step.scored.w for step in steps) or 1.0)
    text = f"{share:.0%} of the scores are missing since {_clock(since)}, more than {limit:.0%}"
    return replace(found, before=limit, now=share, text=text)


def worse_version(watched: Watched, needed: float) -> Findings:
    firsts = sorted((min(steps), version) for version, steps in watched.versions.items() if version and steps)
    if len(firsts) < 2:
        return Findings("version")
    (_, old), (since, new) = firsts[-2:]
    first = watched.good(total(step.scored for step in watched.versions[old].values()))
    steps = sorted(watched.versions[new])
    sums = list(accumulate(watched.good(watched.versions[new][start].scored) for start in steps))
    last = sums[-1]
    if first.mean is None or last.mean is None:
        return Findings("version")
    both = (watched.largest, watched.largest)

    def evidence(second: Sums) -> float:
        # `math.exp` raises OverflowError from e^710 on.
        effects = (watched.inflation, watched.inflation)
        return math.exp(min(log_e_value_worse(first, second, largest=both, inflation=effects), 200.0))

    before, now = first.mean, last.mean
    if watched.lower_is_better:
        before, now = 1.0 - before, 1.0 - now
    before, now = before * watched.scale, now * watched.scale
    latest = evidence(last)
    found = Findings("version", None, None, latest, "", before=before, now=now, version=new)
    if latest < 1.0:
        return found
    found = replace(found, since=since)
    if latest < needed:
        return found
    # Each e-value needs a search over all means, so evidence is taken as growing and bisected.
    raised = bisect_left(sums, True, key=lambda each: evidence(each) >= needed)
    text = f"version {new} scores {now:.3f}, version {old} scored {before:.3f}"
    return replace(found, raised=steps[min(raised, len(steps) - 1)], text=text)


def silence(starts: Sequence[int], end: int) -> Findings:
    """Detect that no run was sampled for three times the longest usual gap, unlike on earlier days.

    `starts` has the steps with runs, in order. A pause at a time of day at which there were no runs on an
    earlier day is usual.
    """
    if len(starts) < 20:
        return Findings("silence")
    gaps = sorted(later - earlier for earlier, later in pairwise(starts))
    # Not the maximum: one earlier outage must not count as usual.
    usual = gaps[int(len(gaps) * 0.95)]
    last = starts[-1] + STEP
    if end - last < 3 * usual:
        return Findings("silence")
    for days in range(1, 8):
        back = days * 86_400
        # A store younger than a day cannot know quiet hours, so it reports no silence.
        covered = days == 1 or last - back >= starts[0]
        if covered and sum(last - back <= start < end - back for start in starts) < 3:
            return Findings("silence")
    text = f"no run has been sampled since {_clock(last)}; usual gaps are at most {usual // 60} minutes"
    return Findings("silence", last, end, None, text)


def limited(sums: Sums, largest: float) -> Sums:
    """Return the sums with all weights reduced in proportion, if one exceeds the largest."""
    if sums.w_max <= largest:
        return sums
    # In proportion, since sums do not show which runs have the large weights.
    r = largest / sums.w_max
    once = {name: getattr(sums, name) * r for name in ("w", "wx", "wxx")}
    twice = {name: getattr(sums, name) * r * r for name in ("ww", "wwx", "wwxx")}
    return replace(sums, **once, **twice, w_max=largest)


def flipped(sums: Sums) -> Sums:
    """Return the sums of 1 - x."""
    return replace(
        sums,
        wx=sums.w - sums.wx,
        wxx=max(0.0, sums.w - 2.0 * sums.wx + sums.wxx),
        wwx=sums.ww - sums.wwx,
        wwxx=max(0.0, sums.ww - 2.0 * sums.wwx + sums.wwxx),
        x_min=None if sums.x_max is None else 1.0 - sums.x_max,
        x_max=None if sums.x_min is None else 1.0 - sums.x_min,
    )


def followed(kind: str, detector: Any, buckets: Iterable[tuple[int, Any]], needed: float) -> Findings:
    """Run a detector over time; an alarm starts with enough evidence and ends without any."""
    since: int | None = None
    raised: int | None = None
    for start, bucket in buckets:
        detector = detector.updated(bucket)
        evidence = detector.e_value
        # Below 1, the buckets speak against a change, so an alarm is over.
        if evidence < 1.0:
            since = raised = None
        else:
            since = start if since is None else since
            raised = start if raised is None and evidence >= needed else raised
    return Findings(kind, since, raised, detector.e_value)


def wrong_sampler(steps: Mapping[int, Picks], needed: float) -> Findings:
    """Detect a rule that picks another share of runs than its probabilities state."""
    found = followed("sampler", PickDetector(PERIOD), sorted(steps.items()), needed)
    since = found.since or 0
    picks = sum((each for start, each in steps.items() if start >= since), Picks())
    sampled = f"{picks.picked} of {picks.runs} runs were sampled since {_clock(since)}"
    text = f"{sampled}, and {picks.expected:.0f} were expected: do not rely on the means"
    return replace(found, text=text)
