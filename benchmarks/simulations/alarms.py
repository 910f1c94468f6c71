"""Bands and detectors that are watched: false alarms, and how soon a fall is found."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from statistics import fmean, median

import numpy as np
from simulations.tables import row, table
from simulations.traffic import (
    LARGEST,
    LEVEL,
    POPULATIONS,
    RARE_ERRORS,
    Array,
    Population,
    beta,
    passing,
    rows,
    scored,
    sums_of,
)
from simulations.windows import hajek_plus_4

from otel_evals._internal.statistics.eprocess import log_e_value
from otel_evals.statistics import (
    CLUSTER_GROUPS,
    Clusters,
    Detector,
    ReferenceDetector,
    Sums,
    band,
    design_effect,
    shared_threshold,
    wander,
)


def buckets(x: Array, w: Array, size: int) -> Iterator[Sums]:
    """Sums of consecutive runs, so many in each."""
    whole = len(x) // size * size
    return rows(x[:whole].reshape(-1, size), w[:whole].reshape(-1, size))


def ever_missed(
    design: str, name: str, series: int, looks: int, every: int = 20
) -> tuple[float, float, float]:
    """Percent of series in which the band, and the closed window's interval, ever miss; ratio of last
    widths."""
    population, largest = POPULATIONS[name], LARGEST[design]
    rng = np.random.default_rng([3, *name.encode()])
    enough = math.log(2 / LEVEL)
    live, repeated, ratios = [], [], []
    for _ in range(series):
        x, w = scored(design, population, looks * every, rng)
        so_far = list(itertools.accumulate(buckets(x, w, every)))
        live.append(
            any(
                log_e_value(sums, population.mean, side, largest=largest) >= enough
                for sums in so_far
                for side in ("below", "above")
            )
        )
        repeated.append(any(population.mean not in hajek_plus_4(sums) for sums in so_far[4:]))
        ratios.append(band(so_far[-1], largest=largest).width / hajek_plus_4(so_far[-1]).width)
    return 100 * fmean(live), 100 * fmean(repeated), fmean(ratios)


def live(scale: float) -> None:
    """One band for all times."""
    table("design", "values", "band ever misses", "interval ever misses", "width", "expected")
    for design, name in itertools.product(("ratio", "errors"), ("mixed", "beta")):
        band_missed, interval_missed, ratio = ever_missed(design, name, int(300 * scale) + 5, 1000)
        expected = "0-1.5%, 42-46%, 1.8"
        row(design, name, f"{band_missed:.1f}%", f"{interval_missed:.1f}%", f"{ratio:.2f}", expected)


@dataclass(frozen=True)
class Fall:
    """Traffic whose mean is 0.9, and how it falls."""

    design: str
    at: Callable[[float], Population]
    """The population after a fall of so much."""
    errors: Callable[[float], float] = lambda fall: RARE_ERRORS


FALLS = {
    "ratio, 0/1": Fall("ratio", lambda fall: passing(0.9 - fall, 0.9 - fall)),
    "ratio, beta": Fall("ratio", lambda fall: beta(0.9 - fall, 10)),
    "errors, others fail": Fall("errors", lambda fall: passing(0.0, 1 - fall / 0.9)),
    "errors, more errors": Fall("errors", lambda fall: passing(0.0, 1.0), lambda fall: RARE_ERRORS + fall),
}


def stream(kind: str, fall: float, count: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Values and weights of scored runs, the mean having fallen by so much."""
    change = FALLS[kind]
    return scored(change.design, change.at(fall), count, rng, change.errors(fall))


def alarm_after(
    detector: Detector | ReferenceDetector, parts: Iterator[Sums], threshold: float
) -> int | None:
    """After how many buckets it alarms; None for never."""
    for number, bucket in enumerate(parts, start=1):
        detector = detector.updated(bucket)
        if detector.e_value >= threshold:
            return number
    return None


def floor_false(kind: str, series: int, period: int = 10_000, size: int = 10) -> float:
    """Percent of series at exactly the floor that alarm within the period."""
    rng = np.random.default_rng([31, *kind.encode()])
    start = Detector(0.9, period, LARGEST[FALLS[kind].design])
    alarms = 0
    for _ in range(series):
        parts = buckets(*stream(kind, 0.0, period * size, rng), size)
        alarms += alarm_after(start, parts, 1 / LEVEL) is not None
    return 100 * alarms / series


