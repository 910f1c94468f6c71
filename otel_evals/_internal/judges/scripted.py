"""A judge for tests: gives scripted answers and records the questions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from otel_evals._internal.judges.judge import JudgeReply, JudgeRequest
from otel_evals._internal.model import Usage
from otel_evals.errors import JudgeReplyError

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
