"""Images, sounds and files of messages, in the forms that providers, frameworks and conventions write."""

from __future__ import annotations

import hashlib
import json
import pickle
from base64 import b64encode, urlsafe_b64encode
from typing import Any

import pytest

from otel_evals._internal.read.runs import find_runs
from otel_evals.model import Media, Run
from otel_evals_instrumentation._internal.readers import media as reader
from otel_evals_instrumentation._internal.readers.messages import read_messages
from otel_evals_instrumentation._internal.readers.parts import read_part
from tests.support.trace_builder import KNOWN_CONVENTIONS, TraceBuilder, run_of, span

BYTES = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
TEXT = b64encode(BYTES).decode()
URI, LINK = f"data:image/png;base64,{TEXT}", "https://cdn.example/lift.png"
ASKED, SAID = "Is the lift in the picture broken?", "Its door is off."


def bytes_of(kind: Any, mime_type: str | None = None, name: str | None = None) -> Media:
    digest = f"sha256:{hashlib.sha256(BYTES).hexdigest()}"
    given = {"size": len(BYTES), "digest": digest, "base64": TEXT}
    return Media(kind=kind, mime_type=mime_type, name=name, **given)  # type: ignore[arg-type]


PNG = bytes_of("image", "image/png")
LINKED = Media(kind="image", uri=LINK)
NO_BYTES = Media(kind="image", mime_type="image/png")


@pytest.mark.parametrize(
    ("product", "part", "media"),
    [
        ("GenAI", {"type": "blob", "modality": "image", "mime_type": "image/png", "content": TEXT}, PNG),
        ("GenAI", {"type": "uri", "modality": "image", "uri": LINK}, LINKED),
        ("GenAI", {"type": "file", "modality": "audio", "file_id": "f1"}, Media(kind="audio", file_id="f1")),
        ("pydantic-ai", {"type": "binary", "media_type": "image/png", "content": TEXT}, PNG),
        ("pydantic-ai", {"type": "blob", "mime_type": "image/png"}, NO_BYTES),
        ("pydantic-ai", {"type": "image-url", "url": LINK}, LINKED),
        ("pydantic-ai", {"type": "audio-url", "url": "s3://b/k"}, Media(kind="audio", uri="s3://b/k")),
        ("AI SDK", {"type": "file", "mediaType": "image/png", "data": TEXT}, PNG),
        (
            "AI SDK",
            {"type": "file", "mediaType": "image/png", "data": LINK},
            Media(kind="image", mime_type="image/png", uri=LINK),
        ),
        ("AI SDK 4", {"type": "image", "image": TEXT, "mimeType": "image/png"}, PNG),
        ("OpenAI", {"type": "image_url", "image_url": {"url": URI, "detail": "low"}}, PNG),
        ("OpenAI", {"type": "input_image", "image_url": LINK}, LINKED),
        ("OpenAI", {"type": "input_file", "file_id": "f1"}, Media(kind="file", file_id="f1")),
        (
            "OpenAI",
            {"type": "input_audio", "input_audio": {"data": TEXT, "format": "mp3"}},
            bytes_of("audio", "audio/mpeg"),
        ),
        (
            "OpenAI",
            {
                "type": "file",
                "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{TEXT}"},
            },
            bytes_of("file", "application/pdf", "a.pdf"),
        ),
        ("OpenAI", {"type": "image_generation_call", "id": "i", "result": TEXT}, bytes_of("image")),
        (
            "Anthropic",
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": TEXT}},
            PNG,
        ),
        ("Anthropic", {"type": "image", "source": {"type": "url", "url": LINK}}, LINKED),
        (
            "Anthropic",
            {"type": "document", "title": "Rules", "source": {"type": "text", "data": "Nobody"}},
            Media(kind="file", name="Rules"),
        ),
        ("Bedrock", {"image": {"format": "png", "source": {"bytes": TEXT}}}, PNG),
        (
            "Bedrock",
            {"video": {"format": "mp4", "source": {"s3Location": {"uri": "s3://b/k"}}}},
            Media(kind="video", mime_type="video/mp4", uri="s3://b/k"),
        ),
        (
            "Gemini",
            {"inline_data": {"mime_type": "image/png", "data": urlsafe_b64encode(BYTES).decode()}},
            PNG,
        ),
        (
            "Gemini",
            {"fileData": {"fileUri": "gs://b/k", "mimeType": "audio/wav"}},
            Media(kind="audio", mime_type="audio/wav", uri="gs://b/k"),
        ),
        (
            "LangChain",
            {"type": "image", "source_type": "base64", "data": TEXT, "mime_type": "image/png"},
            PNG,
        ),
        ("Genkit", {"media": {"url": URI, "contentType": "image/png"}}, PNG),
        ("AG-UI", {"type": "image", "source": {"type": "data", "value": TEXT, "mimeType": "image/png"}}, PNG),
        ("MCP", {"type": "image", "data": TEXT, "mimeType": "image/png"}, PNG),
        ("OpenInference", {"message_content": {"type": "image", "image": {"image": {"url": URI}}}}, PNG),
        ("OpenInference, hidden", {"type": "image", "image": {"url": "__REDACTED__"}}, Media(kind="image")),
        (
            "Langfuse",
            {"type": "image_url", "image_url": {"url": "@@@langfuseMedia:type=image/png|id=m1|source=b@@@"}},
            Media(kind="image", mime_type="image/png", file_id="m1"),
        ),
    ],
)
def test_a_part_is_read_as_a_reference(product: str, part: Any, media: Media) -> None:
    read = read_part(part)
    assert (read.kind, read.data, read.media, read.truncated) == ("media", None, media, False), product


