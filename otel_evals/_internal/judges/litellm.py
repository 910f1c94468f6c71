"""LiteLLM as judge: any provider it supports, and any OpenAI-compatible address.

Only LiteLLM's translation between providers is used. Its retries, router, cache and telemetry stay
disabled: this package has its own, and LiteLLM's multiply calls, reject instead of queueing, or fail.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from otel_evals._internal.judges.completions import Completion
from otel_evals._internal.judges.litellm_calls import accepts, completion_of, key_of, load, price_of
from otel_evals._internal.judges.model_judge import ModelJudge, Prices
from otel_evals._internal.util.calls import in_thread
from otel_evals._internal.util.install_hint import install_hint
from otel_evals.errors import ConfigError

_OWN_CLIENT = {
    "api_key", "azure_ad_token", "azure_ad_token_provider", "azure_password", "azure_username", "base_url",
    "client", "client_id", "client_secret", "custom_llm_provider", "organization", "tenant_id",
}  # fmt: skip
"""Options of LiteLLM that a client created here would ignore."""


_KEYS = {
    "anthropic": ("ANTHROPIC_API_KEY",),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "groq": ("GROQ_API_KEY",),
    "mistral": ("MISTRAL_API_KEY",),
    "openai": ("OPENAI_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY", "OR_API_KEY"),
    "xai": ("XAI_API_KEY",),
}
"""Variables of common providers' keys, known before LiteLLM is imported, which takes seconds."""


@dataclass(frozen=True, repr=False)
class LiteLLMJudge(ModelJudge):
    """A model asked through LiteLLM.

    `model` is LiteLLM's name, such as `openai/gpt-5-mini`. With `api_base`, it is `openai/` and the server's
    name of a model; `options` are further arguments of `litellm.acompletion`, such as `reasoning_effort`.

    Raises:
        ConfigError: LiteLLM is not installed, or an option is out of range.
    """

    def __post_init__(self) -> None:
        if find_spec("litellm") is None:
            raise ConfigError("judge", f"needs LiteLLM: {install_hint('litellm')}")
        super().__post_init__()

    def _kind(self) -> str:
        return "litellm"

    def prepare(self) -> None:
        """Import LiteLLM before the first run."""
        load()

    @property
    def takes(self) -> Collection[str]:
        """The kinds of media that the model is shown, without those that LiteLLM knows it does not take."""
        return [kind for kind in self.media if accepts(load(), self.model, kind)] if self.media else ()

    async def _prices(self) -> Prices:
        litellm = await in_thread(load)
        if None in (self.input_price, self.output_price) and self.max_tokens is not None:
            return price_of(litellm, self.model)
        return self.input_price, self.output_price

    async def _answer(self, messages: list[dict[str, Any]], form: Mapping[str, Any]) -> Completion:
        litellm = load()
        response = await litellm.acompletion(
            model=self.model, messages=messages, **form, **self._options(litellm)
        )
        return completion_of(response)

    def _key_of(self, model: str) -> str:
        return key_of(model)

    def missing_key(self) -> str | None:
        names = _KEYS.get(self.model.partition("/")[0], ())
        given = self.api_key or self.api_base or getattr(sys.modules.get("litellm"), "api_key", None)
        return names[0] if names and not given and not any(map(os.environ.get, names)) else None

    def _options(self, litellm: Any) -> dict[str, Any]:
        return {
            "api_base": self.api_base,
            "api_key": self.api_key or ("none" if self.api_base else None),
            "temperature": self.temperature,
            "timeout": self.timeout,
            "max_tokens": self.max_tokens,
            "max_retries": 0,
            "num_retries": 0,
            "caching": False,
            "drop_params": True,
            **self._client(litellm),
            **self.options,
            **self._headers(),
        }

    def _client(self, litellm: Any) -> dict[str, Any]:
        """Return a client that bounds answers and follows no redirect, if LiteLLM takes one."""
        from otel_evals._internal.judges.http_client import openai_client, provider_client

        if not _OWN_CLIENT.isdisjoint(self.options):
            return {}
        if self.api_base is not None and self.model.startswith("openai/"):
            return {"client": openai_client(self.api_base, self.api_key or "none")}
        version = self.options.get("api_version")
        client = provider_client(litellm, self.model, self.api_base, self.api_key, version)
        return {} if client is None else {"client": client}

    def _headers(self) -> dict[str, Any]:
        mark = self._mark(self.api_base is not None)
        return {"extra_headers": {**mark, **self.options.get("extra_headers", {})}} if mark else {}
