"""Tables of attribute names by field: a convention's, and OpenTelemetry's."""

from __future__ import annotations

import re
from dataclasses import dataclass
from operator import itemgetter

from msgspec.structs import replace

from otel_evals.conventions import BoundedCache
from otel_evals.model import SpanRecord
from otel_evals_instrumentation._internal.readers.values import unquoted
from otel_evals_instrumentation._internal.readers.vocabulary import words

_NAME = itemgetter(1)
_INDEX = re.compile(r"(?<=puts)\.|\.[0-9]+(?:\.|$)")
"""An index, or what separates `inputs` or `outputs` from a name in them."""
_MOST_SHAPES = 1_000
_MOST_NAMES = 64
"""Do not cache the names of spans with more attributes."""
_OF_APPLICATIONS = words(
    """ai.telemetry.metadata. traceloop.association.properties. lmnr.association.properties.
    langsmith.metadata. mastra.metadata. metadata."""
)
_WORDS = (
    "gen_ai.operation.name",
    "ai.operationId",
    "openinference.span.kind",
    "traceloop.span.kind",
    "span.type",
    "llm.request.type",
)
"""Attributes whose value is one word; quotes around it show that a backend stored it as JSON."""


def without_json_quotes(span: SpanRecord) -> SpanRecord:
    """Return a span with its attributes as recorded: backends such as MLflow store all of them as JSON."""
    # A backend stores all attributes alike: the first word that is there decides.
    words_there = filter(None, map(span.attributes.get, _WORDS))
    if str(next(words_there, ""))[:1] != '"':
        return span
    return replace(span, attributes={key: unquoted(v) for key, v in span.attributes.items()})