@pytest.mark.parametrize("text", [TEXT[:-3], TEXT[:30] + "...", "not base64!"])
def test_base64_that_was_cut_off_is_no_content(text: str) -> None:
    part = read_part({"type": "blob", "mime_type": "image/png", "content": text})
    assert (part.media, part.truncated) == (NO_BYTES, True)


def test_bytes_above_the_limit_leave_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MAX_BASE64", 100)
    media = read_part({"type": "blob", "mime_type": "image/png", "content": TEXT}).media
    assert media is not None
    assert (media.size, media.digest, media.base64) == (len(BYTES), None, None)


def test_a_transcript_is_what_was_said() -> None:
    spoken = {"role": "assistant", "content": None, "audio": {"id": "a", "data": TEXT, "transcript": SAID}}
    (message,) = read_messages([spoken])
    assert (message.text, message.media) == (SAID, (bytes_of("audio"),))


def test_images_next_to_a_content_are_parts() -> None:
    (message,) = read_messages(
        [{"role": "user", "content": ASKED, "images": [TEXT, {"image_url": {"url": LINK}}]}]
    )
    assert (message.text, message.media) == (ASKED, (bytes_of("image"), LINKED))


def test_bytes_are_not_in_a_representation() -> None:
    assert TEXT[:20] not in repr(PNG)


# --- whole spans ---

PARTS = [{"type": "text", "content": ASKED}, {"type": "uri", "modality": "image", "uri": LINK}]
ANSWER = {"role": "assistant", "parts": [{"type": "text", "content": SAID}]}
CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m1"}


def genai(*messages: Any, **attributes: Any) -> Run:
    given = {"gen_ai.input.messages": json.dumps(messages), "gen_ai.output.messages": json.dumps([ANSWER])}
    return run_of(span(1, {**CHAT, **given, **attributes}))


def test_an_image_is_an_answer() -> None:
    drawn = [{"role": "assistant", "parts": PARTS[1:]}]
    run = genai({"role": "user", "parts": PARTS[:1]}, **{"gen_ai.output.messages": json.dumps(drawn)})
    assert (run.output, run.output_messages[-1].media) == ("", (LINKED,))
    assert run.content == "full"


