"""Judges' servers that mean no good, whichever client LiteLLM asks them by: bounded, and never followed."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from otel_evals.errors import JudgeError, JudgeKeyError, JudgeUnavailableError
from otel_evals.judges import JudgeRequest, LiteLLMJudge
from tests.support.certificates import certificates, needs_openssl, server_context
from tests.support.pauses import LongestCall
from tests.support.recording_server import RecordedRequest, Reply, recording_server
from tests.support.stub_openai import Misbehave, StubOpenAI

TEXT = JudgeRequest(instructions="Explain.", prompt="Why?")
MAX_CALL = 0.02
"""Seconds of processor time."""


def ask(model: str, url: str, **options: Any) -> Any:
    async def main() -> Any:
        return await LiteLLMJudge(model, api_base=url, api_key="sk-tests", timeout=60, **options).ask(TEXT)

    return anyio.run(main)


OFTEN = ["azure/gpt-4o-mini", "openrouter/openai/gpt-4o-mini"]
MORE = [
    "azure_ai/some", "databricks/some", "gemini/gemini-2.5-flash", "groq/llama", "hosted_vllm/some",
    "mistral/mistral-small", "ollama_chat/llama", "xai/grok-4",
]  # fmt: skip


@pytest.mark.parametrize("model", [*OFTEN, *(pytest.param(each, marks=pytest.mark.slow) for each in MORE)])
@pytest.mark.parametrize("how", ["endless", "redirect"])
def test_answers_are_bounded_and_redirects_are_not_followed(model: str, how: str) -> None:
    with StubOpenAI() as other, StubOpenAI() as stub:
        there = Misbehave("status", 307, {"location": f"{other.url}/chat/completions"})
        stub.script = [Misbehave("endless") if how == "endless" else there]
        with pytest.raises(JudgeError) as caught:
            ask(model, stub.url)
        assert len(stub.requests) == 1
        assert other.requests == []
    assert ("the answer is longer than" in str(caught.value)) == (how == "endless")


ASKED_BY = ["openai/m", "azure/m", "openrouter/m"]
"""By a client of ours, by Azure's, and by one that LiteLLM makes."""


@needs_openssl
@pytest.mark.parametrize("model", ASKED_BY)
def test_a_private_authority_is_trusted_only_when_it_is_named(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, key = certificates(tmp_path)
    with StubOpenAI("so it is", tls=server_context(certificate, key)) as stub:
        with pytest.raises(JudgeUnavailableError, match=r"at 127.0.0.1: .*CERTIFICATE_VERIFY_FAILED"):
            ask(model, stub.url)
        assert stub.requests == []
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert ask(model, stub.url).value == "so it is"


@pytest.mark.parametrize("model", ASKED_BY)
def test_a_proxy_of_the_environment_is_used(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with StubOpenAI("so it is") as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("NO_PROXY", "")
        assert ask(model, "http://judge.example:4444/v1").value == "so it is"
    assert proxy.headers[0]["host"] == "judge.example:4444"


def test_azure_answers_by_key_and_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what LiteLLM would have taken them from."""
    with StubOpenAI("so it is") as stub:
        assert ask("azure/mine", stub.url, options={"api_version": "2024-06-01"}).value == "so it is"
        monkeypatch.setenv("AZURE_API_BASE", stub.url)
        monkeypatch.setenv("AZURE_API_KEY", "az-tests")

        async def main() -> Any:
            return await LiteLLMJudge("azure/mine").ask(TEXT)

        assert anyio.run(main).value == "so it is"
        monkeypatch.delenv("AZURE_API_KEY")
        with pytest.raises(JudgeKeyError):
            anyio.run(main)
    assert [headers["api-key"] for headers in stub.headers] == ["sk-tests", "az-tests"]
    assert stub.headers[0]["accept-encoding"] == "identity"


HOSTILE = ["-----BEGIN PRIVATE KEY-----", "eyJ-", "://a:", "http://"]
"""LiteLLM's search for secrets takes seconds on some thousand characters of them."""


def completion(**changed: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": "so"}
    choices = [{"index": 0, "finish_reason": "stop", "message": message}]
    return {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": choices, **changed}


def bodies(text: str) -> Iterator[tuple[int, Any]]:
    yield 500, {"error": {"message": text, "type": text, "code": text}}
    yield 400, [{"error": {"message": text, "details": [text] * 3}}]
    yield 422, text
    yield 200, text
    yield 200, {"error": {"message": text}}
    yield 200, {"detail": text}
    yield 200, completion(choices=text)
    yield 200, completion(choices=[{"index": 0, "message": text, "more": text}])
    yield 200, completion(id=text, created=text, usage=text)
    yield 200, completion(choices=[{"index": 0, "message": {"content": text, "role": text}}], usage=None)


@pytest.fixture
def no_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.slow
@pytest.mark.usefixtures("no_collection")
@pytest.mark.parametrize(
    "model",
    [
        "openai/m",
        *(
            pytest.param(m, marks=pytest.mark.slow)
            for m in ["azure/m", "anthropic/m", "gemini/m", "mistral/m"]
        ),
    ],
)
@pytest.mark.parametrize("piece", HOSTILE)
def test_no_body_keeps_the_interpreters_lock(model: str, piece: str) -> None:
    """A server repeats what it was asked: 16,000 characters in an error stopped every thread for 48 s."""
    text = piece * (100_000 // len(piece))
    with recording_server() as server:
        server.reply = lambda _: Reply(body=json.dumps(completion()).encode())
        asyncio.run(_asked(model, server.url, "so?"))  # what is loaded once is loaded now
        for status, body in bodies(text):
            raw = body.encode() if isinstance(body, str) else json.dumps(body).encode()

            def reply(_: RecordedRequest, status: int = status, raw: bytes = raw) -> Reply:
                return Reply(status, raw)

            server.reply = reply
            longest = []
            for _ in range(4):
                with LongestCall() as call:
                    asyncio.run(_asked(model, server.url, text))
                longest.append((call.seconds, call.name))
                if call.seconds < MAX_CALL * 0.8:
                    break
            assert min(longest)[0] < MAX_CALL, f"{status} {raw[:60]!r}: {min(longest)}"


async def _asked(model: str, url: str, prompt: str) -> None:
    with contextlib.suppress(JudgeError):
        await LiteLLMJudge(model, api_base=url, api_key="sk-tests", timeout=60).ask(
            replace(TEXT, prompt=prompt)
        )
