"""OpenLIT: OpenTelemetry's names; until 2025 a conversation was one text, each line after its speaker."""

from __future__ import annotations

import re

from otel_evals.dialects import Dialect
from otel_evals.model import Message, OperationKind, Part
from otel_evals_instrumentation._internal.readers.convention import Convention
from otel_evals_instrumentation._internal.readers.single_message import role_of
from otel_evals_instrumentation._internal.readers.span_reader import SpanReader
from otel_evals_instrumentation._internal.readers.values import unmasked

_LINES = re.compile(r"^(system|developer|user|human|assistant|ai|model|tool): ?", re.MULTILINE)


def openlit() -> Dialect:
    """The dialect of OpenLIT's instrumentations."""
    return Convention(name="openlit", scopes=("openlit",), refine_content=_refine)


def _refine(reader: SpanReader, _: OperationKind) -> None:
    """A prompt that is a text is read line by line; texts without a speaker stay the user's."""
    source = reader.sources.get("input")
    if source is not None and source.key == "gen_ai.prompt":
        prompt = reader.attributes.get("gen_ai.prompt")
        if isinstance(prompt, str) and _LINES.match(prompt):
            reader.fields["input_messages"] = _conversation(prompt)
            system = [m.text for m in reader.fields["input_messages"] if m.role == "system" and m.text]
            if system:
                reader.fields["system_instructions"] = "\n\n".join(system)


def _conversation(text: str) -> tuple[Message, ...]:
    """`user: Hello` and so on; what a speaker says goes on until the next one does."""
    starts = list(_LINES.finditer(text))
    ends = [*(start.start() for start in starts[1:]), len(text)]
    return tuple(
        Message(
            role=role_of(start[1]),
            parts=(Part(kind="text", text=unmasked(text[start.end() : end].removesuffix("\n"))),),
        )
        for start, end in zip(starts, ends, strict=True)
    )
