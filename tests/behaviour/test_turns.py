"""A user's turn is one run even where no span stands above its model calls."""

from __future__ import annotations

import json
import time

from opentelemetry.trace import SpanKind

from otel_evals import Score
from otel_evals.scorers import grounded_in_tools
from tests.behaviour.app import App
from tests.support.agents import said

CALL = {"type": "tool_call", "id": "call_7", "name": "lookup", "arguments": {"order": "A-1"}}
RESULT = {"type": "tool_call_response", "id": "call_7", "response": {"eta": "2026-11-25"}}
CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}


def bare_turn(app: App, *, finished: bool = True) -> None:
    """Two calls of a model below a web server's span, the second one well after the first has closed."""
    question = json.loads(said("user", "When does A-1 arrive?"))
    asks = [{"role": "assistant", "parts": [CALL]}]
    with app.tracer.start_as_current_span("POST /chat", kind=SpanKind.SERVER):
        with app.tracer.start_as_current_span("chat m", attributes=CHAT) as first:
            first.set_attribute("gen_ai.input.messages", json.dumps(question))
            first.set_attribute("gen_ai.output.messages", json.dumps(asks))
        if finished:
            time.sleep(0.15)
            with app.tracer.start_as_current_span("chat m", attributes=CHAT) as second:
                told = [*question, *asks, {"role": "tool", "parts": [RESULT]}]
                second.set_attribute("gen_ai.input.messages", json.dumps(told))
                second.set_attribute("gen_ai.output.messages", said("assistant", "On 2026-11-25."))


def test_calls_that_continue_each_other_are_one_run() -> None:
    """The question of the first, the tool's result, the answer of the last; scored once."""
    app = App(grounded_in_tools())
    bare_turn(app)
    (evaluation,) = app.settle()
    run = app.scored.runs[0].run
    assert (run.input, run.output) == ("When does A-1 arrive?", "On 2026-11-25.")
    assert [(call.name, call.result) for call in run.tool_calls] == [("lookup", {"eta": "2026-11-25"})]
    assert isinstance(evaluation.outcome, Score)
    assert evaluation.outcome.value == 1.0
    assert app.pipeline.stats().seen == 1
    assert len(app.spans("chat m")) == 2


def test_a_turn_that_does_not_go_on_is_a_run_of_its_own() -> None:
    """A flush ends the waiting."""
    app = App(grounded_in_tools())
    bare_turn(app, finished=False)
    app.settle()
    assert [scored.run.output for scored in app.scored.runs] == [None]
