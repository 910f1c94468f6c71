"""Samplers and their algebra: which runs are scored, and with which probability.

A sampler gives each run a sampling probability. Whether the run is sampled then follows from the trace id
alone, so the decision is the same in every process and can be repeated and explained, and a lower probability
always samples a subset of what a higher one samples:

    sampled = randomness(trace id) >= (1 - probability) * 2**56

This is OpenTelemetry's consistent probability sampling (rejection thresholds on 56 random bits). Where the
trace has `ot=th:...` in its tracestate, a head sampler has already rejected everything below that threshold:
probabilities then apply to what it kept, and the recorded probability is the product of both.

    >>> sampler = ratio(0.05) | errors()
    >>> str(sampler)
    'ratio(0.05) | errors()'
"""

from otel_evals.sampling.algebra import (
    Chance,
    Earlier,
    Sampler,
    always,
    never,
    ratio,
    recorded_probability,
)
from otel_evals.sampling.cascades import above, below, cascade_order
from otel_evals.sampling.conditions import attribute, errors, slower_than, used_tool, when
from otel_evals.sampling.consistent import credible_state, is_sampled, randomness, share, threshold
from otel_evals.sampling.limits import per_minute, stratified
from otel_evals.sampling.parsing import parse

__all__ = [
    "Chance",
    "Earlier",
    "Sampler",
    "above",
    "always",
    "attribute",
    "below",
    "cascade_order",
    "credible_state",
    "errors",
    "is_sampled",
    "never",
    "parse",
    "per_minute",
    "randomness",
    "ratio",
    "recorded_probability",
    "share",
    "slower_than",
    "stratified",
    "threshold",
    "used_tool",
    "when",
]
