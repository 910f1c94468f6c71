"""OpenTelemetry's GenAI conventions: current and older forms, in attributes and events."""

from __future__ import annotations

from otel_evals_instrumentation._internal.readers.convention import LAST, SpanConvention, SpanReader
from otel_evals_instrumentation._internal.readers.parts import text_message
from otel_evals_instrumentation._internal.readers.values import listed, unmasked
from otel_evals_instrumentation._internal.readers.vocabulary import words


def otel_genai() -> SpanConvention:
    """Return the convention of spans with `gen_ai.*`."""
    return SpanConvention(
        name="otel_genai",
        content=(
            "`OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental` and "
            "`OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY`"
        ),
        order=LAST,
        span_names=(
            ("agent_framework", "workflow.run"),
            ("Microsoft.Agents.AI.Workflows", "workflow_invoke"),
        ),
        content_by_scope={
            "agent_framework": "`ENABLE_SENSITIVE_DATA=true`",
            "autogen": "none: this instrumentation records no content",
            "com.anthropic.sdk": "none: this instrumentation records no content",
            "opentelemetry.instrumentation.openai_agents": (
                "`OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true`; Traceloop's: on unless "
                "`TRACELOOP_TRACE_CONTENT=false`"
            ),
            "opentelemetry.instrumentation.openai_v2": (
                "`OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true`"
            ),
            "otel_evals_instrumentation": "`OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY`",
            "semantic_kernel": ("`SEMANTICKERNEL_EXPERIMENTAL_GENAI_ENABLE_OTEL_DIAGNOSTICS_SENSITIVE=true`"),
            "strands": "always on",
        },
        markers=words(
            """gen_ai.operation.name gen_ai.system gen_ai.provider.name gen_ai.request.model
            gen_ai.response.model gen_ai.tool.name gen_ai.tool.call.id gen_ai.tool.call.arguments
            gen_ai.tool.call.result gen_ai.tool.definitions gen_ai.agent.name gen_ai.input.messages
            gen_ai.output.messages gen_ai.system_instructions gen_ai.response.id
            gen_ai.retrieval.documents gen_ai.retrieval.query.text gen_ai.usage.input_tokens
            gen_ai.usage.output_tokens gen_ai.usage.prompt_tokens gen_ai.usage.completion_tokens
            gen_ai.prompt gen_ai.prompt.content gen_ai.prompt.0.role gen_ai.prompt.0.content
            gen_ai.completion gen_ai.completion.content gen_ai.completion.0.role
            gen_ai.completion.0.content gen_ai.completion.0.tool_calls.0.name tool_args
            judgment.span_kind confident.span.type netra.span.type honeyhive_metadata.event_type
            ag.type.node mirascope.type span_type output_field_count tool.mode"""
        ),
        read_prompt=_read_prompt,
    )


def _read_prompt(reader: SpanReader) -> None:
    """Keep the last of several texts without roles, as Spring AI lists them: only that is the user's."""
    texts = listed(reader.attributes.get("gen_ai.prompt"))
    if texts and all(isinstance(text, str) and text[:1] not in ("{", "[") for text in texts):
        reader.fields["input_messages"] = (text_message("user", unmasked(texts[-1])),)
