"""The seam to LiteLLM: loading it quietly, reading its answers, naming its errors."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any

from otel_evals.errors import JudgeError, JudgeUnavailableError
from otel_evals.judge.redact import redact_secrets
from otel_evals.model import Usage

__all__ = ["Answer", "load", "price_of", "translate"]

# Set while LiteLLM is imported: no price list from the network, no .env file read into the application.
_QUIET = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MODE": "PRODUCTION"}


@cache
def load() -> Any:
    """Import LiteLLM, which takes seconds, and keep it from printing and phoning home."""
    added = {name: value for name, value in _QUIET.items() if name not in os.environ}
    os.environ.update(added)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pydantic's, about how LiteLLM writes its types
            import litellm

            litellm.ModelResponse()  # builds its models now, rather than within the first question
    finally:
        for name in added:
            del os.environ[name]
    litellm.suppress_debug_info = True
    litellm.telemetry = False
    return litellm


@dataclass(frozen=True)
class Answer:
    """What of a completion matters here."""

    text: str
    model: str
    finish_reason: str
    usage: Usage
    cost: float | None
    """US dollars by LiteLLM's price list; None for models it does not know."""

    @classmethod
    def of(cls, response: Any) -> Answer:
        """Read a completion."""
        choice = response.choices[0] if response.choices else None
        return cls(
            text=(choice.message.content or "") if choice else "",
            model=response.model or "",
            finish_reason=(choice.finish_reason or "") if choice else "no_choice",
            usage=_usage(getattr(response, "usage", None)),
            cost=getattr(response, "_hidden_params", {}).get("response_cost"),
        )


def _usage(usage: Any) -> Usage:
    return Usage(
        input_tokens=getattr(usage, "prompt_tokens", 0) or 0,
        output_tokens=getattr(usage, "completion_tokens", 0) or 0,
        cache_read_tokens=_detail(usage, "prompt_tokens_details", "cached_tokens"),
        reasoning_tokens=_detail(usage, "completion_tokens_details", "reasoning_tokens"),
    )


def _detail(usage: Any, group: str, name: str) -> int:
    return getattr(getattr(usage, group, None), name, 0) or 0


def price_of(litellm: Any, model: str) -> tuple[float | None, float | None]:
    """US dollars per million input and output tokens by LiteLLM's price list; None where it knows none."""
    try:
        info = litellm.get_model_info(model)
    except Exception:  # whatever it raises for a model it does not know
        return None, None
    return _per_million(info.get("input_cost_per_token")), _per_million(info.get("output_cost_per_token"))


def _per_million(price: float | None) -> float | None:
    return None if price is None else price * 1e6


def translate(error: Exception, model: str) -> JudgeError:
    """A provider's error in our words: unavailable where another try may help, else for good."""
    status = getattr(error, "status_code", None)
    said = redact_secrets(str(error))[:300] or "no answer in time"
    message = f"{model}: {type(error).__name__}{f' {status}' if status else ''}: {said}"
    connection = isinstance(error, ConnectionError | TimeoutError) or "Connection" in type(error).__name__
    if connection or (isinstance(status, int) and (status in (408, 409, 425, 429) or status >= 500)):
        return JudgeUnavailableError(message, retry_after=_retry_after(error))
    return JudgeError(message)


def _retry_after(error: Exception) -> float | None:
    """Seconds to wait, from the `retry-after` header, a number or a date."""
    headers: Mapping[str, str] = getattr(error, "litellm_response_headers", None) or getattr(
        getattr(error, "response", None), "headers", {}
    )
    value = headers.get("retry-after")
    if value is None:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return None
