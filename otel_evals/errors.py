"""Public exceptions.

    OtelEvalsError
    ├── ConfigError                the configuration is wrong: names the field and the fix (a ValueError)
    │   └── ConfigErrors           several fields are wrong: contains all
    ├── JudgeError                 a judge gave no usable reply
    │   ├── JudgeUnavailableError  worth another attempt: 429, 5xx, connection lost, timeout
    │   ├── JudgeKeyError          the provider refused the key, or there is none: no further attempt helps
    │   ├── JudgeModelError        the provider has no such model: no further attempt helps
    │   ├── JudgeReplyError        the judge's reply did not have the required form
    │   │   ├── JudgeRefusalError  the judge refused to answer
    │   │   ├── JudgeEmptyError    the reply was empty
    │   │   └── JudgeCutError      the reply was cut off by `max_tokens`
    │   └── BudgetExceededError    the call could have exceeded the budget
    ├── DestinationError           a destination did not accept scores; says whether to try again
    └── StoreError                 the store's file cannot be used

They are raised when something is built or opened. A running pipeline raises none of them in the application;
inside the engine they become outcomes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = [
    "BudgetExceededError",
    "ConfigError",
    "ConfigErrors",
    "DestinationError",
    "JudgeCutError",
    "JudgeEmptyError",
    "JudgeError",
    "JudgeKeyError",
    "JudgeModelError",
    "JudgeRefusalError",
    "JudgeReplyError",
    "JudgeUnavailableError",
    "OtelEvalsError",
    "StoreError",
]


class OtelEvalsError(Exception):
    """Base of all exceptions of this package."""


class ConfigError(OtelEvalsError, ValueError):
    """The configuration is wrong. The message starts with the path of the field, in files with its place."""

    def __init__(self, field: str, problem: str, place: str = "") -> None:
        super().__init__(f"{place}: {field}: {problem}" if place else f"{field}: {problem}")
        self.field = field
        """Path of the wrong field, such as `rules[0].sample`."""
        self.problem = problem
        """What is wrong and how to fix it."""
        self.place = place
        """Where the field stands in a file, as `path:line:column`; empty where there is no file."""

    @property
    def errors(self) -> tuple[ConfigError, ...]:
        """Everything that is wrong, one by one."""
        return (self,)

    def __reduce__(self) -> tuple[type[ConfigError], tuple[str, str, str]]:
        return type(self), (self.field, self.problem, self.place)


class ConfigErrors(ConfigError):  # noqa: N818  # several of them
    """Several fields are wrong. `field`, `problem` and `place` describe the first."""

    def __init__(self, errors: Sequence[ConfigError]) -> None:
        super().__init__(errors[0].field, errors[0].problem, errors[0].place)
        self.args = (f"{len(errors)} mistakes\n" + "\n".join(f"  {error}" for error in errors),)
        self._errors = tuple(errors)

    @property
    def errors(self) -> tuple[ConfigError, ...]:
        """Everything that is wrong, one by one."""
        return self._errors

    def __reduce__(self) -> tuple[type[ConfigError], tuple[Sequence[ConfigError]]]:  # type: ignore[override]
        return type(self), (self._errors,)


class JudgeError(OtelEvalsError):
    """A judge gave no usable reply."""

    usage: Any = None
    """Tokens that the call used nevertheless, as `otel_evals.model.Usage`; None if unknown."""
    cost: float | None = None
    """US dollars of the answers that came nevertheless; None if unknown."""
    attempts: int = 1
    """Calls made, repairs and retries included."""
    status: int | None = None
    """HTTP status of the provider's refusal, where there was one."""
    provider_error: str = ""
    """Name of the exception that the provider's library raised."""


class JudgeUnavailableError(JudgeError):
    """The judge could not be reached or was overloaded; another attempt may succeed."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        asked = retry_after is not None and retry_after >= 0
        self.retry_after = retry_after if asked else None
        """Seconds that the provider asked to wait; None if it did not say."""


class JudgeKeyError(JudgeError):
    """There is no API key, or the provider refused it (401, 403)."""


class JudgeModelError(JudgeError):
    """The provider, or LiteLLM, knows no model of this name (404)."""


class JudgeReplyError(JudgeError):
    """The judge's reply does not match the schema, even after one repair."""


class JudgeRefusalError(JudgeReplyError):
    """The judge refused to answer, or its provider withheld the answer."""


class JudgeEmptyError(JudgeReplyError):
    """The judge's reply has no text besides its thoughts."""


class JudgeCutError(JudgeReplyError):
    """The judge's reply reached `max_tokens` before it had the required form."""


class BudgetExceededError(JudgeError):
    """The judge was not called: the call could have cost more than is left of the budget."""


class DestinationError(OtelEvalsError):
    """A destination did not accept a batch of scores, or one of them."""

    def __init__(
        self,
        message: str,
        *,
        retryable: bool,
        retry_after: float | None = None,
        reason: str | None = None,
        status: int | None = None,
        answer: bytes = b"",
    ) -> None:
        super().__init__(message)
        self.retryable = retryable
        """Whether sending the same again may succeed."""
        self.retry_after = retry_after
        """Seconds that the destination asked to wait; None if it did not say."""
        self.reason = reason or ("unavailable" if retryable else "refused")
        """What losses are counted under: low cardinality, lower_snake_case."""
        self.status = status
        """HTTP status of the answer, where there was one."""
        self.answer = answer
        """The beginning of what was answered, for destinations that read of it which scores were refused."""


class StoreError(OtelEvalsError):
    """The store's file is missing, corrupt, or not a store; the message names it."""
