"""HTTP clients for judges: bounded answers, no redirects."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
from anyio.lowlevel import RunVar

from otel_evals.judge.litellm_calls import AnswerTooLongError

__all__ = ["openai_client", "provider_client"]

_MAX_BYTES = 8 * 1024 * 1024
_clients: RunVar[dict[tuple[str, ...], Any]] = RunVar("otel_evals.judge.clients")  # of each event loop
_BY_HTTP = {"anthropic", "bedrock", "cohere", "cohere_chat", "gemini", "vertex_ai"}
"""Providers that LiteLLM asks by an HTTP client rather than by the OpenAI SDK."""
_OTHER_SDK = {"azure_ai", "chatgpt", "github_copilot"}
"""Providers compatible with OpenAI for which LiteLLM does more than to give an address and a key."""


class BoundedTransport(httpx.AsyncBaseTransport):
    """Ends a response that is longer than 8 MiB, or whose length is hidden by a compression not asked for.

    Args:
        inner: sends the requests.
    """

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; the response's body raises AnswerTooLongError where it exceeds the bound."""
        request.headers["accept-encoding"] = "identity"
        response = await self._inner.handle_async_request(request)
        stream = response.stream
        assert isinstance(stream, httpx.AsyncByteStream)  # by its contract
        if response.headers.get("content-encoding", "identity") != "identity":
            await stream.aclose()
            raise AnswerTooLongError("the answer is compressed, though no compression was asked for")
        response.stream = _BoundedStream(stream)
        return response

    async def aclose(self) -> None:
        """Close the connections."""
        await self._inner.aclose()


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

    def make() -> Any:
        http = httpx.AsyncClient(
            transport=BoundedTransport(httpx.AsyncHTTPTransport()), follow_redirects=False
        )
        return _sdk_client(api_base, api_key, http)

    return _of_this_loop(("server", api_base, api_key), make)


def provider_client(litellm: Any, model: str, api_base: str | None, api_key: str | None) -> Any:
    """A client for a model's provider, one per event loop, with proxies and certificates as LiteLLM has them.

    Returns:
        The kind of client by which LiteLLM asks this provider; None where it takes none, or there is no key.
    """
    try:
        _, provider, key, base = litellm.get_llm_provider(model, api_base=api_base, api_key=api_key)
    except Exception:  # whatever it raises for a model it does not know
        return None
    http = _of_this_loop(("http",), _http_handler)
    if provider in _BY_HTTP:
        return http
    if provider == "openai":
        key = key or litellm.api_key or litellm.openai_key or os.environ.get("OPENAI_API_KEY")
        base = (
            base or litellm.api_base or os.environ.get("OPENAI_BASE_URL") or os.environ.get("OPENAI_API_BASE")
        )
    elif provider not in litellm.openai_compatible_providers or provider in _OTHER_SDK or not base:
        return None
    if not key:
        return None
    return _of_this_loop(
        ("both", base or "", key), lambda: _http_handler(_sdk_client(base, key, http.client))
    )


def _of_this_loop(key: tuple[str, ...], make: Callable[[], Any]) -> Any:
    clients = _clients.get(None)
    if clients is None:
        clients = {}
        _clients.set(clients)
    if key not in clients:
        clients[key] = make()
    return clients[key]


def _sdk_client(api_base: str | None, api_key: str, http: httpx.AsyncClient) -> Any:
    import openai

    return openai.AsyncOpenAI(base_url=api_base, api_key=api_key, max_retries=0, http_client=http)


def _http_handler(sdk: Any = None) -> Any:
    """LiteLLM's HTTP client, bounded.

    With the OpenAI SDK's client it can stand for that too: which of them LiteLLM uses for a provider that is
    compatible with OpenAI changes from version to version.
    """
    from litellm.llms.custom_httpx.http_handler import AsyncHTTPHandler, get_ssl_configuration

    class BoundedHandler(AsyncHTTPHandler):  # type: ignore[misc, unused-ignore]  # LiteLLM may be missing
        def create_client(self, timeout: Any = None, *_: Any, **__: Any) -> httpx.AsyncClient:
            return _bounded(httpx.AsyncClient(verify=get_ssl_configuration(), timeout=timeout))

        def __getattr__(self, name: str) -> Any:
            if sdk is None:
                raise AttributeError(name)
            return getattr(sdk, name)

    return BoundedHandler(follow_redirects=False)


def _bounded(client: httpx.AsyncClient) -> httpx.AsyncClient:
    """The client, its transports wrapped: only for transports of its own does httpx take the proxies set."""
    client._transport = BoundedTransport(client._transport)
    client._mounts = {p: None if t is None else BoundedTransport(t) for p, t in client._mounts.items()}
    return client
