"""Samplers and their algebra: which runs are scored, and how likely each was to be picked.

A sampler answers one question: how likely should a run like this one be picked? Whether it is picked then
follows from the trace id alone, so the decision is the same in every process, repeatable and explainable,
and a lower rate always picks a subset of what a higher rate picks:

    picked = randomness(trace id) >= (1 - probability) * 2**56

This is OpenTelemetry's consistent probability sampling (rejection thresholds on 56 random bits). Where the
trace carries `ot=th:...` in its tracestate, a head sampler has already rejected everything below that
threshold: rates then apply to what it kept, and the recorded probability is the product of both.

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
from otel_evals.sampling.cascades import above, below, in_order
from otel_evals.sampling.conditions import attribute, errors, slower_than, used_tool, when
from otel_evals.sampling.consistent import picks, randomness, share, threshold
from otel_evals.sampling.limits import per_minute, stratified
from otel_evals.sampling.words import parse

__all__ = [
    "Chance",
    "Earlier",
    "Sampler",
    "above",
    "always",
    "attribute",
    "below",
    "errors",
    "in_order",
    "never",
    "parse",
    "per_minute",
    "picks",
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
