"""A judge that asks a model by calls, each with limits: typed answers, repairs, usage and cost."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, TypeVar

import anyio
from pydantic import BaseModel, ValidationError

from otel_evals import semconv
from otel_evals._internal.judges.budget import Budget
from otel_evals._internal.judges.completions import Completion, judge_error
from otel_evals._internal.judges.fence import retry_request
from otel_evals._internal.judges.judge import Call, CallTotals, JudgeReply, JudgeRequest, Limiter
from otel_evals._internal.judges.window import MAX_PROMPT_CHARS, OnCut, window_of
from otel_evals._internal.recursion import need_span
from otel_evals._internal.redaction.credentials import credentials
from otel_evals._internal.redaction.redactor import redact
from otel_evals._internal.redaction.secrets import redact_secrets, redact_values
from otel_evals._internal.trust import signature
from otel_evals._internal.util.addresses import without_credentials
from otel_evals.errors import ConfigError, JudgeError, JudgeKeyError, JudgeModelError, JudgeReplyError

_Model = TypeVar("_Model", bound=BaseModel)
Prices = tuple[float | None, float | None]
"""US dollars per million input and output tokens; None if unknown."""

_LANGUAGE = re.compile(r"(?:json)?[ \t\r]*\n")
_MOST = 400_000
_MOST_BLOCKS = 4


@dataclass(frozen=True, repr=False)
class ModelJudge(ABC):
    """A model asked by single calls.

    A typed answer is requested by the provider's structured output first, then by showing the schema in the
    prompt, then once more with the problem.
    """

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
    options: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of the call, such as `reasoning_effort`."""
    _plain_text_only: list[bool] = field(default_factory=list, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.model:
            raise ConfigError("judge.model", "is empty: name a model such as 'openai/gpt-5-mini'")
        window_of(self)
        if self.timeout <= 0:
            raise ConfigError("judge.timeout", f"must be positive, not {self.timeout}")
        if self.max_tokens is None and any(isinstance(limiter, Budget) for limiter in self.limiters):
            raise ConfigError(
                "judge.max_tokens", "is needed with a budget: without it a call may cost anything"
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
        return f"{self._kind()} {self.model} {self.api_base} {self.temperature} {self.max_tokens} {options}"

    @abstractmethod
    def _kind(self) -> str:
        """Name the way of asking, with its server."""

    @abstractmethod
    async def _prices(self) -> Prices:
        """Return the prices of the model."""

    @abstractmethod
    async def _answer(self, messages: list[dict[str, str]], schema: type[BaseModel] | None) -> Completion:
        """Make one call; `schema` asks for the provider's structured output."""

    @abstractmethod
    def _key_of(self, model: str) -> str:
        """Name the environment variable of the model's key."""

    @abstractmethod
    def missing_key(self) -> str | None:
        """Return the environment variable of the key if it is needed and not set; quick."""

    async def ask(self, request: JudgeRequest) -> JudgeReply:
        """Ask, at most three times for a typed answer.

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
            answer = await self._complete(request, spent, native=False)
            if not answer.text.strip():
                raise JudgeReplyError(f"{self.model} answered nothing ({answer.finish_reason})")
            return spent.reply(answer.text.strip(), answer.model)
        if not self._plain_text_only:
            reply = await self._natively(request, request.schema, spent)
            if reply is not None:
                return reply
        return await self._by_prompt(request, request.schema, spent)

    async def _natively(
        self, request: JudgeRequest, schema: type[BaseModel], spent: CallTotals
    ) -> JudgeReply | None:
        """Return the answer by the provider's own structured output, None if that fails."""
        try:
            answer = await self._complete(request, spent, native=True)
        except JudgeError as error:
            if error.status not in (400, 422) or _hopeless(error):
                raise
            self._plain_text_only.append(True)  # unsupported by this provider: spare the next calls
            return None
        value, _ = parse_reply(answer.text, schema)
        return None if value is None else spent.reply(value, answer.model)

    async def _by_prompt(
        self, request: JudgeRequest, schema: type[BaseModel], spent: CallTotals
    ) -> JudgeReply:
        asked = replace(request, prompt=f"{request.prompt}\n\n{describe_schema(schema)}")
        for again in (True, False):
            answer = await self._complete(asked, spent, native=False)
            value, complaint = parse_reply(answer.text, schema)
            if value is not None:
                return spent.reply(value, answer.model)
            if again:
                asked = retry_request(asked, answer.text, complaint)
        said = redact_secrets(answer.text)[:300]
        raise JudgeReplyError(f"{complaint} ({self.model}, {answer.finish_reason}); it answered: {said!r}")

    async def _complete(self, request: JudgeRequest, spent: CallTotals, *, native: bool) -> Completion:
        """Make one call behind the limiters. Retries are up to the engine, which frees the slot meanwhile."""
        call = self._call(request, await self._prices())
        async with AsyncExitStack() as stack:
            settles = [await stack.enter_async_context(limiter.around(call)) for limiter in self.limiters]
            answer = await self._counted_answer(request, spent, native=native)
            cost = self._cost(answer)
            for settle in settles:
                settle(answer.usage, cost)
        spent.add(answer.usage, cost)
        return answer

    async def _counted_answer(self, request: JudgeRequest, spent: CallTotals, *, native: bool) -> Completion:
        messages = [
            {"role": "system", "content": request.instructions},
            {"role": "user", "content": request.prompt},
        ]
        spent.calls += 1
        try:
            with anyio.fail_after(self.timeout):  # clients' own timeouts are for one read, not for the answer
                answer = await self._answer(
                    messages[0 if request.instructions else 1 :], request.schema if native else None
                )
        except Exception as error:  # not kept as the cause: its text may contain the judge's key
            raise judge_error(error, self.model, self._credentials(), self._key_of) from None
        return replace(answer, text=redact_values(answer.text, self._credentials()))

    def _credentials(self) -> frozenset[str]:
        return credentials(self.api_key, self.api_base, self.options)

    def _call(self, request: JudgeRequest, prices: Prices) -> Call:
        schema = json.dumps(request.schema.model_json_schema()) if request.schema else ""
        tokens = len(f"{request.instructions}{request.prompt}{schema}".encode()) + 100
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


def _hopeless(error: JudgeError) -> bool:
    """Return True if the request itself was refused, in any form."""
    if isinstance(error, JudgeKeyError | JudgeModelError):
        return True
    return error.provider_error in ("ContextWindowExceededError", "ContentPolicyViolationError")


# --- answers as text ---


def describe_schema(schema: type[BaseModel]) -> str:
    form = json.dumps(schema.model_json_schema(), ensure_ascii=False)
    return f"Answer with one JSON object and nothing else. It must be valid against this JSON schema:\n{form}"


def parse_reply(text: str, schema: type[_Model]) -> tuple[_Model | None, str]:
    """Return the parsed answer, or None and its problem without quoting it."""
    if len(text) > _MOST:
        return None, f"the answer is longer than {_MOST} characters"
    if not text.strip():
        return None, "the answer is empty"
    complaint = "it holds no JSON object"
    for candidate in _candidates(text):
        try:
            return schema.model_validate_json(candidate), ""
        except ValidationError as error:
            complaint = "; ".join(_problem(dict(item)) for item in error.errors(include_url=False)[:5])
    return None, complaint


def _candidates(text: str) -> list[str]:
    """Return the texts that may be the object: all of it, a fenced block, or between the outermost braces."""
    blocks = text.split("```", 2 * _MOST_BLOCKS)[1::2]
    found = [text, *(block[m.end() :] for block in blocks if (m := _LANGUAGE.match(block)))]
    start, end = text.find("{"), text.rfind("}")
    if 0 <= start < end:
        found.append(text[start : end + 1])
    return found


def _problem(error: dict[str, object]) -> str:
    path = ".".join(str(part) for part in error["loc"])  # type: ignore[attr-defined]  # a tuple by contract
    return f"{path}: {error['msg']}" if path else str(error["msg"])
