"""Names of a run: its conversation and user, the versions of agent and prompt, and the tenant.

The tables are also the documentation's: the first name that a span has counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

from otel_evals._internal.model import Operation, Run, Source, SpanRecord
from otel_evals._internal.model.records import with_given
from otel_evals._internal.read.tree import Parents, upward
from otel_evals._internal.util.plain import is_number, read_json

_METADATA: Final = [
    "metadata.",
    "ai.telemetry.metadata.",
    "langfuse.trace.metadata.",
    "langfuse.observation.metadata.",
    "traceloop.association.properties.",
    "lmnr.association.properties.",
    "langsmith.metadata.",
    "mastra.metadata.",
]
"""Namespaces for what applications name themselves."""
_METADATA_OBJECTS: Final = [
    "metadata",
    "langfuse.trace.metadata",
    "langfuse.observation.metadata",
    "langwatch.metadata",
]
"""Attributes with the same as a JSON object."""
_IDS: Final = {
    "conversation_id": """
        langfuse.session.id gen_ai.conversation.id session.id langwatch.thread.id
        traceloop.association.properties.session_id traceloop.association.properties.thread_id
        session_id conversation_id
    """,
    "user_id": """
        user.id enduser.id langfuse.user.id langwatch.user.id
        traceloop.association.properties.user_id user_id enduser.pseudo.id
    """,
}
_INHERITED: Final = {field: names.split() for field, names in _IDS.items()}
"""Attribute names by field of a run, for spans that no convention reads."""
NAMES: Final = {
    "agent_version": ("gen_ai.agent.version agent.version ai.agent.version", "agent_version agentVersion"),
    "prompt_version": (
        """llm.prompt_template.version gen_ai.prompt.version langfuse.observation.prompt.version
        traceloop.prompt.version mlflow.prompt.version braintrust.prompt.version prompt.version""",
        "prompt_version promptVersion lc_hub_commit_hash",
    ),
    "tenant": (
        "tenant.id gen_ai.tenant.id enduser.tenant.id organization.id tenant",
        "tenant_id tenantId tenant organization_id organizationId org_id",
    ),
}
"""By field: attribute names, most trusted first, and keys of the application's own metadata after them."""
_LAST: Final = {
    "agent_version": ("langfuse.version", "langfuse.release", "service.version"),
    "prompt_version": (),
    "tenant": (),
}
"""Names that count after the metadata."""


def _first_names(field: str) -> tuple[str, ...]:
    own, keys = (listed.split() for listed in NAMES[field])
    return (*own, *(place + key for key in keys for place in _METADATA), *keys)


_FIRST: Final = {field: _first_names(field) for field in NAMES}
_KEYS: Final = {field: keys.split() for field, (_, keys) in NAMES.items()}
_ANY: Final = frozenset().union(*_FIRST.values(), *_LAST.values(), _METADATA_OBJECTS)

ORDER: Final = {field: (*names, *_LAST[field]) for field, names in _FIRST.items()}
"""All names of a field, most trusted first."""

Named = tuple[str, Source]
"""A value with its origin."""


def versions_and_tenant(root: Operation, operations: Iterable[Operation]) -> dict[str, Named]:
    """Return the version of agent and prompt and the tenant, as far as recorded, each with its origin.

    Each comes from the first of its names that any span of the run or its resource has, and for one name
    from the root rather than from other spans.
    """
    places = [root, *operations]
    present = _ANY.intersection(root.span.resource).union(
        *(_ANY.intersection(o.span.attributes) for o in places)
    )
    found: dict[str, Named] = {}
    for field in NAMES if present else ():
        # There are many names, and a run has few of them.
        first, last = (filter(present.__contains__, names) for names in (_FIRST[field], _LAST[field]))
        candidates = chain(
            _in_attributes(first, places, root),
            _in_objects(_KEYS[field], places),
            _in_attributes(last, places, root),
        )
        known = next(candidates, None)
        if known is not None:
            found[field] = known
    return found


def _in_attributes(names: Iterable[str], places: Sequence[Operation], root: Operation) -> Iterator[Named]:
    recorded = [(operation.span.attributes, operation) for operation in places]
    recorded.append((root.span.resource, root))
    for name in names:
        for attributes, operation in recorded:
            text = _text(attributes.get(name))
            if text:
                yield text, Source(operation.span_id, name, operation.convention)


def _in_objects(keys: Sequence[str], places: Sequence[Operation]) -> Iterator[Named]:
    for operation in places:
        for name in _METADATA_OBJECTS:
            recorded = operation.span.attributes.get(name)
            # A search is much cheaper than decoding.
            if not isinstance(recorded, str) or not any(key in recorded for key in keys):
                continue
            try:
                metadata = read_json(recorded)
            except ValueError:
                continue
            for key in keys if isinstance(metadata, dict) else ():
                text = _text(metadata.get(key))
                if text:
                    yield text, Source(operation.span_id, f"{name}.{key}", operation.convention)


def _text(value: Any) -> str | None:
    """Return a recorded name; versions may be numbers."""
    if isinstance(value, str):
        return value.strip().strip('"') or None
    return json.dumps(value) if is_number(value) else None


def with_inherited_ids(
    runs: Sequence[Run],
    operations: Mapping[str, Operation],
    records: Mapping[str, SpanRecord],
    parents: Parents,
) -> list[Run]:
    """Add the conversation and the user from the spans around runs to runs that lack them.

    They come from the nearest span above a run, such as a session or a request, or else from the operations
    outside of all runs, such as the user's turn to speak, if these have the same ids.
    """
    inside = {operation.span.span_id for run in runs for operation in run.operations}
    outside = [operation for span_id, operation in operations.items() if span_id not in inside]
    shared = {}
    for field in _INHERITED:
        values = {getattr(operation, field) for operation in outside} - {None}
        if len(values) == 1:
            (shared[field],) = values
    found = []
    for run in runs:
        missing = [field for field in _INHERITED if getattr(run, field) is None]
        above = {field: _above(field, run.root_span_id, operations, records, parents) for field in missing}
        found.append(with_given(run, **{field: above[field] or shared.get(field) for field in missing}))
    return found


def _above(
    field: str,
    span_id: str,
    operations: Mapping[str, Operation],
    records: Mapping[str, SpanRecord],
    parents: Parents,
) -> str | None:
    for above in upward(parents.get(span_id), parents):
        value: Any = None
        if above in operations:
            value = getattr(operations[above], field)
        elif above in records:
            attributes = records[above].attributes
            value = next((attributes[key] for key in _INHERITED[field] if key in attributes), None)
        if isinstance(value, str) and value:
            return value
    return None
