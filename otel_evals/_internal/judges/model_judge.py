"""A judge that asks a model by calls, each with limits: typed answers, repairs, usage and cost."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from asyncio import CancelledError
from collections.abc import Callable, Collection, Mapping
from contextlib import AsyncExitStack
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from typing import Any

import anyio

from otel_evals._internal.judges.budget import Budget
from otel_evals._internal.judges.fence import IMAGE_TOKENS, user_content
from otel_evals._internal.judges.judge import (
    MAX_PROMPT_CHARS,
    Call,
    CallTotals,
    JudgeReply,
    JudgeRequest,
    Limiter,
    OnCut,
    window_of,
)
from otel_evals._internal.judges.refusals import (
    FormRefusedError,
    judge_error,
    never,
    refused_fields,
    refuses_request,
)
from otel_evals._internal.judges.replies import Completion, no_answer, without_thoughts
from otel_evals._internal.judges.structured import (
    LADDER,
    Ladder,
    StructuredOutput,
    TypedQuestion,
    ladder_of,
)
from otel_evals._internal.model import Usage
from otel_evals._internal.redaction.redactor import redact
from otel_evals._internal.redaction.secrets import redact_values
from otel_evals._internal.trust.marks import ECHOES, need_span
from otel_evals._internal.util.credentials import credentials, without_credentials
from otel_evals._internal.util.plain import plain_text
from otel_evals.errors import ConfigError, JudgeError

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
    images: bool = False
    """Show the model the recorded images of questions, answers and tool results."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of the call, such as `reasoning_effort`."""
    structured_output: StructuredOutput | None = None
    """The only way to ask for typed answers; by default the first of the ladder that works."""

    def __post_init__(self) -> None:
        if not self.model:
            raise ConfigError("model.model", "is empty: name a model such as 'openai/gpt-5-mini'")
        if self.api_base and not self.api_base.startswith(("http://", "https://")):
            shown = without_credentials(self.api_base)
            raise ConfigError("model.api_base", f"must begin with http:// or https://, not {shown!r}")
        # Raises if one of the settings is out of range.
        window_of(self)
        if self.timeout <= 0:
            raise ConfigError("model.timeout", f"must be positive, not {self.timeout}")
        if self.max_tokens is None and any(isinstance(limiter, Budget) for limiter in self.limiters):
            raise ConfigError(
                "model.max_tokens", "is needed with a budget: without it a call may cost anything"
            )
        if self.structured_output not in (None, *LADDER):
            known = ", ".join(LADDER)
            raise ConfigError(
                "model.structured_output", f"must be one of {known}, not {self.structured_output!r}"
            )
        if (self.input_price is None) != (self.output_price is None):
            raise ConfigError("model.output_price", "goes together with input_price: give both or neither")

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

    @abstractmethod
    def _kind(self) -> str:
        """Name the way of asking, with its server."""

    async def _prices(self) -> Prices:
        """Return the prices of the model."""
        return self.input_price, self.output_price

    @abstractmethod
    async def _answer(self, messages: list[dict[str, Any]], fields: Mapping[str, Any]) -> Completion:
        """Make one call with further fields."""

    @abstractmethod
    def _key_names(self) -> tuple[str, ...]:
        """Name the environment variables of the key, as far as they are known."""

    @abstractmethod
    def _has_key(self) -> bool:
        """Return True if there is a key or none is needed; quick."""

    def missing_key(self) -> str | None:
        """Return the environment variable of the key if it is needed and not set."""
        names = self._key_names()
        return names[0] if names and not self._has_key() else None

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
        except (JudgeError, CancelledError) as error:
            # A failed question costs too: the step's record reads it from the error.
            spent.note_in(error)
            raise

    async def _ask(self, request: JudgeRequest, spent: CallTotals) -> JudgeReply:
        if request.schema is None:
            answer = await self._complete(spent, request, {})
            withheld = no_answer(answer, self.model, typed=False)
            if withheld is not None:
                raise withheld
            return spent.reply(without_thoughts(answer.text), answer.model)
        question = TypedQuestion(request, request.schema, partial(self._complete, spent), self.model)
        if self.structured_output is not None:
            value, answer = await question.at(self.structured_output)
        else:
            value, answer = await question.by(self._memory())
        return spent.reply(value, answer.model)

    def _memory(self) -> Ladder:
        return ladder_of(f"{self._kind()} {self.api_base}", self.model)

    async def _complete(
        self,
        spent: CallTotals,
        request: JudgeRequest,
        form: Mapping[str, Any],
        refused: Callable[[JudgeError], bool] = never,
    ) -> Completion:
        """Make one call behind the limiters. Retries are up to the engine, which frees the slot meanwhile."""
        # Before the call is paid: judges stop if their own answers are scored as runs.
        ECHOES.check(self.model)
        call = self._call(request, await self._prices())
        async with AsyncExitStack() as stack:
            settles = [await stack.enter_async_context(limiter.around(call)) for limiter in self.limiters]
            try:
                answer = await self._answered(request, spent, form)
            except JudgeError as error:
                if not refused(error):
                    raise
                # For limiters, no sign that the server is unavailable; its status tells if it is billed.
                form_refused = FormRefusedError(str(error))
                form_refused.status = error.status
                raise form_refused from None
            cost = self._cost(answer)
            for settle in settles:
                settle(answer.usage, cost)
        ECHOES.called(answer.usage, answer.text)
        spent.add(answer.usage or Usage(), cost)
        # Answers are recorded, and a server may repeat the key in one.
        return replace(answer, text=redact_values(answer.text, self._credentials()))

    async def _answered(
        self, request: JudgeRequest, spent: CallTotals, form: Mapping[str, Any]
    ) -> Completion:
        """Make a call, and again without fields that the server refuses."""
        messages: list[dict[str, Any]] = []
        if request.instructions:
            messages.append({"role": "system", "content": request.instructions})
        messages.append({"role": "user", "content": user_content(request)})
        # `trial` has a refusal that names no field, after which the temperature is left out once.
        memory, trial = self._memory(), list[JudgeError]()
        while True:
            sent = self._sent(memory.left_out | ({"temperature"} if trial else set()))
            spent.calls += 1
            try:
                with anyio.fail_after(self.timeout):  # clients' timeouts are for one read, not for the answer
                    answer = await self._answer(messages, {**sent, **form})
            except Exception as error:  # not kept as the cause: its text may contain the judge's key
                failed = judge_error(error, self.model, self._credentials(), self._key_names())
                # LiteLLM leaves out the name of the field, which the error that it caught has.
                said = f"{plain_text(error, 4_000)} {plain_text(error.__context__, 4_000)}"
            else:
                if trial:
                    # The call has passed without it, so the server refuses this field.
                    memory.leave_out(["temperature"], self.model)
                return answer
            # Each of these rounds leaves out a field that was sent, which bounds their number.
            named = refused_fields(failed, said, sent, form)
            if named:
                memory.leave_out(named, self.model)
            elif form or trial or "temperature" not in sent or not refuses_request(failed):
                # If the trial fails too, the first error is about the request as configured.
                raise trial[0] if trial else failed
            else:  # the error names no field
                trial.append(failed)

    def _sent(self, left_out: Collection[str]) -> dict[str, Any]:
        """Return the fields of a call that its server may refuse."""
        # OpenAI's reasoning models refuse max_tokens, and take this in its place.
        limit = "max_completion_tokens" if "max_tokens" in left_out else "max_tokens"
        given = {"temperature": self.temperature, limit: self.max_tokens, **self.options}
        return {name: value for name, value in given.items() if value is not None and name not in left_out}

    def _credentials(self) -> frozenset[str]:
        return credentials(self.api_key, self.api_base, self.options)

    def _call(self, request: JudgeRequest, prices: Prices) -> Call:
        schema = json.dumps(request.schema.model_json_schema()) if request.schema else ""
        # Bytes bound the tokens; 100 more are for a provider's text around the messages.
        tokens = len(f"{request.instructions}{request.prompt}{schema}".encode()) + 100
        tokens += IMAGE_TOKENS * len(request.media)
        inward, outward = prices
        max_cost = None
        if self.max_tokens is not None and inward is not None and outward is not None:
            max_cost = (tokens * inward + self.max_tokens * outward) / 1e6
        return Call(
            model=self.model,
            scorer_id=request.scorer_id,
            max_input_tokens=tokens,
            max_output_tokens=self.max_tokens,
            max_cost=max_cost,
        )

    def _cost(self, answer: Completion) -> float | None:
        usage = answer.usage
        if usage is None or self.input_price is None or self.output_price is None:
            return answer.cost
        return (usage.input_tokens * self.input_price + usage.output_tokens * self.output_price) / 1e6
