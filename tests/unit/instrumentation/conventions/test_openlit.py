"""OpenLIT's conversations in one text."""

from __future__ import annotations

import pytest

from otel_evals.model import SpanEvent
from tests.support.trace_builder import TraceBuilder

CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
PROMPT = "system: Be brief.\nuser: Which way?\nassistant: Left.\nuser: And then?\nTell me: now."


@pytest.mark.parametrize("in_event", [True, False])
def test_lines_say_who_spoke(in_event: bool) -> None:
    """In attributes or in events; a line with a colon goes on with what was said."""
    texts = {"gen_ai.prompt": PROMPT, "gen_ai.completion": "Right: there."}
    names = {"gen_ai.prompt": "gen_ai.content.prompt", "gen_ai.completion": "gen_ai.content.completion"}
    events = tuple(SpanEvent(name=names[key], attributes={key: text}) for key, text in texts.items())
    spans = TraceBuilder("openlit.otel.tracing")
    spans.add("chat m", CHAT if in_event else {**CHAT, **texts}, events=events if in_event else ())
    run = spans.run
    assert (run.input, run.output) == ("And then?\nTell me: now.", "Right: there.")
    assert run.system_instructions == "Be brief."
    assert [(m.role, m.text) for m in run.history] == [("user", "Which way?"), ("assistant", "Left.")]


def test_a_prompt_without_speakers_is_the_users() -> None:
    spans = TraceBuilder("openlit").add("chat m", {**CHAT, "gen_ai.prompt": "Which way: left?"})
    assert spans.run.input == "Which way: left?"
