"""Parses samplers from the text in configuration files."""

from __future__ import annotations

from typing import cast

from otel_evals._internal.sampling.algebra import Sampler, always, never, ratio
from otel_evals._internal.sampling.conditions import above, attribute, below, errors, slower_than, used_tool
from otel_evals._internal.sampling.rate_limits import per_minute, stratified
from otel_evals._internal.util.options import evaluate

_NAMED = above, always, attribute, below, errors, never, per_minute, ratio, slower_than, stratified, used_tool
_SAMPLERS = {sampler.__name__: sampler for sampler in _NAMED}
_HINT = "write for example 'ratio(0.05) | errors()'; samplers combine with | (either) and & (both)"


def parse(text: str) -> Sampler:
    """Parse a sampler; `str()` of a sampler can be parsed again.

    >>> str(parse("ratio(0.1) & (errors() | slower_than(5))"))
    'ratio(0.1) & (errors() | slower_than(5))'

    Raises:
        ConfigError: the text is not a sampler, or names one that does not exist.
    """
    return cast("Sampler", evaluate(text, _SAMPLERS, "sample", "sampler", _HINT))
