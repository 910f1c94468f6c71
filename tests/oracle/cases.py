"""Recorded cases: reading them, and making of each a Run that our scorers can judge."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from otel_evals.model import Message, OperationKind, Part, Run, ToolCall

UNDEFINED: Any = None


@dataclass(frozen=True)
class Case:
    """One recorded case, decoded."""

    id: str
    kind: str
    """`code`, `llm`, `check` or `util`."""
    scorer: str
    tags: tuple[str, ...]
    options: dict[str, Any]
    args: list[Any]
    fn: str
    recorded: dict[str, Any]
    """The run as it was recorded."""
    replies: dict[str, Any]
    """Judge replies by step, keys in snake_case."""
    expected: dict[str, Any]
    run: Run

    @property
    def score(self) -> float | None:
        """The recorded score; None when the recording ended in an error."""
        return self.expected.get("score")


def load(path: Path) -> list[Case]:
    """All cases of a file."""
    return [case_of(raw) for raw in json.loads(path.read_text())["cases"]]


def case_of(raw: dict[str, Any]) -> Case:
    recorded = decode(raw.get("run") or {})
    return Case(
        id=raw["id"],
        kind=raw["kind"],
        scorer=raw["scorer"],
        tags=tuple(raw.get("tags", ())),
        options=decode(raw.get("options") or {}),
        args=decode(raw.get("args") or []),
        fn=raw.get("fn", ""),
        recorded=recorded,
        replies={snake(step): snake_keys(decode(r)) for step, r in (raw.get("step_replies") or {}).items()},
        expected=decode(raw["expected"]),
        run=run_of(recorded),
    )


def decode(value: Any) -> Any:
    """Undo the encodings of what JSON cannot say."""
    if isinstance(value, list):
        return [decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    match value:
        case {"$number": number}:
            return float(number)
        case {"$set": items}:
            return set(items)
        case {"$undefined": _}:
            return UNDEFINED
        case {"$regex": [source, flags]}:
            return re.compile(source, re.IGNORECASE if "i" in flags else 0)
    return {key: decode(item) for key, item in value.items()}


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", lambda m: "_" + m[1].lower(), name)


def snake_keys(value: Any) -> Any:
    if isinstance(value, list):
        return [snake_keys(item) for item in value]
    if isinstance(value, dict):
        return {key if key[0] == "$" else snake(key): snake_keys(item) for key, item in value.items()}
    return value


# --- runs ---


def run_of(recorded: dict[str, Any]) -> Run:
    """The recorded run in our records."""
    given = recorded.get("input") or {}
    output = recorded.get("output")
    said = [message(m) for m in output] if isinstance(output, list) else []
    if isinstance(output, str):
        said = [Message(role="assistant", parts=(Part(kind="text", text=output),))]
    answers = [m.text for m in said if m.role == "assistant"]
    return Run(
        trace_id="0" * 32,
        root_span_id="0" * 16,
        root_kind=OperationKind.AGENT,
        input_messages=tuple(message(m) for m in given.get("inputMessages", ())),
        history=tuple(message(m) for m in given.get("rememberedMessages", ())),
        system_instructions="\n\n".join(system_texts(given)) or None,
        output_messages=tuple(m for m in said if m.role == "assistant"),
        output=next((text for text in reversed(answers) if text), "" if answers else None),
        tool_calls=tuple(tool_calls(output)),
        ground_truth=recorded.get("groundTruth"),
    )


def message(recorded: Any) -> Message:
    if isinstance(recorded, str):
        return Message(role="user", parts=(Part(kind="text", text=recorded),))
    return Message(role=recorded.get("role", ""), parts=(Part(kind="text", text=text_of(recorded)),))


def text_of(recorded: dict[str, Any]) -> str:
    content = recorded.get("content")
    if isinstance(content, str):
        return content
    if isinstance(content, dict) and content.get("content"):
        return str(content["content"])
    parts = content.get("parts", []) if isinstance(content, dict) else content or []
    return "\n\n".join(p["text"] for p in parts if p.get("type") == "text" and p.get("text"))


def system_texts(given: dict[str, Any]) -> list[str]:
    tagged = [m for group in (given.get("taggedSystemMessages") or {}).values() for m in group]
    messages = [*(given.get("systemMessages") or ()), *tagged]
    texts = [text_of(m) for m in messages if isinstance(m.get("content"), str | list)]
    return [text for text in texts if text]


def tool_calls(output: Any) -> list[ToolCall]:
    """All calls of all assistant messages, from both places that hold them, each once."""
    if isinstance(output, dict):
        return [step_call(s) for s in output.get("steps", ()) if "tool" in s.get("stepType", "tool")]
    if not isinstance(output, list):
        return []
    found: dict[Any, ToolCall] = {}
    for m in output:
        content = m.get("content")
        if m.get("role") != "assistant" or not isinstance(content, dict):
            continue
        parts = [p["toolInvocation"] for p in content.get("parts", ()) if p.get("type") == "tool-invocation"]
        for n, call in enumerate([*(content.get("toolInvocations") or ()), *parts]):
            if call.get("toolName") and call.get("state") != "partial-call":  # its arguments still stream in
                found.setdefault(call.get("toolCallId") or (m.get("id"), n), invocation(call))
    return list(found.values())


def invocation(call: dict[str, Any]) -> ToolCall:
    result = call.get("result")
    wrong = result.get("error") if isinstance(result, dict) else None
    failed = call.get("state") == "output-error" or bool(call.get("isError")) or bool(wrong)
    if isinstance(result, dict):
        failed = failed or bool(result.get("isError"))
    return ToolCall(
        name=call["toolName"],
        id=call.get("toolCallId"),
        arguments=call.get("args"),
        result=result,
        error=str(wrong or call.get("errorText") or "failed") if failed else None,
        status="error" if failed else "ok" if call.get("state") == "result" else "unknown",
    )


def step_call(step: dict[str, Any]) -> ToolCall:
    return ToolCall(
        name=step.get("name", ""),
        arguments=step.get("toolArgs"),
        result=step.get("toolResult"),
        status="error" if step.get("success") is False else "ok",
        error="failed" if step.get("success") is False else None,
    )
