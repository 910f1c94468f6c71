"""Public exceptions.

OtelEvalsError
├── ConfigError                the configuration is wrong: names the field and the fix (also a ValueError)
├── JudgeError                 a judge gave no usable answer
│   ├── JudgeUnavailableError  worth another try: 429, 5xx, connection lost, timed out
│   ├── JudgeReplyError        the judge answered, but not in the form asked for
│   └── BudgetExceededError    the judge was not asked, because it could have cost more than is left
├── DestinationError           a destination refused scores; says whether another try may help
└── StoreError                 the store's file cannot be used

None of these reaches the application from a running pipeline: they are raised when something is built,
and inside the engine they become counted outcomes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from otel_evals.model import Usage

__all__ = [
    "BudgetExceededError",
    "ConfigError",
    "DestinationError",
    "JudgeError",
    "JudgeReplyError",
    "JudgeUnavailableError",
    "OtelEvalsError",
    "StoreError",
]


class OtelEvalsError(Exception):
    """Base of every exception this package raises on purpose."""


class ConfigError(OtelEvalsError, ValueError):
    """The configuration is wrong. The message starts with the path of the field."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        """Path of the wrong field, such as `rules[0].sample`."""
        self.problem = problem
        """What is wrong and how to mend it."""


class JudgeError(OtelEvalsError):
    """A judge gave no usable answer."""

    usage: Usage | None = None
    """Tokens spent all the same."""
    cost: float | None = None
    """US dollars spent all the same; None when unknown."""
    attempts: int = 1
    """Calls made, repairs and retries included."""


class JudgeUnavailableError(JudgeError):
    """The judge could not answer now; another try may succeed."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """Seconds the provider asked us to wait, where it said so."""


class JudgeReplyError(JudgeError):
    """The judge answered something that does not fit the schema, even after one repair."""


class BudgetExceededError(JudgeError):
    """The judge was not asked: what the call could have cost does not fit into the budget any more."""


class DestinationError(OtelEvalsError):
    """A destination refused a batch of scores."""

    def __init__(self, message: str, *, retryable: bool, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retryable = retryable
        """Whether sending the same batch again may succeed."""
        self.retry_after = retry_after
        """Seconds the destination asked us to wait, where it said so."""


class StoreError(OtelEvalsError):
    """The store's file is missing, broken, or not ours; the message names it."""
