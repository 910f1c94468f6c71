"""Whatever spans hold, reading them never raises, never loops, and loses nothing without a count."""

from __future__ import annotations

import json
import os
import random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from otel_evals._internal.cli.runs import run_as_json
from otel_evals._internal.read.runs import find_runs, subruns
from otel_evals._internal.read.split_runs import join_split_runs
from otel_evals.conventions import load_conventions
from otel_evals.model import SpanEvent, SpanRecord
from otel_evals_instrumentation._internal.readers.attribute_names import GEN_AI

KNOWN_CONVENTIONS = load_conventions()
SCOPES = [
    "",
    "app",
    "otel_evals",
    "openinference.instrumentation.openai_agents",
    "openinference.instrumentation.beeai",
    *sorted({scope for d in KNOWN_CONVENTIONS for scope in d.scopes}),
]
INDEXED = [
    "llm.input_messages.0.message.role",
    "llm.input_messages.0.message.content",
    "llm.input_messages.1.message.tool_calls.0.tool_call.function.name",
    "llm.output_messages.0.message.contents.7.message_content.text",
    "gen_ai.prompt.0.content",
    "gen_ai.prompt.x.content",
    "gen_ai.completion.0.tool_calls.0.name",
    "retrieval.documents.0.document.content",
    "gen_ai.prompt.0",
    "gen_ai.prompt.",
]
KEYS = sorted(
    {
        k
        for names in (GEN_AI, *(d.names for d in KNOWN_CONVENTIONS))
        for keys in vars(names).values()
        for k in keys.split()
    }
    | {m for d in KNOWN_CONVENTIONS for m in d.markers}
)
KEYS += [
    *INDEXED,
    "openinference.span.kind",
    "mlflow.spanType",
    "span.type",
    "langsmith.span.kind",
    "event.name",
    "langwatch.input",
    "langwatch.output",
    "langwatch.metrics",
    "langwatch.rag.contexts",
    "braintrust.metadata",
    "braintrust.metrics",
    "lk.pii.response.function_calls",
    "lk.function_tool.is_error",
    "langfuse.observation.usage_details",
    "lmnr.span.type",
    "spring.ai.kind",
    "success",
    "prompt",
    "db.query.result.document",
    "llm.function_call",
    "llm.prompts.0.prompt.text",
    "llm.choices.0.completion.text",
    "request_data",
    "response_data",
    "duration",
    "tool.parameters",
    "mastra.model_step.input",
    "mastra.metadata.modelMetadata",
    "ai.response.toolCalls",
    "event_body",
    "gen_ai.tool.success",
    "gen_ai.usage.details",
    "new_context",
]
WORDS = [
    "chat",
    "invoke_agent",
    "execute_tool",
    "LLM",
    "AGENT",
    "TOOL",
    "CHAIN",
    "ENTRY",
    "RETRIEVER",
    "judge",
    "tool",
    "workflow",
]

NAMES = [
    "",
    "chat gpt",
    "invoke_agent a",
    "execute_tool t",
    "call_llm",
    "agent run",
    "Function: t",
    "X.workflow",
    "agent_turn",
    "function_tool",
    "llm_node",
    "session_task.turn",
    "claude_code.tool",
    "flue.operation prompt",
    "Agent.run",
    "chroma.query",
    "tool.search.x.success-1",
    "backend.x.chat.start-2",
    "ai.toolCall",
]
ODD = [
    "__REDACTED__",
    "{}",
    "[]",
    "null",
    '"',
    "[[[",
    "{'a': 1",
    "a\\",
    "\ud83d",
    "ChatMessage(role=1)",
    "source='user' content='a' at=f(1)",
    "id='1' source='user' content=[",
    'Chat Model Prompt Content:\n["a", "b"]',
    'Chat Client Prompt Content:\n["user":"a"]',
    "Chat Model Completion:\n[]",
    '[{"role": "user"...[TRUNCATED: original length 9]',
    "[TOOL INPUT: x]\n{",
    "Doc 1, Score: 0.5",
    "user: a\nassistant: b",
    "readacted",
    "Chat Model Completion:\na",
    "{'role': 'assistant', 'text': 'a'}",
    '"quoted"',
    '[{"index": 0, "message": {"role": "assistant", "content": "a"}}]',
    '[{"role": "user", "content": "a"}, {"index": 0, "message": 1}]',
    '["a", "b"]',
    '{"stream": true}',
    '{"type": "function_result", "result": {"type": "text", "text": 1}}',
    '{"input": {"messages": [{"content": {"message": []}}]}}',
    "x" * 300,
]
FIELDS = [
    "role",
    "content",
    "parts",
    "type",
    "text",
    "tool_calls",
    "function",
    "name",
    "id",
    "arguments",
    "messages",
]
FIELDS += [
    "message",
    "kwargs",
    "data",
    "response",
    "result",
    "output",
    "input",
    "toolUse",
    "toolResult",
    "update",
]
FIELDS += [
    "lc",
    "generations",
    "choices",
    "documents",
    "page_content",
    "tool_call_id",
    "summary",
    "embedding",
    "args",
]
FIELDS += ["value", "usage", "systemPrompt", "responseParts", "status", "items", "model", "metadata"]
FIELDS += ["tool_name", "tool_output", "raw_output", "raw", "node", "calling", "tool_string", "parameters"]
EVENTS = ["exception", "gen_ai.choice", "gen_ai.user.message", "gen_ai.tool.message", "tool.output", ""]
EVENTS += ["gen_ai.client.inference.operation.details", "tool_result", "assistant_response"]
EVENTS += ["codex.user_prompt", "codex.tool_result", "db.query.result", "db.search.result"]


