"""Made-up traffic with known means, and samples of it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from otel_evals import sampling
from otel_evals.model import OperationKind, Run
from otel_evals.statistics import Sums

Array = NDArray[Any]
RARE_ERRORS = 0.1
LEVEL = 0.05


@dataclass(frozen=True)
class Population:
    """Runs, a tenth of which end in an error, and the values they would get."""

    mean: float
    draw: Callable[[np.random.Generator, Array], Array]
    """Values, given which runs ended in an error."""


def passing(failed: float, others: float) -> Population:
    """0 or 1; `failed` of the runs with an error pass, `others` of the rest."""
    return Population(
        RARE_ERRORS * failed + (1 - RARE_ERRORS) * others,
        lambda rng, errors: (rng.random(errors.shape) < np.where(errors, failed, others)).astype(float),
    )


def beta(mean: float, strength: float, crashes: float = 0.0) -> Population:
    """Beta-distributed values; this share of them 0 instead."""

    def draw(rng: np.random.Generator, errors: Array) -> Array:
        values = rng.beta(mean * strength, (1 - mean) * strength, errors.shape)
        return values * (rng.random(errors.shape) >= crashes) if crashes else values

    return Population(mean * (1 - crashes), draw)


POPULATIONS = {
    "rare": passing(0.98, 0.98),
    "mixed": passing(0.2, 0.95),
    "half": passing(0.5, 0.5),
    "crash": beta(0.95, 200, crashes=0.005),
    "beta": beta(0.8, 10),
    "constant": beta(0.95, 10_000),
}


def inclusion(design: str, errors: Array) -> Array:
    """Each run's probability under a sampler that does not count runs."""
    if design == "ratio":
        return np.full(errors.shape, 0.1)
    return np.where(errors, 1.0, 0.05)


LARGEST = {"ratio": 10.0, "errors": 20.0}
SHARE = {"ratio": 0.1, "errors": RARE_ERRORS + (1 - RARE_ERRORS) * 0.05}


def limited_weights(design: str, picks: int, rng: np.random.Generator) -> Array:
    """Weights of runs picked one after the other by this project's own limiters."""
    now = 0.0
    if design == "stratified":
        sampler = sampling.stratified("agent_name", 5, clock=lambda: now)
    else:
        sampler = sampling.per_minute(15, clock=lambda: now)
    agents = [f"agent{i}" for i in rng.choice(4, 100_000, p=[0.6, 0.25, 0.1, 0.05])]
    weights: list[float] = []
    for number in itertools.count():
        burst = design == "bursty" and now % 1800 < 120
        now += rng.exponential(60 / (1200 if burst else 60))
        trace_id = rng.bytes(16).hex()
        run = Run(
            trace_id=trace_id,
            root_span_id="0" * 16,
            root_kind=OperationKind.AGENT,
            agent_name=agents[number % len(agents)],
        )
        probability = sampler.chance(run).probability
        if sampling.is_sampled(probability, int(trace_id, 16)):
            weights.append(1 / probability)
        if len(weights) == picks:
            return np.array(weights)
    raise AssertionError("the traffic never ends")


def rows(x: Array, w: Array) -> Iterator[Sums]:
    """The sums of each row of values and weights; a weight of 0 is a run that was not picked."""
    wx, ww = w * x, w * w
    columns = (
        (w > 0).sum(1),
        *(each.sum(1) for each in (w, wx, wx * x, ww, ww * x, wx * wx)),
        w.max(1),
    )
    for n, *numbers in zip(*(column.tolist() for column in columns), strict=True):
        yield Sums(n, *numbers, x_min=0.0, x_max=1.0)


def sums_of(x: Array, w: Array) -> Sums:
    """The sums of all these runs."""
    return next(rows(x[None, :], w[None, :]))


def scored(
    design: str, population: Population, count: int, rng: np.random.Generator, share: float = RARE_ERRORS
) -> tuple[Array, Array]:
    """Values and weights of so many picked runs, this share of all runs ending in an error."""
    # Enough runs that eight standard deviations do not leave too few.
    runs = math.ceil((count + 8 * math.sqrt(count) + 70) / SHARE[design])
    errors = rng.random(runs) < share
    probability = inclusion(design, errors)
    picked = np.flatnonzero(rng.random(runs) < probability)[:count]
    assert len(picked) == count
    return population.draw(rng, errors)[picked], 1 / probability[picked]
