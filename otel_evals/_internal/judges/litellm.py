"""LiteLLM as judge: any provider it supports, and any OpenAI-compatible address.

Only LiteLLM's translation between providers is used. Its retries, router, cache and telemetry stay
disabled: this package has its own, and LiteLLM's multiply calls, reject instead of queueing, or fail.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec
from typing import Any

from otel_evals._internal.judges.model_judge import ModelJudge, Prices
from otel_evals._internal.judges.replies import Completion, completion_of, cost_of, field_of
from otel_evals._internal.trust.marks import mark_headers
from otel_evals._internal.util.calls import in_thread
from otel_evals._internal.util.installed import install_hint
from otel_evals.errors import ConfigError

OWN_IMPORTS: set[str] = set()
"""Modules that were imported for LiteLLM and not by the application."""
# Set while LiteLLM is imported: no price list from the network, no .env file read into the application.
_QUIET = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MODE": "PRODUCTION"}
# `drop_params`: a field that LiteLLM knows a provider to refuse is left out, and raises no error.
_OFF = {"max_retries": 0, "num_retries": 0, "caching": False, "drop_params": True}
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


@cache
def load() -> Any:
    """Import LiteLLM, which takes seconds, without its output and telemetry."""
    # A value that the application has set stays.
    added = {name: value for name, value in _QUIET.items() if name not in os.environ}
    os.environ.update(added)
    before = set(sys.modules)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pydantic's, about how LiteLLM writes its types
            import litellm

            litellm.ModelResponse()  # builds its models now, rather than within the first question
    finally:
        # Taken back: the application and its child processes must not find them set.
        for name in added:
            del os.environ[name]
        OWN_IMPORTS.update(sys.modules.keys() - before)
    litellm.suppress_debug_info = True
    litellm.telemetry = False
    return litellm


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
            raise ConfigError("model", f"needs LiteLLM: {install_hint('litellm')}")
        super().__post_init__()

    def _kind(self) -> str:
        return "litellm"

    def prepare(self) -> None:
        """Import LiteLLM before the first run."""
        load()

    async def _prices(self) -> Prices:
        # In a thread: the import takes seconds, and for Ollama's models LiteLLM asks a server.
        await in_thread(load)
        # Without max_tokens, no maximum can be computed: the price list is not read then.
        if None in (self.input_price, self.output_price) and self.max_tokens is not None:
            return await in_thread(price_of, self.model)
        return self.input_price, self.output_price

    async def _answer(self, messages: list[dict[str, Any]], fields: Mapping[str, Any]) -> Completion:
        # A server of your own that runs otel-evals does not score the call.
        mark = mark_headers() if self._is_own_server() else {}
        # A user's header wins over one of the mark with the same name.
        headers = {"extra_headers": {**mark, **fields.get("extra_headers", {})}} if mark else {}
        # A placeholder: the environment's key must not be sent to another server.
        key = self.api_key or ("none" if self.api_base else None)
        given = {"api_base": self.api_base, "api_key": key, "timeout": self.timeout, **_OFF}
        response = await load().acompletion(
            model=self.model, messages=messages, **{**given, **fields, **headers}
        )
        answer = completion_of(response, {})
        # LiteLLM computes the cost from the usage: from an impossible usage, it is no cost. It is also 0 if
        # the price is unknown.
        cost = cost_of(field_of(getattr(response, "_hidden_params", None), "response_cost")) or answer.cost
        return replace(answer, cost=cost if answer.usage is not None else None)

    def _is_own_server(self) -> bool:
        provider = self.model.partition("/")[0].upper()
        variables = (f"{provider}_API_BASE", f"{provider}_BASE_URL")
        return self.api_base is not None or any(map(os.environ.get, variables))

    def _key_names(self) -> tuple[str, ...]:
        return _KEYS.get(self.model.partition("/")[0], ())

    def _has_key(self) -> bool:
        # Asked only if LiteLLM is imported: an import here would take seconds.
        loaded = getattr(sys.modules.get("litellm"), "api_key", None)
        return bool(self.api_key or self.api_base or loaded or any(map(os.environ.get, self._key_names())))


def price_of(model: str) -> Prices:
    """Return US dollars per million input and output tokens by LiteLLM's price list."""
    try:
        # From the list itself: LiteLLM gives 0 for a price that the list does not have.
        listed = load().model_cost[load().get_model_info(model)["key"]]
        return listed["input_cost_per_token"] * 1e6, listed["output_cost_per_token"] * 1e6
    except Exception:  # whatever it raises for a model it does not know
        return None, None
