"""A judge without LiteLLM: an OpenAI-compatible server, asked with httpx."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from otel_evals._internal.judges.completions import Completion, cost_of, text_of, usage_of
from otel_evals._internal.judges.model_judge import ModelJudge, Prices
from otel_evals._internal.redaction.credentials import credentials
from otel_evals._internal.util.install_hint import extra

if TYPE_CHECKING:
    import httpx

_OPENAI = "https://api.openai.com/v1"


class RefusedError(Exception):
    """A response with another status than 200, or in another form."""

    def __init__(self, response: httpx.Response, problem: str = "") -> None:
        super().__init__(problem or response.text)
        self.status_code, self.response = response.status_code, response


@dataclass(frozen=True, repr=False)
class OpenAICompatibleJudge(ModelJudge):
    """A model on an OpenAI-compatible server, asked without LiteLLM.

    `model` is the server's name of the model, `options` are further fields of the request. Without
    `api_base`, the address is that of `OPENAI_BASE_URL` or OpenAI's, and the key is in `OPENAI_API_KEY`. The
    cost is known if prices are given, or if the server reports it in `usage.cost`.

    Raises:
        ConfigError: httpx is not installed, or an option is out of range.
    """

    _refused: list[str] = field(default_factory=list, init=False, repr=False, compare=False)
    """Parameters that the model does not take."""

    def __post_init__(self) -> None:
        with extra("http", "judge"):
            # Here and not in the engine's thread: openai-agents fails if it sees a half-imported httpx.
            import httpx  # noqa: F401
        super().__post_init__()

    def _kind(self) -> str:
        return f"openai-compatible {self._base}"

    @property
    def _base(self) -> str:
        return self.api_base or os.environ.get("OPENAI_BASE_URL") or _OPENAI

    async def _prices(self) -> Prices:
        return self.input_price, self.output_price

    @property
    def _key(self) -> str | None:
        """The key; that of the environment belongs to the server of the environment."""
        return self.api_key or (None if self.api_base else os.environ.get("OPENAI_API_KEY"))

    def _credentials(self) -> frozenset[str]:
        return credentials(self._key, self.api_base, self.options)

    def _key_of(self, model: str) -> str:
        return "OPENAI_API_KEY"

    def missing_key(self) -> str | None:
        return None if self._key or self._base != _OPENAI else "OPENAI_API_KEY"

    async def _answer(self, messages: list[dict[str, Any]], form: Mapping[str, Any]) -> Completion:
        response = await self._post(messages, form)
        if response.status_code == 400 and self._refuses_more(response.text):
            response = await self._post(messages, form)
        if response.status_code != 200:
            raise RefusedError(response)
        try:
            answer = response.json()
            choice = answer["choices"][0]
            message = choice["message"]
        except (ValueError, KeyError, IndexError, TypeError):
            raise RefusedError(response, f"not a chat completion: {response.text[:200]}") from None
        return Completion(
            text=text_of(message),
            model=answer["model"],
            finish_reason=choice["finish_reason"],
            usage=usage_of(answer["usage"]),
            cost=cost_of(answer["usage"].get("cost")),
        )

    async def _post(self, messages: list[dict[str, Any]], form: Mapping[str, Any]) -> httpx.Response:
        from otel_evals._internal.judges.http_client import server_client

        given: dict[str, Any] = {"temperature": self.temperature, "max_tokens": self.max_tokens}
        body = {n: v for n, v in given.items() if v is not None and n not in self._refused}
        if "max_tokens" in self._refused:
            body["max_completion_tokens"] = self.max_tokens
        headers = self._mark(self._base != _OPENAI)
        if self._key:
            headers["authorization"] = f"Bearer {self._key}"
        return await server_client(self._base).post(
            "chat/completions",
            json={"model": self.model, "messages": messages, **body, **form, **self.options},
            headers=headers,
            timeout=self.timeout,
        )

    def _refuses_more(self, message: str) -> bool:
        """Note the parameters that an error names: newer models of OpenAI take neither of these two."""
        named = [n for n in ("temperature", "max_tokens") if f"'{n}'" in message and n not in self._refused]
        self._refused.extend(named)
        return bool(named)