class Maker:
    """Makes traces out of one seed: quick enough for many thousands, and a failure names its seed."""

    def __init__(self, seed: int) -> None:
        self.pick = random.Random(seed)

    def leaf(self) -> Any:
        pick = self.pick
        number = pick.choice([0, -1, 2**70, 1.5, float("nan"), float("inf"), True, None])
        return pick.choice([number, pick.choice(WORDS), pick.choice(ODD), "a text", b"\xff\x00"])

    def nested(self, depth: int = 0) -> Any:
        pick = self.pick
        kind = pick.random()
        if depth > 5 or kind < 0.35:
            return self.leaf()
        size = pick.randrange(4)
        if kind < 0.6:
            return [self.nested(depth + 1) for _ in range(size)]
        return {pick.choice([*FIELDS, *ODD]): self.nested(depth + 1) for _ in range(size + 1)}

    def written(self) -> Any:
        """A value as an instrumentation may have written it: as it is, as JSON, cut off, as a repr."""
        value = self.nested()
        form = self.pick.randrange(5)
        if form == 0:
            return tuple(value) if isinstance(value, list) else value
        if form == 1:
            return repr(value)
        text = json.dumps(value, default=str)
        return text if form < 4 else text[: self.pick.randrange(len(text) + 1)]

    def attributes(self) -> dict[str, Any]:
        return {self.pick.choice(KEYS): self.written() for _ in range(self.pick.randrange(9))}

    def event(self) -> SpanEvent:
        pick = self.pick
        body = pick.choice([None, self.written()])
        return SpanEvent(
            name=pick.choice(EVENTS), time=pick.randrange(9), attributes=self.attributes(), body=body
        )

    def events(self) -> tuple[SpanEvent, ...]:
        return tuple(self.event() for _ in range(self.pick.randrange(3)))

    def span(self, number: int | None = None) -> SpanRecord:
        pick = self.pick
        end = pick.choice([None, *range(10)])
        return SpanRecord(
            trace_id="0" * 32,
            span_id=f"{pick.randrange(7) if number is None else number:016x}",
            parent_span_id=pick.choice([None, f"{pick.randrange(7):016x}"]),
            name=pick.choice(NAMES),
            start_time=pick.randrange(10),
            end_time=end,
            attributes=self.attributes(),
            events=self.events(),
            logs=self.events(),
            status=pick.choice(["UNSET", "OK", "ERROR"]),
            scope_name=pick.choice(SCOPES),
            dropped_attributes=pick.choice([0, 0, 3]),
            links=pick.choice([(), (("0" * 32, f"{pick.randrange(7):016x}"),), (("1" * 32, "x"),)]),
        )

    def trace(self) -> list[SpanRecord]:
        return [self.span() for _ in range(self.pick.randrange(9))]


def check_seed(seed: int) -> None:
    """One made trace: read, joined, told as JSON, and every agent of it a run of its own."""
    for run in join_split_runs(find_runs(Maker(seed).trace(), KNOWN_CONVENTIONS)):
        json.dumps(run_as_json(run), default=str)
        assert run.root is not None
        assert len({o.span_id for o in run.operations}) == len(run.operations)
        assert all(r.operations for r in subruns(run))


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_any_tree_and_any_values_give_runs_and_never_an_error(seed: int) -> None:
    check_seed(seed)


@pytest.mark.slow
def test_many_made_traces_are_read_without_an_error() -> None:
    for seed in range(int(os.environ.get("OTEL_EVALS_FUZZ", "2000"))):
        check_seed(seed)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_neither_the_order_of_spans_nor_their_doubles_matter(seed: int) -> None:
    maker = Maker(seed)
    trace = [maker.span(number) for number in range(maker.pick.randrange(7))]
    shuffled = [*trace, *trace]
    maker.pick.shuffle(shuffled)
    assert repr(find_runs(shuffled, KNOWN_CONVENTIONS)) == repr(find_runs(trace, KNOWN_CONVENTIONS))


@settings(max_examples=40, deadline=None)
@given(text=st.text(max_size=60), cut=st.integers(0, 60))
@example(text='a"b\\', cut=40)
def test_a_cut_off_message_is_said_to_be_cut_off(text: str, cut: int) -> None:
    whole = json.dumps([{"role": "user", "parts": [{"type": "text", "content": text}]}])
    span = SpanRecord(
        trace_id="0" * 32,
        span_id="1" * 16,
        attributes={"gen_ai.operation.name": "chat", "gen_ai.input.messages": whole[:cut]},
    )
    for run in find_runs([span], KNOWN_CONVENTIONS):
        if run.input is not None:
            assert text.startswith(run.input.rstrip("\ufffd")) or run.input == whole[:cut]
            assert run.availability["input"] == ("present" if cut >= len(whole) else "truncated")


def test_deep_nesting_is_bounded() -> None:
    deep: Any = "end"
    for _ in range(3_000):
        deep = [deep]
    for value in (deep, "[" * 100_000, '{"a":' * 50_000, "[" * 50_000 + "]" * 50_000):
        span = SpanRecord(
            trace_id="0" * 32,
            span_id="1" * 16,
            attributes={"gen_ai.operation.name": "chat", "gen_ai.input.messages": value},
        )
        assert len(find_runs([span], KNOWN_CONVENTIONS)) == 1


def test_circles_among_parents_end() -> None:
    spans_ = [
        SpanRecord(
            trace_id="0" * 32,
            span_id=f"{n:016x}",
            parent_span_id=f"{(n + 1) % 3:016x}",
            start_time=n,
            attributes={"gen_ai.operation.name": "invoke_agent"},
        )
        for n in range(3)
    ]
    (run,) = find_runs(spans_, KNOWN_CONVENTIONS)
    assert len(run.operations) == 3
