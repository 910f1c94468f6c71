"""Everything that touches LiteLLM's own types: import, completions, errors."""

from __future__ import annotations

import math
import os
import re
import sys
import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from otel_evals._internal.model import Usage
from otel_evals._internal.redaction.secrets import redact_secrets, redact_values
from otel_evals._internal.util.plain import plain_text
from otel_evals._internal.util.retry import retry_after
from otel_evals.errors import JudgeError, JudgeKeyError, JudgeModelError, JudgeUnavailableError

_MOST_TOKENS = 10**9
_E = TypeVar("_E", bound=BaseException)

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


class AnswerTooLongError(Exception):
    """A response that exceeds the bound of judges' answers, or is compressed."""


@dataclass(frozen=True)
class Completion:
    text: str
    model: str
    finish_reason: str
    usage: Usage
    cost: float | None
    """US dollars by LiteLLM's price list; None for models it does not know."""

    @classmethod
    def of(cls, response: Any) -> Completion:
        choice = response.choices[0] if response.choices else None
        return cls(
            text=(choice.message.content or "") if choice else "",
            model=response.model or "",
            finish_reason=(choice.finish_reason or "") if choice else "no_choice",
            usage=_usage(getattr(response, "usage", None)),
            cost=_cost(getattr(response, "_hidden_params", {}).get("response_cost")),
        )


def _usage(usage: Any) -> Usage:
    return Usage(
        input_tokens=_count(getattr(usage, "prompt_tokens", 0)),
        output_tokens=_count(getattr(usage, "completion_tokens", 0)),
        cache_read_tokens=_detail(usage, "prompt_tokens_details", "cached_tokens"),
        reasoning_tokens=_detail(usage, "completion_tokens_details", "reasoning_tokens"),
    )


def _detail(usage: Any, group: str, name: str) -> int:
    return _count(getattr(getattr(usage, group, None), name, 0))


def _count(tokens: Any) -> int:
    """Clamp a server's token count: a negative one would free room in a budget."""
    return min(max(int(tokens), 0), _MOST_TOKENS) if isinstance(tokens, int) else 0


def _cost(dollars: Any) -> float | None:
    return float(dollars) if isinstance(dollars, int | float) and 0 <= dollars < math.inf else None


def price_of(litellm: Any, model: str) -> tuple[float | None, float | None]:
    """Return US dollars per million input and output tokens by LiteLLM's price list."""
    try:
        info = litellm.get_model_info(model)
    except Exception:  # whatever it raises for a model it does not know
        return None, None
    return _per_million(info.get("input_cost_per_token")), _per_million(info.get("output_cost_per_token"))


def _per_million(price: float | None) -> float | None:
    return None if price is None else price * 1e6


def judge_error(error: Exception, model: str, secrets: Collection[str] = ()) -> JudgeError:
    """Translate an exception of a call: JudgeUnavailableError if a retry may help.

    `secrets` are removed from the message.
    """
    status = getattr(error, "status_code", None)
    status = status if isinstance(status, int) else None
    said = redact_secrets(redact_values(_said(error), secrets))[:300] or "no answer in time"
    message = f"{model}: {type(error).__name__}{f' {status}' if status else ''}: {said}"
    connection = isinstance(error, ConnectionError | TimeoutError) or "Connection" in type(error).__name__
    retryable = status is not None and (status in (408, 409, 425, 429) or status >= 500)
    if (too_long := _cause(error, AnswerTooLongError)) is not None:
        translated = JudgeError(f"{model}: {too_long}")
    elif _NO_KEY.search(said):  # some report it as a server error
        translated = JudgeKeyError(f"{model}: there is no API key: set {_key_of(model)}. {said}")
    elif status in (401, 403):
        translated = JudgeKeyError(
            f"{model}: the provider refused the key ({status}): check {_key_of(model)}. {said}"
        )
    elif status == 404 or _NO_MODEL.search(said):
        translated = JudgeModelError(f"{model}: there is no such model: check `model` and `api_base`. {said}")
    elif connection or retryable:
        translated = JudgeUnavailableError(message, retry_after=retry_after(_headers(error)))
    else:
        translated = JudgeError(message)
    translated.status, translated.provider_error = status, type(error).__name__
    return translated


_NO_KEY = re.compile(
    r"(?i)missing (?:credentials|[\w ]{0,20}api.?key)|unable to locate credentials|api_key client option must"
)
_NO_MODEL = re.compile(r"(?i)LLM Provider NOT provided|model_not_found")


def _key_of(model: str) -> str:
    """Name the environment variables of a model's key, as far as LiteLLM knows."""
    try:
        names = load().validate_environment(model)["missing_keys"]
    except Exception:  # whatever it raises for a model it does not know
        names = ()
    return f"{' or '.join(names) or 'its environment variable'}, or `api_key`"


def _said(error: Exception) -> str:
    """Return an error's text, with the transport error among its causes."""
    import httpx

    said, cause = plain_text(error, 4_000), _cause(error, httpx.TransportError)
    why = "" if cause is None else plain_text(cause, 1_000)
    return said if why in said else f"{why}: {said}"


def _cause(error: BaseException | None, kind: type[_E]) -> _E | None:
    """Return the first exception of a kind among an exception and its causes."""
    for _ in range(10):
        if error is None or isinstance(error, kind):
            return error
        error = error.__cause__ or error.__context__
    return None


def _headers(error: Exception) -> Mapping[str, str]:
    own: Mapping[str, str] | None = getattr(error, "litellm_response_headers", None)
    return own or getattr(getattr(error, "response", None), "headers", None) or {}
