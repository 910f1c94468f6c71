"""Samplers: which runs a rule scores, and with which probability.

Combine samplers with `|` and `&`:

    from otel_evals import sampling

    sample = sampling.ratio(0.05) | sampling.errors()
"""

from otel_evals._internal.sampling.algebra import (
    Chance,
    Earlier,
    Sampler,
    SamplerFacts,
    always,
    never,
    ratio,
    recorded_probability,
)
from otel_evals._internal.sampling.conditions import (
    above,
    attribute,
    below,
    errors,
    slower_than,
    used_tool,
    when,
)
from otel_evals._internal.sampling.consistent import is_sampled, randomness, threshold
from otel_evals._internal.sampling.parser import parse
from otel_evals._internal.sampling.rate_limits import per_minute, stratified

__all__ = [
    "Chance",
    "Earlier",
    "Sampler",
    "SamplerFacts",
    "above",
    "always",
    "attribute",
    "below",
    "errors",
    "is_sampled",
    "never",
    "parse",
    "per_minute",
    "randomness",
    "ratio",
    "recorded_probability",
    "slower_than",
    "stratified",
    "threshold",
    "used_tool",
    "when",
]
