"""Errors of judges' calls: what a retry, another form of answer, or a request with fewer fields may help."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from otel_evals._internal.redaction.secrets import redact_secrets, redact_values
from otel_evals._internal.util.plain import plain_text
from otel_evals._internal.util.retry import retry_after
from otel_evals.errors import (
    JudgeError,
    JudgeKeyError,
    JudgeModelError,
    JudgeRefusalError,
    JudgeUnavailableError,
)

_SAID = 4_000
"""Characters of an error that are searched."""
_LATER = frozenset({408, 409, 425, 429, 498})
"""Statuses below 500 after which a retry may help; 498 is Groq's for a lack of capacity."""
_NOT_THE_REQUEST = _LATER | {401, 402, 403, 407, 413}
"""Statuses that another form of the request cannot change."""
_PAGE = re.compile(r"(?is)<(?:!doctype|html)\b.*?<title[^>]*>|</title>.*")
"""What stands around the title of an HTML page, as proxies answer."""
_NO_KEY = re.compile(
    r"(?i)missing (?:credentials|[\w ]{0,20}api.?key)|unable to locate credentials|api_key client option must"
)
_NO_MODEL = re.compile(
    r"(?i)LLM Provider NOT provided|model_not_found|not_found_error"
    r"|\b(?:model|deployment)\b.{0,100}(?:not found|not exist)"
    r"|not a valid model|unsupported model|no models loaded|model.{0,60}decommissioned"
)
_WITHHELD = re.compile(r"(?i)content.?(?:filter|policy|management)|moderation|flagged")
_ANY_FORM = re.compile(
    rf"{_NO_MODEL.pattern}|{_WITHHELD.pattern[4:]}|context.?(?:length|window|size)|api.?key|credit balance"
    r"|(?:prompt|input)\b.{0,20}too long|input token count|inputs. must have|max_new_tokens. must be"
)
"""Refusals that do not depend on the form of the request."""
_REFUSES = re.compile(
    r"(?i)un(?:supported|known|recogni[sz]ed|expected)"
    r"|n[o']t (?:\w+ ){0,2}(?:support|permit|allow|accept|recogni)"
    r"|extra|invalid|deprecated|only the default|remove|omit|forbidden"
)
_WORDS = {
    "temperature": r"temperature",
    "max_tokens": r"max[ _-]?(?:output[ _-]?|new[ _-]?)?tokens",
    "max_completion_tokens": r"max[ _-]?completion[ _-]?tokens",
}
"""Patterns of the fields that a judge sends by itself, which any mention refuses."""
_BEFORE_NAME = "(?:: |(?:parameter|argument|field|option) )"
_CODES = {
    "rate_limit_exceeded": 429,
    "rate_limit_error": 429,
    "resource_exhausted": 429,
    "throttling_exception": 429,
    "insufficient_quota": 429,
    "server_error": 500,
    "overloaded_error": 503,
    "unavailable": 503,
}


class RefusedError(Exception):
    """A response other than a chat completion."""

    def __init__(self, status: int, headers: Mapping[str, str], text: str) -> None:
        super().__init__(text[:_SAID])
        self.status_code, self.headers = status, headers


class FormRefusedError(JudgeError):
    """The server refused the request, perhaps for the form of answer that it asks for."""


def status_inside(error: Any) -> int:
    """Return the status of an error that a server put into a response of status 200."""
    given = error if isinstance(error, Mapping) else {}
    codes = [str(given.get(name)).lower() for name in ("code", "status", "type")]
    statuses = [int(code) if re.fullmatch("[45][0-9]{2}", code) else _CODES.get(code, 0) for code in codes]
    # 422 if there is no status: the request was refused, and a retry is of no use.
    return next(filter(None, statuses), 422)


