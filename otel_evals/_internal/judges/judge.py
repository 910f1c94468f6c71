"""The interface of judges: instructions, a prompt and a schema in; a validated answer with its cost out.

With a judge for tests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, fields
from typing import Any, Literal, Protocol, get_args

from pydantic import BaseModel, ValidationError

from otel_evals._internal.model import Media, Usage
from otel_evals._internal.model.evaluations import total_cost
from otel_evals._internal.util.plain import MAX_EVIDENCE
from otel_evals.errors import ConfigError, JudgeReplyError


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeRequest:
    """One question to a judge."""

    instructions: str
    """System message."""
    prompt: str
    """User message, with judged content inside fences."""
    schema: type[BaseModel] | None = None
    """Form of the answer; None asks for plain text."""
    scorer_id: str = ""
    step: str = ""
    mark: str = ""
    """The fences' random mark, which a cache leaves out of its key."""
    sample: int = 0
    """Number of the vote; a cache keeps an answer for each."""
    media: tuple[Media, ...] = ()
    """Images to show after the prompt, which lists them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeReply:
    """A judge's answer."""

    value: Any
    """An instance of the request's schema, or text."""
    model: str
    """The model that answered, as the provider names it."""
    usage: Usage = Usage()  # noqa: RUF009  # frozen
    cost: float | None = None
    """US dollars; None if the price is unknown."""
    attempts: int = 1
    """Calls made, including repairs and retries."""


class CallTotals:
    """Number, usage and cost of the calls of a question or a step so far."""

    def __init__(self) -> None:
        self.calls = 0
        self.usage = Usage()
        self._costs: list[float | None] = []

    @property
    def cost(self) -> float | None:
        """US dollars; None if any call's price is unknown."""
        return total_cost(self._costs)

    def add(self, usage: Usage, cost: float | None, calls: int = 0) -> None:
        self.usage += usage
        self._costs.append(cost)
        self.calls += calls

    def note_in(self, error: Any) -> None:
        """Note the totals in the error of a question; a call without an answer counts as free."""
        error.usage, error.attempts = self.usage, self.calls
        error.cost = self.cost if self._costs else 0.0

    def reply(self, value: Any, model: str) -> JudgeReply:
        return JudgeReply(value=value, model=model, usage=self.usage, cost=self.cost, attempts=self.calls)


class Judge(Protocol):
    """Answers questions about a run.

    A judge may also have `redact`, a function applied to judged text before it appears in a prompt (by
    default common forms of secrets are removed), `images`, true if it is shown images, and
    `max_prompt_chars` and `on_cut` as a LiteLLMJudge has.
    """

    @property
    def model(self) -> str:
        """The model asked, such as `openai/gpt-5-mini`; part of a scorer's version."""

    async def ask(self, request: JudgeRequest) -> JudgeReply:
        """Ask once.

        Raises:
            JudgeUnavailableError: a later try may succeed.
            JudgeReplyError: the answer does not fit the schema, even after one repair.
        """


# --- limits and budgets, which every single call of a model passes ---


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call that is about to be made."""

    model: str
    scorer_id: str
    max_input_tokens: int
    """An upper bound: a token is at least one byte."""
    max_output_tokens: int | None
    """None if the answer's length is unlimited."""
    max_cost: float | None
    """Maximum US dollars; None if the price or the answer's length is unknown."""


Settle = Callable[[Usage | None, float | None], None]
"""Reports a call's usage, and its cost in US dollars; None for what is unknown."""


class Limiter(Protocol):
    """Delays or refuses calls."""

    def around(self, call: Call) -> AbstractAsyncContextManager[Settle]:
        """Enter before the call and leave after it; raises JudgeError if the call must not be made."""


# --- settings for evidence that is longer than a prompt may be ---

OnCut = Literal["not_scored", "score"]
"""Outcome of evidence that does not fit: no score, or a score of a part of it that is marked as such."""
MAX_PROMPT_CHARS = 120_000


@dataclass(frozen=True, kw_only=True)
class Window:
    """The settings, read from a judge of any kind."""

    max_prompt_chars: int = MAX_PROMPT_CHARS
    on_cut: OnCut = "not_scored"

    def __post_init__(self) -> None:
        if not 1_000 <= self.max_prompt_chars <= MAX_EVIDENCE:
            problem = f"must be within 1000..{MAX_EVIDENCE}, not {self.max_prompt_chars}"
            raise ConfigError("model.max_prompt_chars", problem)
        if self.on_cut not in get_args(OnCut):
            raise ConfigError("model.on_cut", f"must be not_scored or score, not {self.on_cut!r}")


_NAMES = tuple(field.name for field in fields(Window))


def window_of(judge: Any) -> Window:
    """Return a judge's settings; a CachedJudge has the settings of the judge behind it.

    Raises:
        ConfigError: a value is out of range.
    """
    judge = getattr(judge, "judge", judge)
    # A user's judge need not have these settings: those that it lacks keep their defaults.
    return Window(**{name: getattr(judge, name) for name in _NAMES if hasattr(judge, name)})


# --- a judge for tests ---

Answer = Any | Exception | Callable[[JudgeRequest], Any]


class ScriptedJudge:
    """Answers each step from a script.

    Args:
        answers: by step name, one answer for every call, or a list of answers in turn (the last one
            repeats). An answer is what the schema validates, an exception to raise, or a function of the
            request.
        model: the model it claims to be.
        usage: tokens each call claims to use.
        cost: US dollars each call claims to cost; None for an unknown price.
        images: whether it is shown images.
    """

    def __init__(
        self,
        answers: Mapping[str, Answer | Sequence[Answer]],
        *,
        model: str = "scripted",
        usage: Usage = Usage(input_tokens=100, output_tokens=20),  # noqa: B008  # frozen
        cost: float | None = None,
        images: bool = False,
    ) -> None:
        self.model = model
        self.requests: list[JudgeRequest] = []
        """The questions so far, oldest first."""
        self._answers = {step: a if isinstance(a, list) else [a] for step, a in answers.items()}
        self._usage = usage
        self._cost = cost
        self.images = images

    async def ask(self, request: JudgeRequest) -> JudgeReply:
        """Answer from the script.

        Raises:
            JudgeReplyError: the script has no answer for this step, or one that does not fit the schema.
        """
        self.requests.append(request)
        script = self._answers.get(request.step)
        if not script:
            raise JudgeReplyError(f"the script has no answer for step {request.step!r}")
        answer = script.pop(0) if len(script) > 1 else script[0]
        if isinstance(answer, Exception):
            raise answer
        value = answer(request) if callable(answer) else answer
        return JudgeReply(value=_fit(value, request), model=self.model, usage=self._usage, cost=self._cost)


def _fit(value: Any, request: JudgeRequest) -> Any:
    if request.schema is None:
        return value if isinstance(value, str) else str(value)
    try:
        return request.schema.model_validate(value)
    except ValidationError as error:
        raise JudgeReplyError(f"the scripted answer for {request.step!r} does not fit: {error}") from error
