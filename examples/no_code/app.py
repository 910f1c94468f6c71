"""An application with a hand-written agent that knows nothing of otel-evals; see run.sh."""

from __future__ import annotations

from opentelemetry import trace

tracer = trace.get_tracer("shop.agent")


def answer(question: str) -> str:
    """Any instrumentation would do; here the spans are written with OpenTelemetry alone."""
    attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "shop"}
    with tracer.start_as_current_span("invoke_agent shop", attributes=attributes) as span:
        asked = f'[{{"role": "user", "parts": [{{"type": "text", "content": "{question}"}}]}}]'
        span.set_attribute("gen_ai.input.messages", asked)
        reply = "We are open from 9 to 5."
        said = f'[{{"role": "assistant", "parts": [{{"type": "text", "content": "{reply}"}}]}}]'
        span.set_attribute("gen_ai.output.messages", said)
        return reply


if __name__ == "__main__":
    print(answer("When are you open?"))
