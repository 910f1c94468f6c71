"""Frameworks for Python: Haystack, LiteLLM, LiveKit, smolagents."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from otel_evals.model import Message, OperationKind, Part, SpanRecord
from otel_evals_instrumentation._internal.conventions.openinference import TABLE
from otel_evals_instrumentation._internal.readers.convention import AttributeNames, SpanConvention, SpanReader
from otel_evals_instrumentation._internal.readers.inputs_outputs import add_calls
from otel_evals_instrumentation._internal.readers.messages import read_messages
from otel_evals_instrumentation._internal.readers.tool_values import tool_call
from otel_evals_instrumentation._internal.readers.values import listed, literal, mapping, parse
from otel_evals_instrumentation._internal.readers.vocabulary import kinds, words

# --- Haystack's own tracer: pipelines, components and agents as `haystack.*` tags, their content as JSON ---


_NAMES = kinds(
    workflow="haystack.pipeline.run haystack.async_pipeline.run",
    agent="haystack.agent.run",
    inference="haystack.agent.step.llm",
    tool="haystack.agent.step.tool haystack.tool.run",
)
# By the end of a component's class name.
_COMPONENTS = kinds(retrieval="Retriever Ranker", embedding="Embedder", inference="Generator", agent="Agent")


def haystack() -> SpanConvention:
    """Return the convention of Haystack's OpenTelemetry tracer."""
    return SpanConvention(
        name="haystack",
        content="`HAYSTACK_CONTENT_TRACING_ENABLED=true`",
        markers=words(
            """haystack.component.name haystack.pipeline.input_data haystack.pipeline.metadata
            haystack.agent.max_steps haystack.agent.step.llm.input haystack.agent.step.llm.output
            haystack.tool.name"""
        ),
        names=AttributeNames(
            input="""
                haystack.agent.input haystack.agent.step.llm.input haystack.component.input
                haystack.pipeline.input_data
            """,
            output="""
                haystack.agent.output haystack.agent.step.llm.output haystack.component.output
                haystack.pipeline.output_data
            """,
            tool_name="haystack.tool.name haystack.component.name",
            tool_id="haystack.tool.call.id",
            arguments="""
                haystack.tool.input haystack.tool.arguments haystack.agent.step.tool.input
                haystack.component.input
            """,
            result="""
                haystack.tool.output haystack.tool.result haystack.agent.step.tool.output
                haystack.component.output
            """,
            documents="haystack.component.output",
            query="haystack.component.input",
            name="haystack.component.name",
        ),
        kind_of=_haystack_kind,
        refine=_haystack_refine,
    )


def _haystack_kind(span: SpanRecord) -> OperationKind | None:
    if span.name in _NAMES:
        return _NAMES[span.name]
    component = str(span.attributes.get("haystack.component.type", ""))
    return next((kind for end, kind in _COMPONENTS.items() if component.endswith(end)), OperationKind.OTHER)


def _haystack_refine(reader: SpanReader, kind: OperationKind) -> OperationKind:
    """Read model and tokens, which are in each of a chat model's replies, or next to a generator's."""
    gave = reader.mapping(reader.source_of("output") or "")
    replies = [mapping(reply).get("meta") for reply in listed(gave.get("replies"))]
    for about in map(mapping, (*replies, *listed(gave.get("meta")))):
        reader.offer("response_model", about.get("model"))
        reader.offer_usage(about.get("usage"))
    return kind


# --- LiteLLM's OpenTelemetry callback: OpenTelemetry's names, and the raw request as Python reprs ---
# Older versions recorded the names of constants.


def litellm() -> SpanConvention:
    """Return the convention of LiteLLM's callback."""
    return SpanConvention(
        name="litellm",
        content="on unless `litellm.turn_off_message_logging`",
        scopes=("litellm",),
        markers=("litellm.call_id", "litellm.provider.model"),
        names=AttributeNames(
            input="gen_ai.input.messages gen_ai.prompt gen_ai.prompt.* SpanAttributes.LLM_PROMPTS.*",
            output="""
                gen_ai.output.messages gen_ai.completion gen_ai.completion.*
                SpanAttributes.LLM_COMPLETIONS.*
            """,
            request_model="gen_ai.request.model SpanAttributes.LLM_REQUEST_MODEL",
            response_model="gen_ai.response.model SpanAttributes.LLM_RESPONSE_MODEL",
            provider="gen_ai.provider.name gen_ai.system SpanAttributes.LLM_SYSTEM",
            input_tokens="gen_ai.usage.input_tokens SpanAttributes.LLM_USAGE_PROMPT_TOKENS",
            output_tokens="gen_ai.usage.output_tokens SpanAttributes.LLM_USAGE_COMPLETION_TOKENS",
            conversation_id="metadata.session_id litellm.trace_id",
            user_id="llm.user metadata.user_id metadata.user_api_key_end_user_id",
            agent_name="metadata.agent_name",
        ),
        kind_of=_litellm_kind,
        refine=_refine,
    )


def _litellm_kind(span: SpanRecord) -> OperationKind | None:
    names = ("SpanAttributes.LLM_REQUEST_TYPE", "SpanAttributes.LLM_REQUEST_MODEL")
    is_model = not span.attributes.keys().isdisjoint(names) or _raw(span.attributes, "messages", "choices")
    return OperationKind.INFERENCE if is_model else None


def _raw(attributes: Mapping[str, Any], *names: str) -> str:
    """Return the key `llm.<provider>.<name>` of a raw request with one of these names, or an empty text."""
    named = (key for key in attributes if key[:4] == "llm." and key.count(".") == 2)
    return next((key for key in named if key.rpartition(".")[2] in names), "")