def expected_delay(detector: Detector, usual: Sums, fall: float, needed: float) -> int | None:
    """Return the approximate number of buckets until a detector reports a fall of the usual mean.

    Feeds the detector average buckets with a lower mean: scores of 0 and 1 fall as more runs fail, others as
    all become lower.

    Returns None if the fall would not be reported.
    """
    mean = usual.wx / usual.w
    # The variance, relative to scores of 0 and 1.
    share = max(0.0, usual.wxx / usual.w - mean * mean) / (mean * (1.0 - mean)) if mean < 1.0 else 1.0
    first = 1.0 - fall / mean
    # Scores of 0 and 1 keep x^2 = x, so both sums fall alike; if all scores fall, squares fall twice.
    second = first ** (2.0 - min(1.0, share))
    kept = {name: getattr(usual, name) * first for name in ("wx", "wwx")}
    kept |= {name: getattr(usual, name) * second for name in ("wxx", "wwxx")}
    fallen = replace(usual, x_min=0.0, **kept)
    for buckets in range(1, 100_000):
        detector = detector.updated(fallen)
        if detector.e_value >= needed:
            return buckets
    return None


def floor_delay(
    kind: str, fall: float, series: int, before: int = 200, size: int = 10
) -> tuple[float, float]:
    """Median number of scored runs until a fall is found, next to the prediction of `expected_delay`."""
    rng = np.random.default_rng([32, int(1000 * fall), *kind.encode()])
    start = Detector(0.9, 10_000, LARGEST[FALLS[kind].design])
    delays, usual = [], Sums()
    for _ in range(series):
        detector = start
        for bucket in buckets(*stream(kind, 0.0, before * size, rng), size):
            detector, usual = detector.updated(bucket), usual + bucket
        found = alarm_after(detector, buckets(*stream(kind, fall, 20_000, rng), size), 1 / LEVEL)
        delays.append(size * found if found else math.inf)
    foretold = expected_delay(start, shared(usual, before * series), fall, 1 / LEVEL)
    return median(delays), size * foretold if foretold else math.nan


def shared(sums: Sums, buckets: int) -> Sums:
    """The sums of an average bucket."""
    parts = {name: getattr(sums, name) / buckets for name in ("w", "wx", "wxx", "ww", "wwx", "wwxx")}
    return replace(sums, **parts)


