"""A judge that explores: it looks around in a run, one bounded look at a time, before it answers.

Looks are asked for as JSON objects, so any model can explore that gives typed answers. Their results are
judged text, inside the prompt's fences; nothing in them can make a look or end the exploration.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, cast

from anyio.lowlevel import checkpoint
from msgspec import structs
from pydantic import BaseModel

from otel_evals._internal.judges.fence import Fence
from otel_evals._internal.judges.judge import CallTotals, Exploration, Judge, JudgeRequest
from otel_evals._internal.model import Context, StepRecord
from otel_evals._internal.scorers.kit.context import seen
from otel_evals._internal.scorers.kit.run_steps import RunStep
from otel_evals._internal.util.plain import read_json

STEP = "explore"
"""Step of the requests that ask for a look."""
MOST_SHOWN = 4_000
"""Characters that one look shows; fewer if a prompt has little capacity."""
_LEAST_SHOWN = 500
_LONGEST_LINE = 500
_AROUND = 100

_TOOLS = """\
Before you answer, look for the evidence in the steps of the recorded run, one look at a time. Do not answer
yet: reply with one of these JSON objects.

{"action": "list", "step": 1} lists the steps from number 1 on, as a tree
{"action": "read", "step": 3, "part": 1} shows a part of the texts of step 3
{"action": "search", "text": "refund"} finds the steps that contain a text
{"action": "compare", "step": 3, "other": 7} shows where the values of two steps differ
{"action": "answer"} ends the search, once you have seen what decides

You may look $left more times."""
_NOW = "You have looked enough. Answer the question now, in the form asked for."


class Look(BaseModel):
    """A judge's next move."""

    action: Literal["list", "read", "search", "compare", "answer"]
    step: int = 1
    part: int = 1
    other: int = 1
    text: str = ""


Found = tuple[str, list[RunStep]]
"""Text to show, and the steps that it shows."""