def _refine(reader: SpanReader, kind: OperationKind) -> OperationKind:
    attributes = reader.attributes
    for side, names, role in (
        ("input", ("messages", "contents", "prompt"), "user"),
        ("output", ("choices", "content", "candidates"), "assistant"),
    ):
        if reader.fields.get(side + "_messages"):
            continue
        key = _raw(attributes, *names)
        messages = read_messages(_value(attributes.get(key)), role)
        if messages:
            reader.set_messages(side, messages, key)
    reader.offer_metadata(_value(attributes.get("metadata.requester_metadata")))
    reader.offer("response_id", attributes.get(_raw(attributes, "id")))
    reader.offer("response_model", attributes.get(_raw(attributes, "model")))
    reader.offer_usage(_value(attributes.get(_raw(attributes, "usage"))))
    return kind


def _value(value: Any) -> Any:
    """Decode a raw value, which is JSON or a Python literal; None if it is truncated."""
    found = literal(parse(value))
    return None if isinstance(found, str) and found.startswith(("[{", "{'")) else found


# --- LiveKit Agents: `lk.*`, and personal content under `lk.pii.*` ---


# A session is a workflow in some versions, yet each turn is a run.
_KINDS = kinds(
    agent="agent_turn", tool="function_tool", inference="llm_node llm_request", other="agent_session"
)
_REDACTED = "exception details redacted"
"""Replaces every error's text if personal data is not recorded."""


_CALLS = ("lk.pii.response.function_calls", "lk.response.function_calls")


def livekit() -> SpanConvention:
    """Return the convention of LiveKit's voice agents."""
    return SpanConvention(
        name="livekit",
        content="always on; marked as personal in `lk.pii.*`",
        scopes=("livekit-agents",),
        markers=words(
            """lk.speech_id lk.generation_id lk.function_tool.name lk.function_tool.id lk.agent_name
            lk.agent_label lk.job_id lk.retry_count lk.pii.chat_ctx lk.chat_ctx lk.pii.room_name
            lk.room_name lk.pii.participant_identity lk.participant_identity lk.pii.user_input
            lk.user_input lk.pii.response.text lk.response.text lk.pii.input_text lk.input_text
            lk.pii.user_transcript lk.user_transcript lk.pii.instructions lk.instructions
            lk.pii.function_tool.output lk.function_tool.output"""
        ),
        names=AttributeNames(
            input="""
                lk.pii.user_input lk.user_input lk.pii.input_text lk.input_text lk.pii.user_transcript
                lk.user_transcript lk.pii.chat_ctx lk.chat_ctx
            """,
            answer="lk.pii.response.text lk.response.text",
            system="lk.pii.instructions lk.instructions",
            tool_name="lk.function_tool.name",
            tool_id="lk.function_tool.id",
            arguments="""
                lk.pii.function_tool.arguments lk.function_tool.arguments lk.pii.function_tool.args
                lk.function_tool.args
            """,
            result="lk.pii.function_tool.output lk.function_tool.output",
            agent_name="lk.agent_label lk.agent_name",
        ),
        kind_of=_kind,
        refine=_livekit_refine,
    )


def _kind(span: SpanRecord) -> OperationKind | None:
    """Return the kind of a turn, a model call or a tool; sessions and speech are others."""
    if span.attributes.get("gen_ai.operation.name") == "judge":
        return OperationKind.OTHER  # a test's verdict, with the attributes of a tool
    known = _KINDS.get(span.name)
    if known is None and "gen_ai.operation.name" not in span.attributes:
        return OperationKind.OTHER
    return known


def _livekit_refine(reader: SpanReader, kind: OperationKind) -> OperationKind:
    """Add the calls of a response, which have their own attribute, and read the error flag of tools."""
    call = reader.fields.get("tool_call")
    if reader.fields.get("error") == _REDACTED:
        reader.fields["error"] = reader.fields.get("error_type") or "error"
    if call is not None and reader.attributes.get("lk.function_tool.is_error") is True:
        text = call.result if isinstance(call.result, str) else None
        reader.change_call(status="error", error=call.error or text)
    add_calls(reader, _CALLS)
    return kind


# --- smolagents as OpenInference instruments it: its agents answer by calling a tool that does not exist ---


_CALLING = "Calling tools:\n"
_FAILED = re.compile(r"(?:Call id: .*\n)?Error:\n")
_NO_TOOLS = ("final_answer", "python_interpreter")


def smolagents() -> SpanConvention:
    """Return the convention of OpenInference's instrumentation of smolagents."""
    return dataclasses.replace(
        TABLE,
        name="smolagents",
        scopes=("openinference.instrumentation.smolagents",),
        markers=(),
        refine=_smolagents_refine,
    )


def _smolagents_refine(reader: SpanReader, kind: OperationKind) -> OperationKind:
    reader.rewrite_messages(_plain)
    # Spans of agents without a name have that of the class, which tells one from the agents that it manages.
    if kind is OperationKind.AGENT and (
        "smolagents.managed_agents.0.name" in reader.attributes or reader.span.name[:1].islower()
    ):
        reader.offer("agent_name", reader.span.name.removesuffix(".run"))
    return kind


def _plain(message: Message) -> Message:
    """Remove the title of the task, mark pseudo tools, and read calls and errors, texts in later requests."""
    asked = listed(literal(message.text.partition(_CALLING)[2]))
    # Several calls have one text of results.
    given = (tool_call(mapping(asked[0])),) if len(asked) == 1 else message.parts
    return replace(message, parts=tuple(map(_plain_part, given)))


def _plain_part(part: Part) -> Part:
    if part.kind == "tool_call" and part.name in _NO_TOOLS:
        return replace(part, kind="other")
    if part.kind == "tool_result" and _FAILED.match(str(part.data)):
        return replace(part, failed=True)
    return replace(part, text=part.text.removeprefix("New task:\n")) if part.text else part
