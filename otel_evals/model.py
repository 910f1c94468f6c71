"""The records that scorers and destinations receive: spans, operations, runs, scores and evaluations."""

from otel_evals._internal.model import *  # noqa: F403  # one list of names for both
from otel_evals._internal.model import __all__ as __all__
