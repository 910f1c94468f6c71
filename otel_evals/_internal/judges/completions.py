"""Answers of models and errors of calls, as judges read them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from otel_evals._internal.model import Usage
from otel_evals._internal.redaction.secrets import redact_secrets, redact_values
from otel_evals._internal.util.plain import plain_text
from otel_evals._internal.util.retry import retry_after
from otel_evals.errors import JudgeError, JudgeKeyError, JudgeModelError, JudgeUnavailableError

_MOST_TOKENS = 10**9
_E = TypeVar("_E", bound=BaseException)


class FormRefusedError(JudgeError):
    """The server refused the request, perhaps for the form of answer that it asks for."""

    @classmethod
    def of(cls, error: JudgeError) -> FormRefusedError:
        refused = cls(str(error))
        refused.status, refused.provider_error = error.status, error.provider_error
        return refused


class AnswerTooLongError(Exception):
    """A response that exceeds the bound of judges' answers, or is compressed."""


@dataclass(frozen=True)
class Completion:
    text: str
    model: str
    finish_reason: str
    usage: Usage
    cost: float | None
    """US dollars; None if the price is unknown."""


def text_of(message: Any) -> str:
    """Return a message's text, or the arguments of the tool call that stands for it."""
    calls = _field(message, "tool_calls")
    call = calls[0] if isinstance(calls, list) and calls else None
    text = _field(_field(call, "function"), "arguments") or _field(message, "content")
    return text if isinstance(text, str) else ""


def usage_of(usage: Any) -> Usage:
    """Return the token counts of an answer: an object, or a mapping."""
    return Usage(
        input_tokens=_count(_field(usage, "prompt_tokens")),
        output_tokens=_count(_field(usage, "completion_tokens")),
        cache_read_tokens=_detail(usage, "prompt_tokens_details", "cached_tokens"),
        reasoning_tokens=_detail(usage, "completion_tokens_details", "reasoning_tokens"),
    )


def _detail(usage: Any, group: str, name: str) -> int:
    return _count(_field(_field(usage, group), name))


def _field(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def _count(tokens: Any) -> int:
    """Clamp a server's token count: a negative one would free room in a budget."""
    return min(max(int(tokens), 0), _MOST_TOKENS) if isinstance(tokens, int) else 0


def cost_of(dollars: Any) -> float | None:
    """Return a server's cost in US dollars; None if it is no amount."""
    return float(dollars) if isinstance(dollars, int | float) and 0 <= dollars < math.inf else None


def judge_error(
    error: Exception, model: str, secrets: Collection[str] = (), key_of: Callable[[str], str] | None = None
) -> JudgeError:
    """Translate an exception of a call: JudgeUnavailableError if a retry may help.

    `secrets` are removed from the message; `key_of` names the variable of a model's key.
    """
    import httpx

    status = getattr(error, "status_code", None)
    status = status if isinstance(status, int) else None
    said = redact_secrets(redact_values(_said(error), secrets))[:300] or "no answer in time"
    lost = _cause(error, httpx.TransportError)
    request = getattr(lost, "_request", None)  # `request` raises if there is none
    place = f" at {request.url.host}" if request is not None else ""
    message = f"{model}{place}: {type(error).__name__}{f' {status}' if status else ''}: {said}"
    connection = isinstance(error, ConnectionError | TimeoutError | httpx.TransportError)
    connection = connection or "Connection" in type(error).__name__
    connection = connection or lost is not None
    retryable = status is not None and (status in (408, 409, 425, 429) or status >= 500)
    if (too_long := _cause(error, AnswerTooLongError)) is not None:
        translated = JudgeError(f"{model}: {too_long}")
    elif _NO_KEY.search(said):  # some report it as a server error
        translated = JudgeKeyError(f"{model}: there is no API key: set {_key(model, key_of)}. {said}")
    elif status in (401, 403):
        translated = JudgeKeyError(
            f"{model}: the provider refused the key ({status}): check {_key(model, key_of)}. {said}"
        )
    elif status == 404 or _NO_MODEL.search(said):
        translated = JudgeModelError(f"{model}: there is no such model: check `model` and `api_base`. {said}")
    elif connection or retryable:
        translated = JudgeUnavailableError(message, retry_after=retry_after(_headers(error)))
    else:
        translated = JudgeError(message)
    translated.status = None if connection else status  # LiteLLM reports a lost connection as a 500
    translated.provider_error = type(error).__name__
    return translated


_NOT_THE_FORM = frozenset({401, 402, 403, 407, 408, 409, 413, 425, 429})


def never(error: JudgeError) -> bool:
    return False


def refuses_request(error: JudgeError) -> bool:
    """Return True if the server understood the request and refused it; another form may be accepted."""
    if error.status is None or not 400 <= error.status < 500 or error.status in _NOT_THE_FORM:
        return False
    if error.provider_error in ("ContextWindowExceededError", "ContentPolicyViolationError"):
        return False
    return not _ANY_FORM.search(str(error))


def may_refuse_form(error: JudgeError) -> bool:
    """Return True also for a server error that does not ask to wait: some servers fail on unknown forms."""
    waits = isinstance(error, JudgeUnavailableError) and error.retry_after is not None
    return refuses_request(error) or (error.status in (500, 501) and not waits)


_NO_KEY = re.compile(
    r"(?i)missing (?:credentials|[\w ]{0,20}api.?key)|unable to locate credentials|api_key client option must"
)
_NO_MODEL = re.compile(r"(?i)LLM Provider NOT provided|model_not_found")
_ANY_FORM = re.compile(
    r"(?i)model_not_found|\bmodel\b.{0,100}(?:not found|does not exist)|LLM Provider NOT provided"
    r"|context.?(?:length|window|size)|content.?(?:filter|policy)"
)
"""Refusals that do not depend on the form of the answer."""


def _key(model: str, key_of: Callable[[str], str] | None) -> str:
    return f"{key_of(model) if key_of else 'its environment variable'}, or `api_key`"


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
