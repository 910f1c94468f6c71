"""The HTTP client for judges behind an address of one's own: bounded answers, no redirects."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
from anyio.lowlevel import RunVar

from otel_evals.judge.litellm_calls import AnswerTooLongError

__all__ = ["openai_client"]

_MAX_BYTES = 8 * 1024 * 1024
_clients: RunVar[dict[tuple[str, str], Any]] = RunVar("otel_evals.judge.clients")  # of each event loop


class BoundedTransport(httpx.AsyncHTTPTransport):
    """Ends a response that is longer than 8 MiB, or whose length is hidden by a compression not asked for."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; the response's body raises AnswerTooLongError where it exceeds the bound."""
        request.headers["accept-encoding"] = "identity"
        response = await super().handle_async_request(request)
        stream = response.stream
        assert isinstance(stream, httpx.AsyncByteStream)  # by its contract
        if response.headers.get("content-encoding", "identity") != "identity":
            await stream.aclose()
            raise AnswerTooLongError("the answer is compressed, though no compression was asked for")
        response.stream = _BoundedStream(stream)
        return response


class _BoundedStream(httpx.AsyncByteStream):
    def __init__(self, stream: httpx.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = _MAX_BYTES
        async for chunk in self._stream:
            left -= len(chunk)
            if left < 0:
                raise AnswerTooLongError(f"the answer is longer than {_MAX_BYTES} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


def openai_client(api_base: str, api_key: str) -> Any:
    """The OpenAI SDK's client for a server, one per event loop. It follows no redirect and retries nothing.

    A redirect could send a prompt, which holds recorded conversations, to another host.
    """
    import openai

    clients = _clients.get(None)
    if clients is None:
        clients = {}
        _clients.set(clients)
    client = clients.get((api_base, api_key))
    if client is None:
        http = httpx.AsyncClient(transport=BoundedTransport(), follow_redirects=False)
        client = openai.AsyncOpenAI(base_url=api_base, api_key=api_key, max_retries=0, http_client=http)
        clients[api_base, api_key] = client
    return client