def test_files_that_the_ai_sdk_generated_are_in_the_answer() -> None:
    attributes = {
        "ai.operationId": "ai.generateText.doGenerate",
        "ai.prompt.messages": json.dumps([{"role": "user", "content": "Draw a lift."}]),
        "ai.response.files": json.dumps([{"type": "file", "mediaType": "image/png", "data": TEXT}]),
    }
    assert run_of(span(1, attributes)).output_messages[-1].media == (PNG,)


SHOT = {"type": "image", "data": TEXT, "mimeType": "image/png"}
REFERENCE = {
    "type": "image",
    "kind": "image",
    "mime_type": "image/png",
    "size": PNG.size,
    "digest": PNG.digest,
}


@pytest.mark.parametrize(
    ("recorded", "read"),
    [
        (
            {"content": [{"type": "text", "text": "done"}, SHOT]},
            [{"type": "text", "text": "done"}, REFERENCE],
        ),
        ([SHOT], [REFERENCE]),
        (
            {"type": "computer_screenshot", "image_url": URI},
            {**REFERENCE, "type": "computer_screenshot"},
        ),
        ([{"type": "image", "url": LINK}], [{"type": "image", "url": LINK}]),
        ([{"type": "image", "title": "of a lift"}], [{"type": "image", "title": "of a lift"}]),
    ],
)
def test_bytes_in_a_tool_s_result_are_a_reference(recorded: Any, read: Any) -> None:
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look"}
    asked = {"gen_ai.operation.name": "invoke_agent"}
    run = run_of(span(1, asked), span(2, {**tool, "gen_ai.tool.call.result": json.dumps(recorded)}))
    (call,) = run.tool_calls
    assert call.result == read
    assert call.media == ((PNG,) if TEXT in json.dumps(recorded) else ())
    assert pickle.loads(pickle.dumps(run)).tool_calls[0].media == call.media


def test_bytes_in_a_tool_s_message_are_a_reference() -> None:
    shot = {"type": "image_url", "image_url": {"url": URI}}
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    said = [
        {"role": "user", "content": "Look."},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "done"}, shot]},
    ]
    (call,) = run_of(span(1, {**CHAT, "gen_ai.input.messages": json.dumps(said)})).tool_calls
    assert call.media == (PNG,)
    assert TEXT not in json.dumps(call.result)


def test_agents_that_are_asked_about_different_images_are_different_runs() -> None:
    trace = TraceBuilder("my.app").add("app", {})
    for number in (1, 2):
        image = {"type": "uri", "modality": "image", "uri": f"https://cdn.example/{number}.png"}
        said = {"gen_ai.input.messages": json.dumps([{"role": "user", "parts": [image]}])}
        answer = {"gen_ai.output.messages": json.dumps([ANSWER])}
        trace.add("invoke_agent a", {"gen_ai.operation.name": "invoke_agent", **said, **answer})
    assert len(find_runs(trace.spans, KNOWN_CONVENTIONS)) == 2


@pytest.mark.parametrize("kind", ["LLM", "AGENT"])
def test_images_of_an_openinference_span_belong_to_its_question_and_its_answer(kind: str) -> None:
    said = {"openinference.span.kind": kind, "input.value": ASKED, "output.value": SAID}
    seen = {"input.images.0.image.url": URI, "input.images.1.image.url": LINK}
    drawn = {"output.images.0.image.url": URI, "output.documents.0.document.url": "s3://bucket/lift.pdf"}
    run = run_of(span(1, {**said, **seen, **drawn}))
    assert (run.input, run.output) == (ASKED, SAID)
    assert [m.media for m in run.input_messages] == [(PNG, LINKED)]
    assert [m.media for m in run.output_messages] == [(PNG, Media(kind="file", uri="s3://bucket/lift.pdf"))]
