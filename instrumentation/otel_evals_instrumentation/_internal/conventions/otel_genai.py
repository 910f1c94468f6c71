"""OpenTelemetry's GenAI conventions: current and older forms, in attributes and events."""

from __future__ import annotations

from otel_evals.dialects import Dialect
from otel_evals.model import Message, OperationKind, Part
from otel_evals_instrumentation._internal.readers.convention import LAST, Convention
from otel_evals_instrumentation._internal.readers.span_reader import SpanReader
from otel_evals_instrumentation._internal.readers.values import parse, unmasked


def otel_genai() -> Dialect:
    """The dialect of spans that carry `gen_ai.*`."""
    return Convention(
        name="otel_genai",
        order=LAST,
        markers=(
            "gen_ai.operation.name",
            "gen_ai.system",
            "gen_ai.provider.name",
            "gen_ai.request.model",
            "gen_ai.response.model",
            "gen_ai.tool.name",
            "gen_ai.tool.call.id",
            "gen_ai.tool.call.arguments",
            "gen_ai.tool.call.result",
            "gen_ai.agent.name",
            "gen_ai.input.messages",
            "gen_ai.output.messages",
            "gen_ai.system_instructions",
            "gen_ai.tool.definitions",
            "gen_ai.response.id",
            "gen_ai.retrieval.documents",
            "gen_ai.retrieval.query.text",
            "gen_ai.usage.input_tokens",
            "gen_ai.usage.output_tokens",
            "gen_ai.usage.prompt_tokens",
            "gen_ai.usage.completion_tokens",
            "gen_ai.prompt",
            "gen_ai.prompt.content",
            "gen_ai.prompt.0.role",
            "gen_ai.prompt.0.content",
            "gen_ai.completion",
            "gen_ai.completion.content",
            "gen_ai.completion.0.role",
            "gen_ai.completion.0.content",
            "gen_ai.completion.0.tool_calls.0.name",
            "tool_args",
        ),
        refine_content=_refine,
    )


def _refine(reader: SpanReader, _: OperationKind) -> None:
    """Texts that do not say who spoke, as Spring AI lists them: only the last is known to be the user's."""
    source = reader.sources.get("input")
    if source is not None and source.key == "gen_ai.prompt":
        texts = parse(reader.attributes.get("gen_ai.prompt"))
        if isinstance(texts, (list, tuple)) and len(texts) > 1 and all(map(_is_plain, texts)):
            said = Part(kind="text", text=unmasked(texts[-1]))
            reader.fields["input_messages"] = (Message(role="user", parts=(said,)),)


def _is_plain(text: object) -> bool:
    return isinstance(text, str) and text[:1] not in ("{", "[")
