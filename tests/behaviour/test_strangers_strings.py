"""Names, ids and keys that anybody may send: no collection in the process grows with them for ever."""

from __future__ import annotations

import gc
import itertools
from collections import deque
from collections.abc import Iterable
from typing import Any

from opentelemetry.trace import Span

from otel_evals import Run, scorer
from tests.behaviour.app import App

MARK = "from-a-stranger-"
RUNS, BOUND = 1_500, 1_100
"""The greatest bound of a collection is for 1,024 entries."""


def is_strangers(key: object) -> bool:
    if isinstance(key, tuple | frozenset):
        return any(is_strangers(each) for each in key)
    return isinstance(key, str) and MARK in key


def growing() -> list[str]:
    """The dicts, sets and queues of the process with more of a stranger's texts than any bound."""
    found = []
    for each in gc.get_objects():
        if isinstance(each, dict | set | frozenset | deque) and len(each) > BOUND:
            keys: Iterable[Any] = itertools.islice(list(each), len(each))
            if sum(map(is_strangers, keys)) > BOUND:
                owners = [type(o).__qualname__ for o in gc.get_referrers(each) if not isinstance(o, list)]
                found.append(f"{type(each).__qualname__} of {len(each)} in {owners}")
    return found


@scorer(inline=True)
def answered(run: Run) -> bool:
    return bool(run.output)


def test_no_collection_of_an_application_grows_with_names_from_spans() -> None:
    """Scopes, agents, versions, conversations, users, tenants, tools, models, keys, events and errors."""
    app = App(answered, limits={"max_open_traces": 200})
    for number in range(RUNS):
        name = f"{MARK}{number}"

        def everywhere(span: Span, name: str = name) -> None:
            for key in (
                "agent.version",
                "conversation.id",
                "request.model",
                "response.model",
                "provider.name",
            ):
                span.set_attribute(f"gen_ai.{key}", name)
            for key in ("user.id", "tenant", "error.type", "service.version", f"key.{name}"):
                span.set_attribute(key, name)
            span.add_event(name, {name: name})

        app.tracer = app.provider.get_tracer(name, name)
        app.run(agent=name, tool=name, question=name, answer=name, during=everywhere)
        if number % 50 == 0:
            app.pipeline.force_flush(5_000)
        app.scored.clear()
        app.exported.clear()
    app.settle()
    app.scored.clear()
    app.exported.clear()
    assert growing() == []
