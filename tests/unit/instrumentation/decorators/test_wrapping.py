"""Every kind of function can be decorated: it stays what it was, and its span covers what it does."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import gc
import inspect
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from opentelemetry.trace import StatusCode, get_current_span

from otel_evals_instrumentation import AgentSpan, InferenceSpan, agent, inference, tool, workflow
from tests.support.handwritten import Recorder


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


def current_name() -> str | None:
    return getattr(get_current_span(), "name", None)


def test_a_function_a_coroutine_and_both_generators_stay_what_they_were(recorder: Recorder) -> None:
    def plain(a: int, b: str = "x") -> int: ...  # type: ignore[empty-body]

    async def later(a: int) -> int: ...  # type: ignore[empty-body]

    def steps(a: int) -> Iterator[int]:
        yield a

    async def async_steps(a: int) -> AsyncIterator[int]:
        yield a

    kinds = (
        inspect.iscoroutinefunction,
        inspect.isgeneratorfunction,
        inspect.isasyncgenfunction,
        inspect.signature,
        lambda f: f.__name__,
    )
    for function in (plain, later, steps, async_steps):
        decorated = tool(**recorder.options)(function)
        assert [kind(decorated) for kind in kinds] == [kind(function) for kind in kinds]


def test_the_decorator_works_bare_named_and_with_options(recorder: Recorder) -> None:
    @workflow("refunds", **recorder.options)
    def outer() -> str | None:
        return current_name()

    @agent(version="3", id="a-1", description="helps", **recorder.options)
    def support() -> str | None:
        return current_name()

    @tool
    def bare() -> str | None:
        return current_name()

    assert (outer(), support()) == ("invoke_workflow refunds", "invoke_agent support")
    assert bare() in (None, "execute_tool bare"), "an earlier `configure()` may have made a provider"
    assert dict(recorder.span("invoke_agent support").attributes or {}) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "support",
        "gen_ai.agent.id": "a-1",
        "gen_ai.agent.version": "3",
        "gen_ai.agent.description": "helps",
    }


def test_methods_of_all_sorts_leave_out_what_they_belong_to(recorder: Recorder) -> None:
    decorated: Any = tool(**recorder.capturing)

    class Shop:
        @decorated
        def method(self, n: int) -> int:
            return n

        @decorated
        @classmethod
        def outer_class(cls, n: int) -> tuple[str, int]:
            return cls.__name__, n

        @classmethod
        @decorated
        def inner_class(cls, n: int) -> tuple[str, int]:
            return cls.__name__, n

        @decorated
        @staticmethod
        def static(n: int) -> int:
            return n

    assert (Shop().method(1), Shop.outer_class(2), Shop().inner_class(n=3), Shop.static(4)) == (
        1,
        ("Shop", 2),
        ("Shop", 3),
        4,
    )
    told = [recorder.value(span.name, "gen_ai.tool.call.arguments") for span in recorder.spans]
    assert told == [{"n": 1}, {"n": 2}, {"n": 3}, {"n": 4}]


def test_partials_and_callable_objects_are_functions_too(recorder: Recorder) -> None:
    class Asks:
        async def __call__(self, question: str) -> str:
            await asyncio.sleep(0)
            return f"{question}!"

    async def add(a: int, b: int) -> int:
        return a + b

    decorated = agent("object", **recorder.capturing)(Asks())
    part = tool("part", **recorder.capturing)(functools.partial(add, 1))

    async def both() -> tuple[str, int]:
        return await decorated("why"), await part(2)

    assert asyncio.run(both()) == ("why!", 3)
    assert recorder.value("invoke_agent object", "gen_ai.output.messages")[0]["parts"][0]["content"] == "why!"
    assert recorder.value("execute_tool part", "gen_ai.tool.call.result") == 3


@pytest.mark.parametrize("fails", ["plain", "later", "steps", "async_steps", "block"])
def test_an_exception_is_recorded_as_the_sdk_does_and_goes_on(recorder: Recorder, fails: str) -> None:
    decorated: Any = tool("t", **recorder.options)

    @decorated
    def plain() -> None:
        raise LookupError("no order")

    @decorated
    async def later() -> None:
        raise LookupError("no order")

    @decorated
    def steps() -> Iterator[int]:
        yield 1
        raise LookupError("no order")

    @decorated
    async def async_steps() -> AsyncIterator[int]:
        yield 1
        raise LookupError("no order")

    def block() -> None:
        with tool("t", **recorder.options):
            raise LookupError("no order")

    async def drained() -> None:
        async for _ in async_steps():
            pass

    run = {
        "plain": plain,
        "later": lambda: asyncio.run(later()),
        "steps": lambda: list(steps()),
        "async_steps": lambda: asyncio.run(drained()),
        "block": block,
    }
    with pytest.raises(LookupError, match="no order"):
        run[fails]()
    span = recorder.span("execute_tool t")
    assert span.status.status_code is StatusCode.ERROR
    assert span.status.description == "LookupError: no order"
    assert (span.attributes or {})["error.type"] == "LookupError"
    assert [event.name for event in span.events] == ["exception"]


def test_a_cancelled_task_ends_its_span_without_an_error(recorder: Recorder) -> None:
    @agent(**recorder.options)
    async def sleeper() -> None:
        await asyncio.sleep(60)

    async def cancel() -> None:
        task = asyncio.create_task(sleeper())
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert recorder.span("invoke_agent sleeper").status.status_code is StatusCode.UNSET


def test_errors_that_are_values_can_be_told(recorder: Recorder) -> None:
    with tool("refund", **recorder.options) as call:
        call.set_error("card expired", error_type="tool_error")
    span = recorder.span("execute_tool refund")
    assert (span.status.description, (span.attributes or {})["error.type"]) == ("card expired", "tool_error")


# --- streams ---


def test_a_generator_s_span_is_current_in_its_body_and_never_outside(recorder: Recorder) -> None:
    seen: list[str | None] = []

    @agent(**recorder.options)
    def streaming() -> Iterator[str]:
        seen.append(current_name())
        with inference("m", **recorder.options):
            yield "a"
            seen.append(current_name())
            yield "b"
        seen.append(current_name())

    for _ in streaming():
        assert current_name() is None
    assert seen == ["invoke_agent streaming", "chat m", "invoke_agent streaming"]
    assert [span.name for span in recorder.spans] == ["chat m", "invoke_agent streaming"]
    chat, whole = recorder.spans
    assert chat.parent is not None
    assert whole.context is not None
    assert chat.parent.span_id == whole.context.span_id


def test_an_async_generator_s_span_is_current_in_its_body_and_never_outside(recorder: Recorder) -> None:
    seen: list[str | None] = []

    @agent(**recorder.options)
    async def streaming(n: int) -> AsyncIterator[int]:
        with inference("m", **recorder.options):
            for i in range(n):
                await asyncio.sleep(0)
                seen.append(current_name())
                yield i

    async def consume() -> None:
        async for _ in streaming(2):
            assert current_name() is None
            await asyncio.sleep(0)

    async def several() -> None:
        await asyncio.gather(*(consume() for _ in range(3)))

    asyncio.run(several())
    assert seen == ["chat m"] * 6
    parents = {span.context.span_id for span in recorder.spans if span.parent is None and span.context}
    assert len(parents) == 3
    assert {span.parent.span_id for span in recorder.spans if span.parent} == parents


def test_a_generator_may_be_stepped_by_one_thread_after_the_other(
    recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    @agent(**recorder.options)
    def streaming() -> Iterator[str | None]:
        with inference("m", **recorder.options):
            yield current_name()
            yield current_name()

    steps, got = streaming(), []
    for _ in range(3):
        step = threading.Thread(target=lambda: got.append(next(steps, "end")))
        step.start()
        step.join()
    assert got == ["chat m", "chat m", "end"]
    assert caplog.records == []
    assert len(recorder.spans) == 2


def test_a_stream_s_span_ends_with_it_and_tells_when_the_first_chunk_came(recorder: Recorder) -> None:
    @inference("m", **recorder.capturing)
    def ask(prompt: str) -> Iterator[str]:
        time.sleep(0.02)
        yield "Hel"
        time.sleep(0.02)
        yield "lo"

    chunks = ask("Hi")
    assert recorder.spans == ()
    assert next(chunks) == "Hel"
    assert recorder.spans == ()
    assert list(chunks) == ["lo"]
    span = recorder.span("chat m")
    attributes = span.attributes or {}
    took = ((span.end_time or 0) - (span.start_time or 0)) / 1e9
    assert 0.02 <= float(str(attributes["gen_ai.response.time_to_first_chunk"])) < took
    assert took >= 0.04
    assert attributes["gen_ai.request.stream"] is True
    (answer,) = recorder.value("chat m", "gen_ai.output.messages")
    assert answer["parts"] == [{"type": "text", "content": "Hello"}]


def test_a_stream_that_is_left_early_ends_its_span_with_what_was_said(recorder: Recorder) -> None:
    closed: list[str | None] = []

    @agent(**recorder.capturing)
    def streaming() -> Iterator[str]:
        try:
            yield "a"
            yield "b"
        finally:
            closed.append(current_name())

    for _ in streaming():
        break
    gc.collect()
    assert closed == ["invoke_agent streaming"]
    span = recorder.span("invoke_agent streaming")
    assert span.status.status_code is StatusCode.UNSET
    assert recorder.value(span.name, "gen_ai.output.messages")[0]["parts"][0]["content"] == "a"


def test_an_async_stream_that_is_left_early_ends_its_span(recorder: Recorder) -> None:
    @agent(**recorder.capturing)
    async def streaming() -> AsyncIterator[str]:
        with inference("m", **recorder.options):
            yield "a"
            yield "b"

    async def leave() -> None:
        async for _ in streaming():
            break

    asyncio.run(leave())
    assert [span.name for span in recorder.spans] == ["chat m", "invoke_agent streaming"]


def test_a_stream_that_nobody_reads_makes_no_span(recorder: Recorder) -> None:
    @agent(**recorder.options)
    def streaming() -> Iterator[str]:
        yield "a"

    streaming()
    gc.collect()
    assert recorder.spans == ()


def test_what_is_sent_and_thrown_into_a_generator_reaches_its_body(recorder: Recorder) -> None:
    @tool(**recorder.options)
    def echo() -> Any:
        got: Any = None
        while got != "end":
            try:
                got = yield got
            except KeyError as error:
                got = f"caught {error}"
        return "returned"

    steps = echo()
    assert [next(steps), steps.send(1), steps.throw(KeyError("k"))] == [None, 1, "caught 'k'"]
    with pytest.raises(StopIteration, match="returned"):
        steps.send("end")


def test_what_is_sent_and_thrown_into_an_async_generator_reaches_its_body(recorder: Recorder) -> None:
    @tool(**recorder.options)
    async def echo() -> Any:
        got: Any = None
        while True:
            try:
                got = yield got
            except KeyError as error:
                got = f"caught {error}"

    async def talk() -> list[Any]:
        steps = echo()
        said = [await anext(steps), await steps.asend(1), await steps.athrow(KeyError("k"))]
        await steps.aclose()
        return said

    assert asyncio.run(talk()) == [None, 1, "caught 'k'"]
    assert len(recorder.spans) == 1


def test_an_async_generator_may_wait_be_cancelled_and_time_out_inside(recorder: Recorder) -> None:
    @agent(**recorder.options)
    async def slow() -> AsyncIterator[str]:
        try:
            async with asyncio.timeout(0.01):
                await asyncio.sleep(60)
        except TimeoutError:
            yield "timed out"
        await asyncio.sleep(60)
        yield "never"

    async def cancel() -> list[str]:
        got: list[str] = []

        async def read() -> None:
            async for item in slow():
                got.append(item)  # noqa: PERF401  # a comprehension would lose what came before the cancel

        task = asyncio.create_task(read())
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return got

    assert asyncio.run(cancel()) == ["timed out"]
    assert recorder.span("invoke_agent slow").status.status_code is StatusCode.UNSET


@pytest.mark.parametrize("kind", ["coroutine", "generator", "async_generator"])
def test_what_a_plain_function_returns_to_be_run_later_is_covered(recorder: Recorder, kind: str) -> None:
    async def coroutine() -> str:
        await asyncio.sleep(0.01)
        return current_name() or ""

    def generator() -> Iterator[str]:
        yield current_name() or ""

    async def async_generator() -> AsyncIterator[str]:
        yield current_name() or ""

    makers: dict[str, Any] = {
        "coroutine": coroutine,
        "generator": generator,
        "async_generator": async_generator,
    }

    @agent(**recorder.capturing)
    def starts() -> Any:
        return makers[kind]()

    async def finish() -> list[str]:
        started = starts()
        assert recorder.spans == ()
        assert current_name() is None
        if kind == "coroutine":
            return [await started]
        return list(started) if kind == "generator" else [item async for item in started]

    assert asyncio.run(finish()) == ["invoke_agent starts"]
    output = recorder.value("invoke_agent starts", "gen_ai.output.messages")
    assert output[0]["parts"][0]["content"] == "invoke_agent starts"


# --- context managers ---


def test_one_instrument_may_be_open_in_many_tasks_at_once(recorder: Recorder) -> None:
    support = agent("support", **recorder.options)

    async def visit(n: int) -> None:
        with support as run:
            run.set_conversation(str(n))
            await asyncio.sleep(0.01 * (3 - n))
            run.span.set_attribute("n", str(n))

    async def everyone() -> None:
        await asyncio.gather(*(visit(n) for n in range(3)))

    asyncio.run(everyone())
    told = [dict(span.attributes or {}) for span in recorder.spans]
    assert sorted((a["gen_ai.conversation.id"], a["n"]) for a in told) == [(s, s) for s in "012"]


def test_a_block_that_is_left_in_another_context_still_ends(recorder: Recorder) -> None:
    support = agent("support", **recorder.options)
    contextvars.copy_context().run(support.__enter__)
    support.__exit__(None, None, None)
    assert len(recorder.spans) == 1


def test_current_finds_the_nearest_of_a_kind_and_is_harmless_without_one(recorder: Recorder) -> None:
    @tool(**recorder.options)
    def deep() -> None:
        AgentSpan.current().set_conversation("c-1")
        InferenceSpan.current().set_usage(input_tokens=1)

    with agent("outer", **recorder.options), agent("inner", **recorder.options):
        deep()
    AgentSpan.current().set_output("nobody")
    assert (recorder.span("invoke_agent inner").attributes or {})["gen_ai.conversation.id"] == "c-1"
    assert "gen_ai.conversation.id" not in (recorder.span("invoke_agent outer").attributes or {})


def test_agents_and_model_calls_inherit_the_conversation(recorder: Recorder) -> None:
    with agent("outer", conversation_id="c-1", **recorder.options):
        with tool("t", **recorder.options), inference("m", **recorder.options):
            pass
        with agent("own", conversation_id="c-2", **recorder.options):
            pass
    told = {span.name: (span.attributes or {}).get("gen_ai.conversation.id") for span in recorder.spans}
    assert told == {
        "chat m": "c-1",
        "execute_tool t": None,
        "invoke_agent own": "c-2",
        "invoke_agent outer": "c-1",
    }
