"""A judge without LiteLLM: an OpenAI-compatible server, asked with httpx, with bounded answers."""

from __future__ import annotations

import os
import re
import ssl
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anyio.lowlevel import RunVar

from otel_evals._internal.judges.model_judge import ModelJudge
from otel_evals._internal.judges.refusals import RefusedError
from otel_evals._internal.judges.replies import Completion, completion_of, field_of, first_of
from otel_evals._internal.trust.marks import mark_headers
from otel_evals._internal.util.calls import of_this_loop
from otel_evals._internal.util.credentials import credentials
from otel_evals._internal.util.installed import extra
from otel_evals._internal.util.plain import read_json

if TYPE_CHECKING:
    import httpx

_OPENAI = "https://api.openai.com/v1"
# Bounds the memory that a server can fill with an answer without end.
_MAX_BYTES = 1024 * 1024
_COMMENTS = re.compile(r"\A(?:\s*:.*\n)*\s*")
_clients: RunVar[dict[str, Any]] = RunVar("otel_evals.judge.clients")  # of each event loop


@dataclass(frozen=True, repr=False)
class OpenAICompatibleJudge(ModelJudge):
    """A model on an OpenAI-compatible server, asked without LiteLLM.

    `model` is the server's name of the model, `options` are further fields of the request. Without
    `api_base`, the address is that of `OPENAI_BASE_URL` or OpenAI's, and the key is in `OPENAI_API_KEY`. The
    cost is known if prices are given, or if the server reports it in `usage.cost`. Answers are read up to
    1 MiB, and redirects are not followed.

    Raises:
        ConfigError: httpx is not installed, or an option is out of range.
    """

    def __post_init__(self) -> None:
        with extra("http", "model"):
            # Here and not in the engine's thread: openai-agents fails if it sees a half-imported httpx.
            import httpx  # noqa: F401
        super().__post_init__()

    def _kind(self) -> str:
        return f"openai-compatible {self._base}"

    @property
    def _base(self) -> str:
        return self.api_base or os.environ.get("OPENAI_BASE_URL") or _OPENAI

    @property
    def _key(self) -> str | None:
        """The key; that of the environment belongs to the server of the environment."""
        return self.api_key or (None if self.api_base else os.environ.get("OPENAI_API_KEY"))

    def _credentials(self) -> frozenset[str]:
        return credentials(self._key, self.api_base, self.options)

    def _key_names(self) -> tuple[str, ...]:
        return ("OPENAI_API_KEY",)

    def _has_key(self) -> bool:
        return bool(self._key) or self._base != _OPENAI

    async def _answer(self, messages: list[dict[str, Any]], fields: Mapping[str, Any]) -> Completion:
        status, headers, body = await self._post({"model": self.model, "messages": messages, **fields})
        # Some servers send comments of event streams, and blanks, until there is an answer.
        text = _COMMENTS.sub("", body.decode("utf-8-sig", "replace"))
        succeeded = 200 <= status < 300
        try:
            answer = read_json(text) if succeeded else None
        except ValueError:
            if text[:1] in ("", "{"):  # without a length, nothing else tells that a part is missing
                raise ConnectionError(f"the answer is empty or broke off: {text[:200]!r}") from None
            answer = None
        completion = completion_of(answer, headers)
        if isinstance(first_of(field_of(answer, "choices")), dict):
            return completion
        if 300 <= status < 400:
            text = f"redirects, here to {headers.get('location')}, are not followed; fix: set `api_base`"
        elif succeeded and text.startswith(("data:", "event:")):
            text = "the server streams its answer; fix: set `options` to {stream: false}"
        elif succeeded:
            text = f"not a chat completion: {text[:200]}"
        raise RefusedError(status, headers, text)

    async def _post(self, body: Mapping[str, Any]) -> tuple[int, Mapping[str, str], bytes]:
        """Send a request and read the response.

        Raises:
            RefusedError: it exceeds the bound.
        """
        # Uncompressed, since a small compressed answer may expand to any size.
        headers = {"accept-encoding": "identity", **(mark_headers() if self._base != _OPENAI else {})}
        if self._key:
            headers["authorization"] = f"Bearer {self._key}"
        # As LiteLLM takes it: an option with headers, which is no field of the body.
        sent = dict(body)
        headers.update(sent.pop("extra_headers", {}))
        # Connections belong to the event loop that has opened them.
        clients = of_this_loop(_clients, dict)
        client = clients.get(self._base) or clients.setdefault(self._base, _client_of(self._base))
        received = bytearray()
        request = client.stream("POST", "chat/completions", json=sent, headers=headers, timeout=self.timeout)
        async with request as response:
            async for chunk in response.aiter_raw():
                received += chunk
                if len(received) > _MAX_BYTES:
                    break
        answer = _uncompressed(bytes(received), response.headers.get("content-encoding", "identity"))
        if len(answer) > _MAX_BYTES:
            too_long = f"the answer is longer than {_MAX_BYTES} bytes"
            raise RefusedError(response.status_code, response.headers, too_long)
        return response.status_code, response.headers, answer


def _uncompressed(received: bytes, encoding: str) -> bytes:
    """Decompress an answer, which some servers compress without being asked to, up to the bound."""
    if encoding in ("gzip", "deflate"):
        try:
            return zlib.decompressobj(zlib.MAX_WBITS + 32).decompress(received, _MAX_BYTES + 1)
        except zlib.error as error:
            raise ConnectionError(f"the answer is damaged ({encoding}): {error}") from None
    return received if encoding in ("identity", "") else f"compressed as {encoding}".encode()


def _client_of(api_base: str) -> httpx.AsyncClient:
    import httpx

    # Azure's addresses have a query.
    address, _, query = api_base.partition("?")
    # Loading the usual authorities takes long. Plain HTTP needs none; without any, no certificate is valid.
    verify = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if api_base.startswith("http:") else True
    return httpx.AsyncClient(base_url=address, params=query, follow_redirects=False, verify=verify)
