"""Settings that make instrumentations record content."""

from __future__ import annotations

_CAPTURE = "`OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT="
_GENAI = "`OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental` and " + _CAPTURE + "SPAN_ONLY`"
_OPENINFERENCE = "on unless `OPENINFERENCE_HIDE_INPUTS` or `OPENINFERENCE_HIDE_OUTPUTS` is true"
_TRACELOOP = "on unless `TRACELOOP_TRACE_CONTENT=false`"
_NONE = "none: this instrumentation records no content"

_CLAUDE_CODE = "`OTEL_LOG_USER_PROMPTS`, `OTEL_LOG_TOOL_DETAILS`, `OTEL_LOG_TOOL_CONTENT`"
_BY_SCOPE = {
    "agent_framework": "`ENABLE_SENSITIVE_DATA=true`",
    **dict.fromkeys(("autogen", "com.anthropic.sdk", "fastmcp", "mcp-python-sdk"), _NONE),
    "com.anthropic.claude_code": _CLAUDE_CODE,
    "gcp.vertex.agent": _CAPTURE + "true`; version 1: on unless `ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS=false`",
    "opentelemetry.instrumentation.openai_agents": _CAPTURE + "true`; Traceloop's: " + _TRACELOOP,
    "opentelemetry.instrumentation.openai_v2": _CAPTURE + "true`",
    "otel_evals_instrumentation": _CAPTURE + "SPAN_ONLY`",
    "semantic_kernel": "`SEMANTICKERNEL_EXPERIMENTAL_GENAI_ENABLE_OTEL_DIAGNOSTICS_SENSITIVE=true`",
    "strands": "always on",
}
_BY_DIALECT = {
    **dict.fromkeys(
        ("braintrust", "genkit", "logfire", "mastra", "mlflow", "monocle", "voltagent"), "always on"
    ),
    **dict.fromkeys(("langfuse", "langwatch"), "on unless `capture_input` or `capture_output` is false"),
    **dict.fromkeys(("openinference", "smolagents"), _OPENINFERENCE),
    **dict.fromkeys(("openllmetry", "openllmetry_vector_stores"), _TRACELOOP),
    "claude_code": _CLAUDE_CODE,
    "codex": "`log_user_prompt = true` in the configuration's `[otel]`",
    "flue": "`content: { enabled: true }` of the adapter",
    "gemini_cli": "`telemetry.traces`, unless `telemetry.logPrompts` is false",
    "google_adk": _CAPTURE + "true`",
    "haystack": "`HAYSTACK_CONTENT_TRACING_ENABLED=true`",
    "langsmith": "on unless `LANGSMITH_HIDE_INPUTS` or `LANGSMITH_HIDE_OUTPUTS` is true",
    "laminar": "on unless `ignore_input` or `ignore_output` is set",
    "loongsuite": _GENAI + "; Dify: always on",
    "litellm": "on unless `litellm.turn_off_message_logging`",
    "livekit": "always on; marked as personal in `lk.pii.*`",
    "mcp": _NONE,
    "openlit": "on unless `capture_message_content` is false",
    "otel_genai": _GENAI,
    "pydantic_ai": "on unless `InstrumentationSettings(include_content=False)`",
    "spring_ai": "`spring.ai.chat.observations.log-prompt` and `log-completion`, "
    "`spring.ai.tools.observations.include-content`",
    "vercel_ai": "on with `experimental_telemetry` unless `recordInputs` or `recordOutputs` is false",
}


def content_setting(scope_name: str, dialect: str) -> str | None:
    """Return the setting that enables content, by scope or else by dialect; None if unknown."""
    known = [prefix for prefix in _BY_SCOPE if scope_name.startswith(prefix)]
    return _BY_SCOPE[max(known, key=len)] if known else _BY_DIALECT.get(dialect)