class FieldsByAttribute:
    """Finds the fields that a span's attributes may contain.

    The spans of an instrumentation have few different sets of attributes, so results are cached.
    """

    __slots__ = ("_fields", "known")

    def __init__(self, names: AttributeNames) -> None:
        # Tuples: the collector would walk a list for each of thousands of names.
        self._fields: dict[str, tuple[tuple[str, int], ...]] = {}
        """By attribute, or by list: the fields that it may contain, each with the rank."""
        for field, own in vars(names).items():
            for rank, key in enumerate(dict.fromkeys(f"{own} {getattr(GEN_AI, field)}".split())):
                self._fields[key] = (*self._fields.get(key, ()), (field, rank))
        self.known: BoundedCache[tuple[str, ...], dict[str, tuple[str, ...]]] = BoundedCache(_MOST_SHAPES)
        """Results of `find` by the names of a span's attributes."""

    def find(self, names: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
        """Return the names of the attributes for each field, most trusted first."""
        # A list has one attribute per item and key; the tables have its prefix.
        ends = [(name, _INDEX.search(name)) for name in names]
        lists = [name[: end.start()] + ".*" for name, end in ends if end is not None]
        found: dict[str, list[tuple[int, str]]] = {}
        for name in dict.fromkeys((*names, *lists)):
            for field, rank in self._fields.get(name, ()):
                found.setdefault(field, []).append((rank, name))
        by_field = {field: tuple(map(_NAME, sorted(hits))) for field, hits in found.items()}
        if len(names) <= _MOST_NAMES:
            self.known[names] = by_field
        return by_field


@dataclass(frozen=True)
class AttributeNames:
    """Attribute names by field, most trusted first, separated by spaces.

    A name that ends in `.*` is a list with indexed keys: `gen_ai.prompt.*` is the list of
    `gen_ai.prompt.0.role`, `gen_ai.prompt.0.content`, `gen_ai.prompt.1.role` and so on.
    """

    input: str = ""
    output: str = ""
    answer: str = ""
    """Final answers, kept as text even if it is JSON."""
    system: str = ""
    tool_name: str = ""
    tool_id: str = ""
    arguments: str = ""
    result: str = ""
    documents: str = ""
    query: str = ""
    definitions: str = ""
    provider: str = ""
    request_model: str = ""
    response_model: str = ""
    response_id: str = ""
    finish: str = ""
    input_tokens: str = ""
    output_tokens: str = ""
    cache_read_tokens: str = ""
    cache_write_tokens: str = ""
    reasoning_tokens: str = ""
    usage: str = ""
    """Objects with all token counts."""
    conversation_id: str = ""
    user_id: str = ""
    agent_name: str = ""
    name: str = ""
    """Name of the workflow or retriever."""
    error: str = ""
    error_type: str = ""
    new_messages_from: str = ""


def _in_metadata(names: str) -> str:
    """Return the attributes that applications name themselves, in the namespaces reserved for them."""
    return " ".join(words(names, *_OF_APPLICATIONS))


# The bare words that Pipecat, Logfire and others use follow OpenTelemetry's names. The names that
# OpenInference and platforms add to the spans of others come last.
GEN_AI = AttributeNames(
    input="""
        gen_ai.input.messages gen_ai.input.messages.* gen_ai.prompt gen_ai.prompt.* gen_ai.prompt.content
        gen_ai.prompt_json gen_ai.request.messages
        input events llm.input_messages.* input.value langfuse.observation.input mlflow.spanInputs
        judgment.input confident.span.input honeyhive_inputs.* ag.data.inputs.* inputs confident.trace.input
    """,
    output="""
        gen_ai.output.messages gen_ai.output.messages.* gen_ai.completion gen_ai.completion.*
        gen_ai.completion.content gen_ai.completion_json gen_ai.response.messages gen_ai.response.text
        output events llm.output_messages.* output.value
        langfuse.observation.output mlflow.spanOutputs judgment.output confident.span.output
        honeyhive_outputs.* ag.data.outputs.* confident.trace.output
    """,
    system="""
        gen_ai.system_instructions gen_ai.system.instructions gen_ai.agent.system_prompt system_prompt
        system_instructions
    """,
    tool_name="gen_ai.tool.name tool_name confident.tool.name tool.name",
    tool_id="gen_ai.tool.call.id gen_ai.tool_call.id function.id",
    arguments="""
        gen_ai.tool.call.arguments gen_ai.tool.arguments gen_ai.tool.input tool_arguments tool_args input
        input.value mlflow.spanInputs judgment.input confident.span.input honeyhive_inputs.* ag.data.inputs.*
        inputs gen_ai.prompt.0.content
    """,
    result="""
        gen_ai.tool.call.result gen_ai.tool.result gen_ai.tool.output tool_response
        code.function.return.value output output.value mlflow.spanOutputs judgment.output
        confident.span.output honeyhive_outputs.* ag.data.outputs.*
    """,
    documents="""
        gen_ai.retrieval.documents gen_ai.memory.records retrieval.documents confident.span.retrieval_context
    """,
    query="""
        gen_ai.retrieval.query.text gen_ai.retrieval.query gen_ai.memory.query.text retrieval.query
        confident.span.input
    """,
    definitions="gen_ai.tool.definitions gen_ai.request.tool.definitions",
    provider="gen_ai.provider.name gen_ai.system gen_ai.model.provider judgment.llm.provider llm.vendor",
    request_model="""
        gen_ai.request.model gen_ai.request_model llm.model_name model judgment.llm.model confident.llm.model
        honeyhive_config.model
    """,
    response_model="gen_ai.response.model gen_ai.response_model mlflow.llm.model llm.response.model",
    response_id="gen_ai.response.id",
    finish="gen_ai.response.finish_reasons gen_ai.response.finish_reason",
    input_tokens="""
        gen_ai.usage.input_tokens gen_ai.usage.prompt_tokens gen_ai.response.prompt_tokens
        llm.token_count.prompt confident.llm.input_token_count honeyhive_metadata.prompt_tokens
        ag.metrics.unit.tokens.prompt llm.usage.prompt_tokens
    """,
    output_tokens="""
        gen_ai.usage.output_tokens gen_ai.usage.completion_tokens gen_ai.response.completion_tokens
        llm.token_count.completion confident.llm.output_token_count honeyhive_metadata.completion_tokens
        ag.metrics.unit.tokens.completion llm.usage.completion_tokens
    """,
    cache_read_tokens="""
        gen_ai.usage.cache_read.input_tokens gen_ai.usage.cache_read_input_tokens
        gen_ai.usage.cache_read_tokens gen_ai.usage.cached_input_tokens gen_ai.usage.input_cached_tokens
        gen_ai.usage.input_tokens.cache_read gen_ai.usage.input_tokens.cached
        agentscope.usage.cache_input_tokens
        gen_ai.usage.details.cache_read_tokens gen_ai.usage.details.cache_read_input_tokens
        llm.token_count.prompt_details.cache_read
    """,
    cache_write_tokens="""
        gen_ai.usage.cache_write.input_tokens gen_ai.usage.cache_creation.input_tokens
        gen_ai.usage.cache_creation_input_tokens gen_ai.usage.cache_write_tokens
        gen_ai.usage.input_tokens.cache_creation agentscope.usage.cache_creation_input_tokens
        gen_ai.usage.details.cache_write_tokens gen_ai.usage.details.cache_creation_input_tokens
        llm.token_count.prompt_details.cache_write
    """,
    reasoning_tokens="""
        gen_ai.usage.reasoning.output_tokens gen_ai.usage.reasoning_tokens
        gen_ai.usage.details.reasoning_tokens gen_ai.usage.thinking_tokens
        llm.token_count.completion_details.reasoning
    """,
    usage="gen_ai.usage.details gen_ai.usage judgment.usage.metadata",
    # Platforms' SDKs add their ids to any span; an application sets Langfuse's itself.
    conversation_id=f"""
        langfuse.session.id langwatch.thread.id gen_ai.conversation.id session.id gen_ai.thread.id
        langfuse.trace.metadata.langfuse_session_id langfuse.observation.metadata.langfuse_session_id
        {_in_metadata("session_id sessionId session.id thread_id threadId")}
        {_in_metadata("conversation_id conversationId chat_id chatId")}
        gen_ai.session.id conversation.id session_id thread_id conversation_id langwatch.thread_id
        langwatch.langgraph.thread_id mlflow.trace.session judgment.session_id confident.trace.thread_id
        netra.session_id gcp.vertex.agent.session_id genkit:sessionId genkit:metadata:sessionId
        lk.pii.room_name lk.room_name ag.session.id mirascope.ops.session.id
    """,
    # The last ones are sent to the model's provider.
    user_id=f"""
        user.id enduser.id langfuse.user.id langwatch.user.id
        langfuse.trace.metadata.langfuse_user_id langfuse.observation.metadata.langfuse_user_id
        {_in_metadata("user_id userId user.id")}
        gen_ai.user.id user_id trpc.go.agent.runner.user_id langwatch.user_id mlflow.trace.user
        judgment.customer_id confident.trace.user_id netra.user_id gcp.vertex.agent.user_id
        lk.pii.participant_identity lk.participant_identity ag.user.id honeyhive_user_properties.user_id
        honeyhive_user_id
        llm.user gen_ai.request.user enduser.pseudo.id
    """,
    agent_name="""
        gen_ai.agent.name gen_ai.agent agent.name embabel.agent.name agno.team.name confident.agent.name
        netra.agent.name
    """,
    name="gen_ai.workflow.name gen_ai.data_source.id",
    error="error.message exception.message span.error.message",
    error_type="error.type exception.type gen_ai.tool.error.type",
)
"""OpenTelemetry's current and old names. Every table ends with them, because many spans have both."""
