"""A judge that asks a model by calls, each with limits: typed answers, repairs, usage and cost."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from contextlib import AsyncExitStack
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

import anyio

from otel_evals import semconv
from otel_evals._internal.judges.budget import Budget
from otel_evals._internal.judges.completions import Completion, FormRefusedError, judge_error, never
from otel_evals._internal.judges.judge import Call, CallTotals, JudgeReply, JudgeRequest, Limiter
from otel_evals._internal.judges.ladder import LADDER, StructuredOutput, ladder_of, request_fields
from otel_evals._internal.judges.shown_media import Shown, check_shown, most_tokens, user_content
from otel_evals._internal.judges.typed_answers import Ask, TypedQuestion
from otel_evals._internal.judges.window import MAX_PROMPT_CHARS, Explore, OnCut, window_of
from otel_evals._internal.recursion import need_span
from otel_evals._internal.redaction.credentials import credentials
from otel_evals._internal.redaction.redactor import redact
from otel_evals._internal.redaction.secrets import redact_values
from otel_evals._internal.trust import signature
from otel_evals._internal.util.addresses import without_credentials
from otel_evals.errors import ConfigError, JudgeError, JudgeReplyError

Prices = tuple[float | None, float | None]
"""US dollars per million input and output tokens; None if unknown."""


@dataclass(frozen=True, repr=False)
class ModelJudge(ABC):
    """A model asked by single calls."""

    model: str
    """The model, as LiteLLM or the server names it."""
    _: KW_ONLY
    api_base: str | None = None
    """Address of an OpenAI-compatible server, such as `http://localhost:8000/v1`."""
    api_key: str | None = field(default=None, repr=False)
    """By default read from the provider's usual environment variable."""
    temperature: float | None = 0.0
    """Left out for models that refuse it; None for the provider's default."""
    timeout: float = 60.0
    """Seconds for one call with its whole answer."""
    max_tokens: int | None = None
    """Limit of one answer."""
    input_price: float | None = None
    """US dollars per million input tokens, for models whose price is unknown."""
    output_price: float | None = None
    """US dollars per million output tokens."""
    limiters: tuple[Limiter, ...] = ()
    """JudgeLimits and Budgets of each call. Share them among judges of the same provider."""
    redact: Callable[[str], str] = redact
    """Applied to all judged text before it leaves the process; by default the configured redaction."""
    max_prompt_chars: int = MAX_PROMPT_CHARS
    """Maximum characters of judged text in a prompt; choose it by the model's context window."""
    on_cut: OnCut = "not_scored"
    """Outcome if the evidence does not fit: not scored, or a score marked with `evidence_cut`."""
    explore: Explore = False
    """Let the judge look around in the run before it answers: True, characters above which, or options."""
    media: tuple[Shown, ...] = ()
    """Kinds of media in questions and answers that the model is shown: `image`, `audio`, and `link` for
    images of which only an https address was recorded, which the provider opens."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of the call, such as `reasoning_effort`."""
    structured_output: StructuredOutput | None = None
    """The only way to ask for typed answers; by default the first of the ladder that works."""

    def __post_init__(self) -> None:
        if not self.model:
            raise ConfigError("judge.model", "is empty: name a model such as 'openai/gpt-5-mini'")
        window_of(self)
        check_shown(self.media)
        if self.timeout <= 0:
            raise ConfigError("judge.timeout", f"must be positive, not {self.timeout}")
        if self.max_tokens is None and any(isinstance(limiter, Budget) for limiter in self.limiters):
            raise ConfigError(
                "judge.max_tokens", "is needed with a budget: without it a call may cost anything"
            )
        if self.structured_output not in (None, *LADDER):
            known = ", ".join(LADDER)
            raise ConfigError(
                "judge.structured_output", f"must be one of {known}, not {self.structured_output!r}"
            )
        if (self.input_price is None) != (self.output_price is None):
            raise ConfigError("judge.output_price", "goes together with input_price: give both or neither")

    def __repr__(self) -> str:
        """Show model and server; no value of an option, since any may be a secret."""
        server = f", api_base={without_credentials(self.api_base)!r}" if self.api_base else ""
        options = f", options={sorted(self.options)}" if self.options else ""
        return f"{type(self).__name__}({self.model!r}{server}{options})"

    @property
    def identity(self) -> str:
        """Everything but the question that answers depend on; a part of a cache's key."""
        options = json.dumps(dict(self.options), sort_keys=True, default=str)
        asked = f"{self.temperature} {self.max_tokens} {options} {self.structured_output}"
        return f"{self._kind()} {self.model} {self.api_base} {asked}"

    @property
    def takes(self) -> Collection[str]:
        """The kinds of media that the model is shown."""
        return self.media

    @abstractmethod
    def _kind(self) -> str:
        """Name the way of asking, with its server."""

    @abstractmethod
    async def _prices(self) -> Prices:
        """Return the prices of the model."""

    @abstractmethod
    async def _answer(self, messages: list[dict[str, Any]], form: Mapping[str, Any]) -> Completion:
        """Make one call; `form` has the fields that ask for a typed answer."""

    @abstractmethod
    def _key_of(self, model: str) -> str:
        """Name the environment variable of the model's key."""

    @abstractmethod
    def missing_key(self) -> str | None:
        """Return the environment variable of the key if it is needed and not set; quick."""

    async def ask(self, request: JudgeRequest) -> JudgeReply:
        """Ask, for a typed answer down the ladder and with one repair.

        Raises:
            JudgeUnavailableError: 429, 5xx, connection lost or timed out.
            JudgeReplyError: the answer does not fit the schema.
            JudgeError: the provider refused the request permanently.
        """
        spent = CallTotals()
        need_span()
        try:
            return await self._ask(request, spent)
        except JudgeError as error:
            error.usage, error.cost, error.attempts = spent.usage, spent.cost, spent.calls
            raise

    async def _ask(self, request: JudgeRequest, spent: CallTotals) -> JudgeReply:
        if request.schema is None:
            answer = await self._complete(request, spent, {})
            if not answer.text.strip():
                raise JudgeReplyError(f"{self.model} gave an empty answer ({answer.finish_reason})")
            return spent.reply(answer.text.strip(), answer.model)
        question = TypedQuestion(request, request.schema, self._asker(spent), self.model)
        if self.structured_output is not None:
            value, answer = await question.at(self.structured_output)
        else:
            value, answer = await question.by(ladder_of(f"{self._kind()} {self.api_base}", self.model))
        return spent.reply(value, answer.model)

    def _asker(self, spent: CallTotals) -> Ask:
        async def ask(
            request: JudgeRequest, rung: StructuredOutput, refused: Callable[[JudgeError], bool]
        ) -> Completion:
            assert request.schema is not None
            return await self._complete(request, spent, request_fields(rung, request.schema), refused)

        return ask

    async def _complete(
        self,
        request: JudgeRequest,
        spent: CallTotals,
        form: Mapping[str, Any],
        refused: Callable[[JudgeError], bool] = never,
    ) -> Completion:
        """Make one call behind the limiters. Retries are up to the engine, which frees the slot meanwhile."""
        call = self._call(request, await self._prices())
        async with AsyncExitStack() as stack:
            settles = [await stack.enter_async_context(limiter.around(call)) for limiter in self.limiters]
            try:
                answer = await self._counted_answer(request, spent, form)
            except JudgeError as error:
                if refused(error):  # for limiters, no sign that the server is unavailable
                    raise FormRefusedError.of(error) from None
                raise
            cost = self._cost(answer)
            for settle in settles:
                settle(answer.usage, cost)
        spent.add(answer.usage, cost)
        return answer

    async def _counted_answer(
        self, request: JudgeRequest, spent: CallTotals, form: Mapping[str, Any]
    ) -> Completion:
        messages: list[dict[str, Any]] = [
            {"role": "system", "content": request.instructions},
            {"role": "user", "content": user_content(request)},
        ]
        spent.calls += 1
        try:
            with anyio.fail_after(self.timeout):  # clients' own timeouts are for one read, not for the answer
                answer = await self._answer(messages[0 if request.instructions else 1 :], form)
        except Exception as error:  # not kept as the cause: its text may contain the judge's key
            raise judge_error(error, self.model, self._credentials(), self._key_of) from None
        return replace(answer, text=redact_values(answer.text, self._credentials()))

    def _credentials(self) -> frozenset[str]:
        return credentials(self.api_key, self.api_base, self.options)

    def _call(self, request: JudgeRequest, prices: Prices) -> Call:
        schema = json.dumps(request.schema.model_json_schema()) if request.schema else ""
        tokens = len(f"{request.instructions}{request.prompt}{schema}".encode()) + 100
        tokens += most_tokens(request.media)
        return Call(
            model=self.model,
            scorer_id=request.scorer_id,
            max_input_tokens=tokens,
            max_output_tokens=self.max_tokens,
            max_cost=self._max_cost(prices, tokens),
        )

    def _max_cost(self, prices: Prices, input_tokens: int) -> float | None:
        if self.max_tokens is None or prices[0] is None or prices[1] is None:
            return None
        return (input_tokens * prices[0] + self.max_tokens * prices[1]) / 1e6

    def _mark(self, own_server: bool) -> dict[str, str]:
        """Return a header with which a server of your own that runs otel-evals does not score the call."""
        return {"baggage": f"{semconv.MARK}={signature()}"} if own_server else {}

    def _cost(self, answer: Completion) -> float | None:
        if self.input_price is None or self.output_price is None:
            return answer.cost
        usage = answer.usage
        return (usage.input_tokens * self.input_price + usage.output_tokens * self.output_price) / 1e6