def judge_error(
    error: Exception, model: str, secrets: Collection[str] = (), key_names: Collection[str] = ()
) -> JudgeError:
    """Translate an exception of a call: JudgeUnavailableError if a retry may help.

    `secrets` are removed from the message; `key_names` are the variables of the key.
    """
    # httpx is an extra: this module can be imported without it.
    import httpx

    status = getattr(error, "status_code", None)
    if isinstance(status, str):  # LiteLLM's, of an error in a response of status 200
        status = status_inside({"code": status})
    given = getattr(error.__context__, "status_code", None)
    if status == 500 and isinstance(given, int):  # LiteLLM's for most errors above 500
        status = max(status, given)
    lost = _cause(error, httpx.TransportError)
    text = _PAGE.sub("", plain_text(error, _SAID))
    # A client's own text may leave out why the connection was lost.
    if lost is not None and str(lost) not in text:
        text = f"{plain_text(lost, 1_000)}: {text}"
    # Redacted before it is cut: the half of a key is not recognised.
    without_text = "an empty answer" if lost is None else "the connection was lost"
    if isinstance(error, TimeoutError) or isinstance(lost, httpx.TimeoutException):
        without_text = "no answer in time"
    said = redact_secrets(redact_values(text, secrets))[:300] or without_text
    request = getattr(lost, "_request", None)  # `request` raises if there is none
    place = f" at {request.url.host}" if request is not None else ""
    message = f"{model}{place}: {type(error).__name__}{f' {status}' if status else ''}: {said}"
    # APIConnectionError, of LiteLLM and of openai, is no ConnectionError of Python.
    lost_by_name = "Connection" in type(error).__name__
    connection = lost is not None or lost_by_name or isinstance(error, ConnectionError | TimeoutError)
    headers = getattr(error, "litellm_response_headers", None) or getattr(error, "headers", None)
    retryable = status is not None and (status in _LATER or status >= 500)
    key = f"{' or '.join(key_names) or 'its environment variable'}, or `api_key`"
    translated: JudgeError
    if _NO_KEY.search(said):  # some report it as a server error
        translated = JudgeKeyError(f"{model}: there is no API key: set {key}. {said}")
    elif status in (400, 403) and _WITHHELD.search(said):
        translated = JudgeRefusalError(f"{model}: the provider withheld the answer ({status}): {said}")
    elif status in (401, 403):
        translated = JudgeKeyError(
            f"{model}: the provider refused the key or access ({status}): check {key}. {said}"
        )
    elif connection or retryable:
        translated = JudgeUnavailableError(message, retry_after=retry_after(headers))
    elif status == 404 or _NO_MODEL.search(said):
        translated = JudgeModelError(f"{model}: there is no such model: check `model` and `api_base`. {said}")
    else:
        translated = JudgeError(message)
    translated.status = None if connection else status  # LiteLLM reports a lost connection as a 500
    translated.provider_error = type(error).__name__
    return translated


def _cause(error: BaseException | None, kind: type[BaseException]) -> Any:
    """Return the first exception of a kind among an exception and its causes, or None."""
    # Bounded: a chain of causes can be a circle.
    for _ in range(10):
        if error is None or isinstance(error, kind):
            return error
        error = error.__cause__ or error.__context__
    return None


# --- refused forms and fields ---


def never(error: JudgeError) -> bool:
    return False


def refuses_request(error: JudgeError) -> bool:
    """Return True if the server understood the request and refused it; another form may be accepted."""
    if error.status is None or not 400 <= error.status < 500 or error.status in _NOT_THE_REQUEST:
        return False
    return not _ANY_FORM.search(str(error))


def may_refuse_form(error: JudgeError) -> bool:
    """Return True also for a server error that does not ask to wait: some servers fail on unknown forms."""
    waits = isinstance(error, JudgeUnavailableError) and error.retry_after is not None
    return refuses_request(error) or (error.status in (500, 501) and not waits)


def refused_fields(error: JudgeError, said: str, sent: Collection[str], form: Collection[str]) -> set[str]:
    """Return the sent fields that the text of an error names as refused.

    An error about a field of the form of answer is not one of these.
    """
    if not may_refuse_form(error) or _ANY_FORM.search(said) or any(name in said for name in form):
        return set()
    refuses = _REFUSES.search(said) is not None
    return {name for name in sent if _names(said, name, refuses)}


def _names(said: str, field: str, refuses: bool) -> bool:
    if field in _WORDS:
        return re.search(rf"(?i)(?<![a-z]){_WORDS[field]}(?![a-z])", said) is not None
    # Quoted, perhaps in JSON, or where only a name can stand.
    name = re.escape(field).replace("_", "_?")  # xAI writes it in camel case
    named = rf"""(?i)(?<!\w)(?:['"`]{name}\\?['"`]|{name} (?:is|are|was|does)\b)|{_BEFORE_NAME}{name}(?!\w)"""
    return refuses and re.search(named, said) is not None
