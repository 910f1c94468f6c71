"""Identities of conversations and evaluations, the same in every process."""

from __future__ import annotations

import json
from hashlib import sha256

from otel_evals import semconv
from otel_evals._internal.model.runs import Run

_LONGEST_ID = 256


def conversation_key(run: Run) -> tuple[str, str, str]:
    """Return service name, conversation id and user id, each empty if not recorded.

    Applications number conversations for each user, or call all of them "default", so conversations of two
    users are never one. A digest replaces an id longer than 256 characters, because keys are kept for long.
    """
    service = str(run.resource.get(semconv.SERVICE_NAME) or "")
    return _short(service), _short(run.conversation_id or ""), _short(run.user_id or "")


def conversation_digest(run: Run) -> str:
    """Return a digest of the conversation's key, the same in every process."""
    key = json.dumps(conversation_key(run))
    return sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _short(name: str) -> str:
    if len(name) <= _LONGEST_ID:
        return name
    return "sha256:" + sha256(name.encode("utf-8", "surrogatepass")).hexdigest()


def evaluation_id(run: Run, scorer_id: str, scorer_version: str) -> str:
    """Return an evaluation's id, derived from the judged span or conversation, scorer and scorer version."""
    target = f"{run.trace_id}:{run.root_span_id}"
    if run.turns:
        service, conversation, user = conversation_key(run)
        # In JSON, no id can imitate another user's.
        target = json.dumps([service, conversation, user]) if user else f"{service}\0{conversation}"
    identity = f"{target}:{scorer_id}:{scorer_version}"
    return sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:32]
