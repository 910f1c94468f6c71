"""Resolvers: the evidence a judge is shown in addition to the input and output of a run."""

from otel_evals._internal.model import Context
from otel_evals._internal.scorers.kit.context import (
    Params,
    Resolver,
    Results,
    attribute,
    combine,
    conversation,
    documents,
    evidence,
    resolve,
    static,
    tool_results,
)

__all__ = [
    "Context",
    "Params",
    "Resolver",
    "Results",
    "attribute",
    "combine",
    "conversation",
    "documents",
    "evidence",
    "resolve",
    "static",
    "tool_results",
]
