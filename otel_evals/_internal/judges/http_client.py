"""HTTP clients for judges: bounded answers, short errors, no redirects."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from typing import Any

import httpx
from anyio.lowlevel import RunVar

from otel_evals._internal.judges.answer_bodies import bounded_body, bounded_headers
from otel_evals._internal.judges.completions import AnswerTooLongError
from otel_evals._internal.util.calls import of_this_loop

_MAX_BYTES = 1024 * 1024
_clients: RunVar[dict[tuple[str, ...], Any]] = RunVar("otel_evals.judge.clients")  # of each event loop
_OTHER_SDK = {"chatgpt", "github_copilot"}
"""OpenAI-compatible providers that need more of LiteLLM than an address and a key."""
_AZURE = {"azure", "azure_text"}
_AZURE_V1 = {"v1", "latest", "preview"}
"""Versions of Azure's API that are OpenAI's own."""


class BoundedTransport(httpx.AsyncBaseTransport):
    """Refuses responses that are longer than 1 MiB, or compressed without being asked to.

    LiteLLM sees the part of a response that `answer_bodies` keeps.
    """

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request and read the response; raise AnswerTooLongError if it exceeds the bound."""
        request.headers["accept-encoding"] = "identity"
        response = await self._inner.handle_async_request(request)
        try:
            if response.headers.get("content-encoding", "identity") != "identity":
                raise AnswerTooLongError("the answer is compressed, although no compression was requested")
            body = await _read(response)
        finally:
            await response.aclose()
        return httpx.Response(
            response.status_code,
            headers=bounded_headers(response.headers),
            content=bounded_body(body, success=response.is_success, path=request.url.path),
        )

    async def aclose(self) -> None:
        await self._inner.aclose()


async def _read(response: httpx.Response) -> bytes:
    received = bytearray()
    stream = response.stream
    assert isinstance(stream, httpx.AsyncByteStream)  # by its contract
    async for chunk in stream:
        received += chunk
        if len(received) > _MAX_BYTES:
            raise AnswerTooLongError(f"the answer is longer than {_MAX_BYTES} bytes")
    return bytes(received)


def server_client(api_base: str) -> httpx.AsyncClient:
    """Return a client for an OpenAI-compatible server, one per event loop, without redirects."""
    client: httpx.AsyncClient = _of_this_loop(("http", api_base), lambda: _client_of(api_base))
    return client


def openai_client(api_base: str, api_key: str) -> Any:
    """Return the OpenAI SDK's client for a server, one per event loop, without redirects and retries.

    A redirect could send a prompt, which contains recorded conversations, to another host.
    """

    def make() -> Any:
        return _sdk_client(api_base, api_key, _client_of(api_base))

    return _of_this_loop(("server", api_base, api_key), make)


def provider_client(
    litellm: Any, model: str, api_base: str | None, api_key: str | None, api_version: str | None = None
) -> Any:
    """Return a client for a model's provider, one per event loop, with LiteLLM's proxies and certificates.

    It is of the kind that LiteLLM uses for this provider; None if LiteLLM takes none, or there is no key.
    """
    try:
        _, provider, key, base = litellm.get_llm_provider(model, api_base=api_base, api_key=api_key)
    except Exception:  # whatever it raises for a model it does not know
        return None
    http = _of_this_loop(("http",), _http_handler)
    if provider in _AZURE:
        return _azure_client(litellm, (api_base, api_key, api_version), http.client)
    if provider == "openai":
        key = key or litellm.api_key or litellm.openai_key or os.environ.get("OPENAI_API_KEY")
        base = (
            base or litellm.api_base or os.environ.get("OPENAI_BASE_URL") or os.environ.get("OPENAI_API_BASE")
        )
    elif provider == "azure_ai" or provider not in litellm.openai_compatible_providers:
        return http  # Cohere's ignores it
    elif provider in _OTHER_SDK or not base:
        return None
    if not key:
        return None

    def make() -> Any:
        sdk = _sdk_client(base, key, http.client)
        return sdk if provider == "openai" else _http_handler(sdk)

    return _of_this_loop((provider, base or "", key), make)


def _azure_client(
    litellm: Any, given: tuple[str | None, str | None, str | None], http: httpx.AsyncClient
) -> Any:
    """Return the OpenAI SDK's client for Azure; None without key and token: LiteLLM logs in by itself."""
    import openai

    env = os.environ.get
    base = given[0] or litellm.api_base or env("AZURE_API_BASE")
    keys = (given[1], litellm.api_key, litellm.azure_key, env("AZURE_OPENAI_API_KEY"), env("AZURE_API_KEY"))
    key = next(filter(None, keys), None)
    version = given[2] or litellm.api_version or env("AZURE_API_VERSION") or litellm.AZURE_DEFAULT_API_VERSION
    token = None if key else env("AZURE_AD_TOKEN")
    if not base or "gateway.ai.cloudflare.com" in base or not (key or (token and "/" not in token)):
        return None
    where = {"base_url" if "/openai/deployments" in base else "azure_endpoint": base}

    def make() -> Any:
        if version in _AZURE_V1:
            return _sdk_client(f"{base}/openai/v1/", key or token or "", http)
        return openai.AsyncAzureOpenAI(
            api_key=key,
            azure_ad_token=token,
            api_version=version,
            max_retries=0,
            http_client=http,
            **where,  # type: ignore[arg-type]
        )

    return _of_this_loop(("azure", base, key or token or "", version), make)


def _of_this_loop(key: tuple[str, ...], make: Callable[[], Any]) -> Any:
    clients = of_this_loop(_clients, dict)
    if key not in clients:
        clients[key] = make()
    return clients[key]


def _sdk_client(api_base: str | None, api_key: str, http: httpx.AsyncClient) -> Any:
    import openai

    return openai.AsyncOpenAI(base_url=api_base, api_key=api_key, max_retries=0, http_client=http)


def _http_handler(sdk: Any = None) -> Any:
    """Return LiteLLM's HTTP client, bounded.

    It also passes for the OpenAI SDK's client `sdk`: LiteLLM's versions differ in which of them they use
    for providers that are compatible with OpenAI.
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


def _client_of(api_base: str) -> httpx.AsyncClient:
    # Loading the usual authorities takes long. Plain HTTP needs none; without any, no certificate is valid.
    verify = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if api_base.startswith("http:") else True
    base = f"{api_base.rstrip('/')}/"
    return _bounded(httpx.AsyncClient(base_url=base, follow_redirects=False, verify=verify))


def _bounded(client: httpx.AsyncClient) -> httpx.AsyncClient:
    """Wrap the transports of a client, since httpx applies proxies only to its own transports."""
    client._transport = BoundedTransport(client._transport)
    client._mounts = {p: None if t is None else BoundedTransport(t) for p, t in client._mounts.items()}
    return client
