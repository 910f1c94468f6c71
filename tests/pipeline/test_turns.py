"""A user's turn is one run even where no span stands above its model calls."""

from __future__ import annotations

import json
import time

from opentelemetry.trace import SpanKind

from otel_evals import Rule
from otel_evals.scorers import grounded_in_tools
from tests.support.traffic import Live, said
from tests.support.waits import SECONDS

CALL = {"type": "tool_call", "id": "call_7", "name": "lookup", "arguments": {"order": "A-1"}}
RESULT = {"type": "tool_call_response", "id": "call_7", "response": {"eta": "2026-11-25"}}
CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}


def bare_turn(live: Live, *, finished: bool = True) -> None:
    """Two calls of a model below a web server's span, the second one well after the first has closed."""
    question = json.loads(said("user", "When does A-1 arrive?"))
    asks = [{"role": "assistant", "parts": [CALL]}]
    with live.tracer.start_as_current_span("POST /chat", kind=SpanKind.SERVER):
        with live.tracer.start_as_current_span("chat m", attributes=CHAT) as first:
            first.set_attribute("gen_ai.input.messages", json.dumps(question))
            first.set_attribute("gen_ai.output.messages", json.dumps(asks))
        if finished:
            time.sleep(0.15)
            with live.tracer.start_as_current_span("chat m", attributes=CHAT) as second:
                told = [*question, *asks, {"role": "tool", "parts": [RESULT]}]
                second.set_attribute("gen_ai.input.messages", json.dumps(told))
                second.set_attribute("gen_ai.output.messages", said("assistant", "On 2026-11-25."))


def test_calls_that_continue_each_other_are_one_run() -> None:
    """The question of the first, the tool's result, the answer of the last; scored once."""
    with Live(Rule(grounded_in_tools())) as live:
        bare_turn(live)
        assert live.flush()
        (scored,) = live.scored.wait_for(1, SECONDS)
        assert scored.run.input == "When does A-1 arrive?"
        assert scored.run.output == "On 2026-11-25."
        (call,) = scored.run.tool_calls
        assert (call.name, call.result) == ("lookup", {"eta": "2026-11-25"})
        assert scored.evaluations[0].outcome.value == 1.0  # type: ignore[union-attr]  # a score
        assert live.pipeline.stats().seen == 1
        live.provider.force_flush()
        assert len([s for s in live.exported.get_finished_spans() if s.name == "chat m"]) == 2


def test_a_turn_that_does_not_go_on_is_a_run_of_its_own() -> None:
    """A flush ends the waiting."""
    with Live(Rule(grounded_in_tools())) as live:
        bare_turn(live, finished=False)
        assert live.flush()
        (scored,) = live.scored.wait_for(1, SECONDS)
        assert scored.run.output is None
        assert live.pipeline.stats().check() == []