def conversation_runs(icc: float, conversations: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Values of consecutive conversations of eight runs on average, mean 0.9, and each run's conversation."""
    strength = (1 - icc) / icc
    sizes = rng.geometric(1 / 8, conversations)
    rates = np.repeat(rng.beta(0.9 * strength, 0.1 * strength, conversations), sizes)
    return (rng.random(len(rates)) < rates).astype(float), np.repeat(np.arange(conversations), sizes)


def correlated_false(icc: float, series: int, period: int = 1000, size: int = 10) -> tuple[float, float]:
    """Percent of series at the floor that alarm, without and with the design effect of a reference period."""
    rng = np.random.default_rng([35, int(100 * icc)])
    alarms = [0, 0]
    for _ in range(series):
        x, which = conversation_runs(icc, 600, rng)
        groups = which % CLUSTER_GROUPS
        clusters = Clusters(
            tuple(np.bincount(groups, x, CLUSTER_GROUPS).tolist()),
            tuple(np.bincount(groups, minlength=CLUSTER_GROUPS).astype(float).tolist()),
        )
        effect = design_effect(sums_of(x, np.ones(len(x))), clusters)
        x, _ = conversation_runs(icc, period * size // 6, rng)
        for i, inflation in enumerate((1.0, effect)):
            parts = buckets(x[: period * size], np.ones(period * size), size)
            start = Detector(0.9, period, 1.0, inflation=inflation)
            alarms[i] += alarm_after(start, parts, 1 / LEVEL) is not None
    return 100 * alarms[0] / series, 100 * alarms[1] / series


def wandering(memory: float, spread: float, hours: int, runs: int, rng: np.random.Generator) -> Array:
    """Passed runs by ten minutes, of `runs` each: a mean of 0.9 that wanders with a memory in hours."""
    keep = math.exp(-1 / (6 * memory))
    steps = rng.normal(0, math.sqrt(1 - keep * keep), 6 * hours)
    steps[0] = rng.normal()
    wander = np.array(list(itertools.accumulate(steps, lambda old, new: keep * old + new)))
    return rng.binomial(runs, np.clip(0.9 + spread * wander, 0, 1)).astype(float)


def counted(passed: float, runs: int) -> Sums:
    """The sums of so many runs of weight 1."""
    return Sums(runs, runs, passed, passed, runs, passed, passed, 1.0, 0.0, 1.0)


def wandering_alarm(passed: Array, runs: int, floor: float, *, heeded: bool) -> int | None:
    """After how many steps of ten minutes a floor alarm is raised, one of six monitors."""
    hours = {i: counted(each, 6 * runs) for i, each in enumerate(passed.reshape(-1, 6).sum(1).tolist())}
    detector = Detector(floor, len(passed), 1.0, inflation=wander(hours) if heeded else 1.0)
    parts = (counted(each, runs) for each in passed.tolist())
    return alarm_after(detector, parts, shared_threshold(LEVEL, 6))


def wandering_false(memory: float, spread: float, runs: int, series: int) -> tuple[float, float]:
    """Percent of weeks at the floor that alarm, wandering ignored and heeded."""
    rng = np.random.default_rng([36, int(memory), int(1000 * spread), runs])
    found = []
    for _ in range(series):
        passed = wandering(memory, spread, 168, runs, rng)
        found.append(
            [wandering_alarm(passed, runs, 0.9, heeded=heeded) is not None for heeded in (False, True)]
        )
    return tuple(100 * fmean(column) for column in zip(*found, strict=True))  # type: ignore[return-value]


def wandering_delay(fall: float, runs: int, series: int) -> tuple[float, float]:
    """Median scored runs until a fall after five steady days is found, wandering ignored and heeded."""
    rng = np.random.default_rng([37, int(1000 * fall), runs])
    delays: list[list[float]] = []
    for _ in range(series):
        means = np.where(np.arange(1008) < 720, 0.9, 0.9 - fall)
        passed = rng.binomial(runs, means).astype(float)
        found = [wandering_alarm(passed, runs, 0.9, heeded=heeded) for heeded in (False, True)]
        delays.append([math.inf if each is None else (each - 720) * runs for each in found])
    ignored, heeded = (median(column) for column in zip(*delays, strict=True))
    return ignored, heeded


def wanderings(scale: float) -> None:
    """Means that wander, and the price of heeding it."""
    table("memory, hours", "spread", "runs per hour", "false, ignored", "false, heeded")
    for memory, spread, runs in itertools.product((1, 6, 12, 24), (0.03, 0.05), (10, 50)):
        ignored, heeded = wandering_false(memory, spread, runs, int(200 * scale) + 2)
        row(memory, spread, 6 * runs, f"{ignored:.1f}%", f"{heeded:.1f}%")
    table("fall", "runs per hour", "delay, ignored", "delay, heeded")
    for fall, runs in itertools.product((0.05, 0.1), (10, 50)):
        ignored, heeded = wandering_delay(fall, runs, int(100 * scale) + 2)
        row(fall, 6 * runs, f"{ignored:,.0f}", f"{heeded:,.0f}")


def small_fall(kind: str, size: float, daily: int, series: int) -> tuple[float, float, float]:
    """Percent of four-week streams in which the fall and the drift alarm find a small fall; median day.

    The mean is 0.9 for a week; then it falls by `size` at once, or evenly over four weeks.
    """
    rng = np.random.default_rng([38, int(1000 * size), daily, *kind.encode()])
    needed, quarters = shared_threshold(LEVEL, 6), 5 * 7 * 4
    runs = daily // 4
    days = np.arange(quarters) / 4
    lost = np.clip((days - 7) / 28, 0, 1) if kind == "slow" else (days >= 7).astype(float)
    found = []
    for _ in range(series):
        passed = rng.binomial(runs, 0.9 - size * lost).tolist()
        parts = [counted(each, runs) for each in passed]
        fell = any(
            alarm_after(
                ReferenceDetector.start(sum(parts[end - 28 : end - 24], Sums()), period=1008, largest=1.0),
                iter(parts[end - 24 : end]),
                needed,
            )
            for end in range(28, quarters + 1, 4)
        )
        pinned = ReferenceDetector.start(sum(parts[:28], Sums()), period=336, largest=1.0)
        drifted = alarm_after(pinned, iter(parts[28:]), needed)
        found.append((fell, drifted is not None, drifted / 4 if drifted else math.inf))
    fell_share, drift_share, delay = zip(*found, strict=True)
    return 100 * fmean(fell_share), 100 * fmean(drift_share), median(delay)


def small(scale: float) -> None:
    """Small and slow falls, by the alarms for falls and for drift."""
    table("change", "scored runs a day", "found by fall", "by drift", "median days")
    for (kind, size), daily in itertools.product(
        (("none", 0.0), ("at once", 0.02), ("at once", 0.05), ("slow", 0.1)), (200, 1000, 5000)
    ):
        fell, drifted, delay = small_fall(kind, size, daily, int(60 * scale) + 2)
        shown = "-" if math.isinf(delay) else f"{delay:.0f}"
        row(f"{size} {kind}" if size else "none", f"{daily:,}", f"{fell:.0f}%", f"{drifted:.0f}%", shown)


def floors(scale: float) -> None:
    """Falls below a floor."""
    table("design", "false", "fall .02", ".05", ".1", "formula", "expected")
    expected = ("0.3% 4,600 1,100 400", "0.3% 650 185 90", "0.7% 5,100 1,500 570", "0.7% 2,100 590 260")
    for kind, figures in zip(FALLS, expected, strict=True):
        false = floor_false(kind, int(300 * scale) + 2)
        found = [floor_delay(kind, fall, int(200 * scale) + 5) for fall in (0.02, 0.05, 0.1)]
        delays = (f"{delay:,.0f}" for delay, _ in found)
        row(kind, f"{false:.1f}%", *delays, " ".join(f"{formula:,.0f}" for _, formula in found), figures)
    table("conversations, icc", "false, taken for independent", "with the design effect", "expected")
    for icc, expected_false in ((0.2, "17%, 0.5-2%"), (0.5, "70%, 0.5-2%")):
        ignored, heeded = correlated_false(icc, int(300 * scale) + 2)
        row(icc, f"{ignored:.1f}%", f"{heeded:.1f}%", expected_false)


def reference_delay(size: int, fall: float, series: int, limit: int = 20_000) -> tuple[float, float]:
    """Against a reference window of so many scores: percent found, and the median delay in scored runs."""
    rng = np.random.default_rng([33, size, int(1000 * fall)])
    delays = []
    for _ in range(series):
        reference = sums_of(*stream("ratio, 0/1", 0.0, size, rng))
        detector = ReferenceDetector.start(reference, period=10_000, largest=10.0)
        found = alarm_after(detector, buckets(*stream("ratio, 0/1", fall, limit, rng), 10), 1 / LEVEL)
        delays.append(10 * found if found else math.inf)
    return 100 * fmean(delay < math.inf for delay in delays), median(delays)


def references(scale: float) -> None:
    """Falls against a reference window."""
    table("reference", "false", "fall .05: found, delay", ".1: found, delay", "expected")
    for size, expected in ((1000, "0% 7,800 (78%) 720"), (5000, "0% 1,740 520"), (20000, "0% 1,320 470")):
        false, _ = reference_delay(size, 0.0, int(60 * scale) + 2)
        shown = [reference_delay(size, fall, int(60 * scale) + 2) for fall in (0.05, 0.1)]
        row(size, f"{false:.0f}%", *(f"{found:.0f}%, {delay:,.0f}" for found, delay in shown), expected)


def e_bh(e_values: list[float], level: float) -> list[int]:
    """The monitors to list so that at most this share of them is false on average (e-BH: Wang, Ramdas 2022).

    The k largest e-values, for the largest k at which the k-th is at least K / (k a).
    """
    threshold = shared_threshold(level, len(e_values))
    order = sorted(range(len(e_values)), key=lambda index: -e_values[index])
    listed = max((k for k, i in enumerate(order, start=1) if e_values[i] * k >= threshold), default=0)
    return order[:listed]


def first_alarms(rng: np.random.Generator, slices: int, falling: int) -> dict[str, dict[int, int]]:
    """By correction and slice, in which of 400 buckets it alarmed first."""
    kind = "ratio, 0/1"
    parts = [
        [
            *buckets(*stream(kind, 0.0, 2000, rng), 10),
            *buckets(*stream(kind, 0.1 * (i < falling), 2000, rng), 10),
        ]
        for i in range(slices)
    ]
    detectors = [Detector(0.9, 1000, 10.0)] * slices
    first: dict[str, dict[int, int]] = {"uncorrected": {}, "Bonferroni": {}, "e-BH": {}}
    for number in range(400):
        detectors = [each.updated(parts[i][number]) for i, each in enumerate(detectors)]
        values = [each.e_value for each in detectors]
        listed = {
            "uncorrected": [i for i, e in enumerate(values) if e >= 1 / LEVEL],
            "Bonferroni": [i for i, e in enumerate(values) if e >= shared_threshold(LEVEL, slices)],
            "e-BH": e_bh(values, LEVEL),
        }
        for name, found in listed.items():
            for i in found:
                first[name].setdefault(i, number + 1)
    return first


def monitors(scale: float) -> None:
    """400 slices, of which 20 fall by 0.1 after 200 buckets."""
    repetitions, slices, falling = int(20 * scale) + 1, 400, 20
    false = {"uncorrected": 0, "Bonferroni": 0, "e-BH": 0}
    delays: dict[str, list[float]] = {name: [] for name in false}
    for repetition in range(repetitions):
        for name, first in first_alarms(np.random.default_rng([34, repetition]), slices, falling).items():
            false[name] += any(i >= falling or bucket <= 200 for i, bucket in first.items())
            delays[name] += [10 * (first.get(i, math.inf) - 200) for i in range(falling)]
    table("correction", "series with a false alarm", "median delay", "expected")
    for name, expected in zip(false, ("30% 350", "0% 550", "0% 500"), strict=True):
        row(name, f"{100 * false[name] / repetitions:.0f}%", f"{median(delays[name]):,.0f}", expected)
