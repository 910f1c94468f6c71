"""Resolvers: the evidence a judge is shown in addition to the input and output of a run."""

from otel_evals._internal.context import (
    Params,
    Resolver,
    Results,
    attribute,
    combine,
    conversation,
    documents,
    evidence,
    pure,
    resolve,
    static,
    tool_results,
)
from otel_evals._internal.model import Context

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
    "pure",
    "resolve",
    "static",
    "tool_results",
]
