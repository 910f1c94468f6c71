"""Everything that touches LiteLLM's own types: import, completions, prices."""

from __future__ import annotations

import os
import sys
import warnings
from functools import cache
from typing import Any

from otel_evals._internal.judges.completions import Completion, cost_of, text_of, usage_of

# Set while LiteLLM is imported: no price list from the network, no .env file read into the application.
_QUIET = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MODE": "PRODUCTION"}


OWN_IMPORTS: set[str] = set()
"""Modules that were imported for LiteLLM and not by the application."""


@cache
def load() -> Any:
    """Import LiteLLM, which takes seconds, without its output and telemetry."""
    added = {name: value for name, value in _QUIET.items() if name not in os.environ}
    os.environ.update(added)
    before = set(sys.modules)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pydantic's, about how LiteLLM writes its types
            import litellm

            litellm.ModelResponse()  # builds its models now, rather than within the first question
    finally:
        for name in added:
            del os.environ[name]
        OWN_IMPORTS.update(sys.modules.keys() - before)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lambda: _renew_clients(litellm))
    litellm.suppress_debug_info = True
    litellm.telemetry = False
    return litellm


_inherited: list[Any] = []
"""Clients of the parent process, kept because closing them would end the parent's connections."""


def _renew_clients(litellm: Any) -> None:
    """Drop LiteLLM's clients in a forked child, which must not use the parent's connections."""
    cache = vars(litellm).get("in_memory_llm_clients_cache")
    if cache is not None:
        _inherited.append(cache)
        litellm.in_memory_llm_clients_cache = type(cache)()
    made = [name for name in ("module_level_client", "module_level_aclient") if name in vars(litellm)]
    _inherited.extend(vars(litellm).pop(name) for name in made)  # LiteLLM creates them on access


def completion_of(response: Any) -> Completion:
    choice = response.choices[0] if response.choices else None
    return Completion(
        text=text_of(choice.message) if choice else "",
        model=response.model or "",
        finish_reason=(choice.finish_reason or "") if choice else "no_choice",
        usage=usage_of(getattr(response, "usage", None)),
        cost=cost_of(getattr(response, "_hidden_params", {}).get("response_cost")),
    )


def price_of(litellm: Any, model: str) -> tuple[float | None, float | None]:
    """Return US dollars per million input and output tokens by LiteLLM's price list."""
    try:
        info = litellm.get_model_info(model)
    except Exception:  # whatever it raises for a model it does not know
        return None, None
    return _per_million(info.get("input_cost_per_token")), _per_million(info.get("output_cost_per_token"))


def accepts(litellm: Any, model: str, kind: str) -> bool:
    """Return False if LiteLLM's list says that a model takes no media of a kind."""
    try:
        info = litellm.get_model_info(model)
    except Exception:  # whatever it raises for a model it does not know
        return True
    return bool(info.get("supports_audio_input" if kind == "audio" else "supports_vision"))


def _per_million(price: float | None) -> float | None:
    return None if price is None else price * 1e6


def key_of(model: str) -> str:
    """Name the environment variables of a model's key, as far as LiteLLM knows."""
    try:
        names = load().validate_environment(model)["missing_keys"]
    except Exception:  # whatever it raises for a model it does not know
        names = ()
    return " or ".join(names) or "its environment variable"
