"""MLflow's exported spans: every value is JSON, and a model may stand in the request and the response."""

from __future__ import annotations

import json

from tests.support.trace_builder import TraceBuilder

J = json.dumps


def test_a_model_is_named_in_the_request_and_in_the_response() -> None:
    asked = {"model": "m", "messages": [{"role": "user", "content": "Hi."}]}
    reply = {"model": "m-1", "choices": [{"message": {"role": "assistant", "content": "Hello."}}]}
    attributes = {
        "mlflow.spanType": J("CHAT_MODEL"),
        "mlflow.spanInputs": J(asked),
        "mlflow.spanOutputs": J(reply),
        "mlflow.chat.tokenUsage": J({"input_tokens": 4, "output_tokens": 2, "total_tokens": 6}),
    }
    run = TraceBuilder("mlflow").add("Completions", attributes).run
    assert (run.input, run.output, run.models) == ("Hi.", "Hello.", ("m-1",))
    assert (run.operations[0].request_model, run.usage.total_tokens) == ("m", 6)