class RunView:
    """Answers looks at the steps of a run, each with about `part` characters.

    Texts are redacted before any part of them is shown.
    """

    def __init__(
        self, steps: Sequence[RunStep], redact: Callable[[str], str], part: int = MOST_SHOWN
    ) -> None:
        self.steps = steps
        self._redact = redact
        self._part = part
        self._texts: dict[int, str] = {}

    async def answer(self, look: Look) -> Found:
        """Return a look's result, or an explanation if it is wrong."""
        if look.action == "search":
            return await self._search(look.text)
        asked = (look.step, look.other) if look.action == "compare" else (look.step,)
        for number in asked:
            if not 1 <= number <= len(self.steps):
                return f"there is no step {number}; steps have the numbers 1 to {len(self.steps)}", []
        if look.action == "list":
            return self._list(look.step), []
        if look.action == "read":
            return self._read(look.step, look.part)
        return self._compare(look.step, look.other)

    def text(self, number: int) -> str:
        # Kept: redaction reads the whole text, however small the part is that a look shows.
        if number not in self._texts:
            self._texts[number] = self._redact(self.steps[number - 1].text)
        return self._texts[number]

    def _list(self, first: int) -> str:
        lines = (
            f"{n}. {'  ' * min(step.depth, 10)}{step.title[:200]} ({len(step.text)} characters)"
            for n, step in enumerate(self.steps[first - 1 :], first)
        )
        shown, rest = self._fitting(lines)
        left = len(self.steps) - first + 1 - len(shown)
        return "\n".join([*shown, f"[{left} more steps]"] if rest else shown)

    def _read(self, number: int, part: int) -> Found:
        text, step = self.text(number), self.steps[number - 1]
        parts = max(1, -(-len(text) // self._part))
        if not 1 <= part <= parts:
            return f"step {number} has the parts 1 to {parts}", []
        shown = text[(part - 1) * self._part : part * self._part] or "(no text was recorded)"
        return f"{number}. {step.title[:200]}, part {part} of {parts}\n{shown}", [step]

    async def _search(self, wanted: str) -> Found:
        if not wanted.strip():
            return "a search needs a text", []
        lines: list[str] = []
        found: list[RunStep] = []
        for number, step in enumerate(self.steps, 1):
            await checkpoint()  # others may run between two long texts
            places = (f"step {number}: {place}" for place in _matches(self.text(number), wanted))
            here, rest = self._fitting(places, sum(map(len, lines)))
            lines += here
            found += [step] if here else []
            if rest:
                return "\n".join([*lines, "[there is more]"]), found
        return "\n".join(lines) or "no step contains this text", found

    def _compare(self, left: int, right: int) -> Found:
        steps = [self.steps[left - 1], self.steps[right - 1]]
        values = [_value(self._redact(_main(step))) for step in steps]
        try:
            lines, rest = self._fitting(_differences("", *values))
        except RecursionError:
            return "their values are nested too deeply to be compared", steps
        return "\n".join([*lines, "[there is more]"] if rest else lines) or "their values are equal", steps

    def _fitting(self, lines: Iterable[str], taken: int = 0) -> tuple[list[str], bool]:
        """Return the lines that fit, and whether there are more."""
        shown: list[str] = []
        for line in lines:
            if taken >= self._part:
                return shown, True
            shown.append(line[:_LONGEST_LINE])
            taken += len(shown[-1])
        return shown, False


def _matches(text: str, wanted: str) -> Iterator[str]:
    """Return places of a text, in any case, with their surroundings."""
    folded, wanted = text.casefold(), wanted.casefold()
    # Folding may change the length (ß becomes ss): places in the text itself would be wrong then.
    shown = text if len(folded) == len(text) else folded
    at = folded.find(wanted)
    while at >= 0:
        yield json.dumps(shown[max(0, at - _AROUND) : at + len(wanted) + _AROUND], ensure_ascii=False)
        # Beyond the surroundings of the last place, which are shown already.
        at = folded.find(wanted, at + len(wanted) + _AROUND)


def _main(step: RunStep) -> str:
    """Return the value of a step: its result or output, or its last text."""
    return step.texts.get("result") or step.texts.get("output") or "".join([*step.texts.values()][-1:])


def _value(text: str) -> Any:
    try:
        return read_json(text)
    except ValueError:
        return text


def _differences(path: str, left: Any, right: Any) -> Iterator[str]:
    if left == right:
        return
    if isinstance(left, dict) and isinstance(right, dict):
        for key in dict.fromkeys([*left, *right]):
            yield from _differences(f"{path}.{key}", left.get(key), right.get(key))
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for n, pair in enumerate(zip(left, right, strict=True)):
            yield from _differences(f"{path}[{n}]", *pair)
    else:
        yield f"{path or 'value'}: {' is not '.join(_excerpts(left, right))}"


def _excerpts(*values: Any) -> list[str]:
    """Return the values from shortly before their first difference."""
    left, right = (json.dumps(value, ensure_ascii=False) for value in values)
    differs = (place for place, pair in enumerate(zip(left, right, strict=False)) if pair[0] != pair[1])
    same = next(differs, min(len(left), len(right)))
    return [text[max(0, same - 40) : same + _AROUND] for text in (left, right)]


class Explorer:
    """Asks a judge for looks until it has seen enough or reaches a limit.

    `records` has a record for each call, with the steps it looked at; `reached` names the limit.
    """

    def __init__(self, steps: Sequence[RunStep], limits: Exploration, max_chars: int) -> None:
        self._steps = steps
        self._limits = limits
        self.max_chars = self._room = max_chars
        self._part = max(_LEAST_SHOWN, min(MOST_SHOWN, max_chars // 10))
        self._spent = CallTotals()
        self._looks = 0
        self.records: list[StepRecord] = []
        self.reached: str | None = None

    async def explore(self, request: JudgeRequest, judge: Judge, fence: Fence) -> JudgeRequest:
        """Return the question with everything the judge has looked at."""
        view = RunView(self._steps, fence.redact, self._part)
        began, shown = time.monotonic(), ""
        while (reached := self._limit(time.monotonic() - began)) is None:
            look = await self._ask(f"{request.prompt}{shown}", request, judge)
            if look.action == "answer":
                break
            self._looks += 1
            text, steps = await view.answer(look)
            block = fence.wrap(f"look {self._looks}", f"{_said(look)}\n{text}")
            spans = dict.fromkeys(step.span for step in steps if step.span is not None)
            self.records[-1] = structs.replace(
                self.records[-1], context=seen(Context((text,))), links=tuple(spans)
            )
            shown += f"\n\n{block}"
            self._room -= len(block)
        self.reached = reached
        return replace(request, prompt=f"{request.prompt}{shown}\n\n{_NOW}")

    def _limit(self, seconds: float) -> str | None:
        limits, spent = self._limits, self._spent
        # A look with retries counts as several calls, and one from a cache as one.
        if max(self._looks, spent.calls) >= limits.calls:
            return f"calls={limits.calls}"
        if limits.tokens is not None and spent.usage.total_tokens >= limits.tokens:
            return f"tokens={limits.tokens}"
        if seconds >= limits.seconds:
            return f"seconds={limits.seconds:g}"
        # A look may exceed its part by one line; another line's length is for its fence.
        return "max_prompt_chars" if self._room < self._part + 2 * _LONGEST_LINE else None

    async def _ask(self, prompt: str, request: JudgeRequest, judge: Judge) -> Look:
        tools = _TOOLS.replace("$left", str(self._limits.calls - self._looks))
        start_time, clock = time.time_ns(), time.perf_counter()
        asked = replace(request, prompt=f"{prompt}\n\n{tools}", schema=Look, step=STEP)
        reply = await judge.ask(asked)
        self._spent.add(reply.usage, reply.cost, reply.attempts)
        look = cast("Look", reply.value)
        self.records.append(
            StepRecord(
                name=f"{request.step}.{STEP} {len(self.records) + 1}",
                result=look.model_dump(exclude_defaults=True),
                prompt=tools,
                model=judge.model,
                usage=reply.usage,
                cost=reply.cost,
                attempts=reply.attempts or 1,
                start_time=start_time,
                duration=time.perf_counter() - clock,
            )
        )
        return look


def _said(look: Look) -> str:
    return look.model_copy(update={"text": look.text[:_AROUND]}).model_dump_json(exclude_defaults=True)


def question_steps(texts: Mapping[str, Sequence[str]]) -> list[RunStep]:
    """Return the long texts of a question as steps: they may not be a part of the run."""
    return [
        RunStep(title=f"the question's {name}", texts={name: "\n".join(items)})
        for name, items in texts.items()
        if sum(map(len, items)) > MOST_SHOWN
    ]
