"""Identities of conversations and evaluations, which are the same in every process and every time."""

from __future__ import annotations

from hashlib import sha256

from otel_evals import semconv
from otel_evals.model.runs import Run

__all__ = ["conversation_key", "evaluation_id"]


def conversation_key(run: Run) -> tuple[str, str]:
    """The identity of a conversation: service name and conversation id, each empty if not recorded."""
    return str(run.resource.get(semconv.SERVICE_NAME) or ""), run.conversation_id or ""


def evaluation_id(run: Run, scorer_id: str, scorer_version: str) -> str:
    """The id of an evaluation, derived from the judged span or conversation, scorer and scorer version."""
    target = "\0".join(conversation_key(run)) if run.turns else f"{run.trace_id}:{run.root_span_id}"
    identity = f"{target}:{scorer_id}:{scorer_version}"
    return sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:32]
