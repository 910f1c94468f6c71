"""OpenTelemetry's GenAI conventions: current and older forms, in attributes and events."""

from __future__ import annotations

from otel_evals.dialect import Dialect
from otel_evals_instrumentation.convention import Convention

__all__ = ["genai"]


def genai() -> Dialect:
    """The dialect of spans that carry `gen_ai.*`."""
    return Convention(
        name="otel_genai",
        markers=(
            "gen_ai.operation.name",
            "gen_ai.system",
            "gen_ai.provider.name",
            "gen_ai.request.model",
            "gen_ai.response.model",
            "gen_ai.tool.name",
            "gen_ai.agent.name",
            "gen_ai.input.messages",
            "gen_ai.output.messages",
            "gen_ai.prompt",
            "gen_ai.completion",
            "tool_args",
        ),
    )
