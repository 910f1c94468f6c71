"""Answers that are checked before they leave: `check`, `check_sync` and `guard`."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry import trace
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

import otel_evals
from otel_evals import NotScored, Rule, Run, Verdict, sampling, scorer
from otel_evals.destinations import InMemoryDestination
from otel_evals.errors import ConfigError, JudgeUnavailableError
from otel_evals.model import Direction, Evaluation
from otel_evals.scorers import answered, grounded_in_tools
from otel_evals_instrumentation import agent, tool
from tests.support.waits import eventually

GROUNDED = grounded_in_tools()
RIGHT, WRONG = "It arrives on 2026-11-25.", "It arrives on 2026-12-24."


class App:
    """An application with an agent, whose answers are checked."""

    def __init__(self, *rules: Any, sampler: Any = None, **options: Any) -> None:
        self.provider = TracerProvider(sampler=sampler, shutdown_on_exit=False)
        self.exported = InMemorySpanExporter()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exported))
        self.tracer = self.provider.get_tracer("tests.app")
        self.events = InMemoryLogRecordExporter()
        loggers = LoggerProvider(shutdown_on_exit=False)
        loggers.add_log_record_processor(SimpleLogRecordProcessor(self.events))
        self.scored = InMemoryDestination()
        self.pipeline = otel_evals.configure(
            rules=rules,
            destinations=[self.scored],
            tracer_provider=self.provider,
            logger_provider=loggers,
            **{"grace": 0.2, **options},
        )
        self._options: Any = {"capture_content": True, "tracer_provider": self.provider}

    def support(self, work: Callable[[], Any], name: str = "support") -> Any:
        """Run an agent that looks an order up, and then does something; returns its answer."""

        @tool("lookup_order", **self._options)
        def lookup(order_id: str) -> dict[str, str]:
            return {"eta": "2026-11-25"}

        @agent(name, **self._options)
        def run(question: str) -> Any:
            lookup("A-1001")
            return work()

        return run("Where is order A-1001?")

    def evaluations(self) -> list[Evaluation]:
        """Everything scored so far, with balanced counters."""
        assert otel_evals.force_flush(100_000)
        assert otel_evals.stats().check() == []
        return list(self.scored.evaluations)


def event_attributes(app: App) -> list[Any]:
    return [dict(log.log_record.attributes or {}) for log in app.events.get_finished_logs()]


@pytest.mark.parametrize(
    ("answer", "status", "effect", "value"),
    [(RIGHT, "pass", "allowed", 1.0), (WRONG, "fail", "blocked", 0.0)],
)
def test_an_open_run_is_judged_once(answer: str, status: str, effect: str, value: float) -> None:
    """The check takes the place of the rule, and is delivered by itself."""
    app = App(GROUNDED, answered(), evaluation_spans="off")
    verdict = app.support(lambda: otel_evals.check_sync(GROUNDED, answer, deadline=5))
    assert (verdict.status, verdict.effect, verdict.allowed) == (status, effect, effect == "allowed")
    assert verdict.score is not None
    assert verdict.score.value == value

    by_name = {each.scorer_id: each for each in app.evaluations()}
    checked, other = by_name["grounded_in_tools"], by_name["answered"]
    assert (checked.verdict, checked.effect, checked.sampled.probability) == (status, effect, 1.0)
    assert (other.verdict, other.effect) == (None, None)
    assert [len(scored.evaluations) for scored in app.scored.runs] == [1, 1]
    rule = otel_evals.stats().rules["grounded_in_tools"]
    assert (rule.eligible, rule.sampled, rule.scored) == (1, 1, 1)
    (event,) = [e for e in event_attributes(app) if e["gen_ai.evaluation.name"] == "grounded_in_tools"]
    assert event["otel_evals.check.verdict"], event["otel_evals.check.effect"] == (status, effect)
    otel_evals.force_flush()
    (root,) = [s for s in app.exported.get_finished_spans() if s.name == "invoke_agent support"]
    assert (root.attributes or {})["otel_evals.score.grounded_in_tools"] == value
    assert (root.attributes or {})["otel_evals.score.grounded_in_tools.effect"] == effect


def test_the_event_is_on_the_current_span() -> None:
    app = App(GROUNDED)

    def deeper() -> int:
        with app.tracer.start_as_current_span("answering") as span:
            otel_evals.check_sync(GROUNDED, RIGHT, deadline=5)
            return span.get_span_context().span_id

    here = app.support(deeper)
    app.evaluations()
    (log,) = app.events.get_finished_logs()
    assert log.log_record.span_id == here


def test_without_an_answer_the_recorded_one_is_judged() -> None:
    app = App(GROUNDED)
    with app.tracer.start_as_current_span("POST /chat"):
        app.support(lambda: WRONG)
        assert otel_evals.check_sync(GROUNDED, deadline=5).status == "fail"
    (evaluation,) = app.evaluations()
    assert evaluation.effect == "blocked"


def numbered(value: Any, *, direction: Direction = Direction.HIGHER, scale: float | None = 1.0) -> Any:
    """A scorer that always does the same."""

    def judge(run: Run) -> Any:
        if isinstance(value, BaseException):
            raise value
        return value

    return scorer(id="numbered", version="1", direction=direction, scale=scale)(judge)


LOWER = Direction.LOWER


@pytest.mark.parametrize(
    ("judge", "options", "expected"),
    [
        (numbered(1.0), {}, ("pass", "allowed", None)),
        (numbered(0.99), {}, ("fail", "blocked", None)),
        (numbered(0.7), {"threshold": 0.7}, ("pass", "allowed", None)),
        (numbered(0.69), {"threshold": 0.7}, ("fail", "blocked", None)),
        (numbered(4.0, scale=5.0), {}, ("fail", "blocked", None)),
        (numbered(5.0, scale=5.0), {}, ("pass", "allowed", None)),
        (numbered(0.0, direction=LOWER), {}, ("pass", "allowed", None)),
        (numbered(0.3, direction=LOWER), {}, ("fail", "blocked", None)),
        (numbered(0.3, direction=LOWER), {"threshold": 0.3}, ("pass", "allowed", None)),
        (numbered(7.0, scale=None), {"threshold": 5}, ("pass", "allowed", None)),
        (numbered(0.0), {"on_fail": "rewrite"}, ("fail", "rewritten", None)),
        (numbered(0.0), {"on_fail": "allow"}, ("fail", "allowed", None)),
        (numbered(KeyError("order")), {}, ("undecided", "allowed", "KeyError")),
        (numbered(KeyError("order")), {"on_error": "block"}, ("undecided", "blocked", "KeyError")),
        (numbered(NotScored(reason="no_claims")), {}, ("undecided", "allowed", "no_claims")),
        (
            numbered(SystemExit()),
            {"on_error": "block", "on_fail": "rewrite"},
            ("undecided", "rewritten", "SystemExit"),
        ),
        (numbered(float("nan")), {}, ("undecided", "allowed", "ValueError")),
    ],
)
def test_a_verdict_follows_from_the_outcome_and_the_options(
    judge: Any, options: Any, expected: tuple[str, str, str | None]
) -> None:
    app = App(judge)
    verdict = app.support(lambda: otel_evals.check_sync(judge, RIGHT, deadline=5, **options))
    assert (verdict.status, verdict.effect, verdict.reason) == expected
    (evaluation,) = app.evaluations()
    assert (evaluation.verdict, evaluation.effect) == expected[:2]


@pytest.mark.parametrize(
    ("field", "options"),
    [
        ("deadline", {"deadline": 0}),
        ("deadline", {"deadline": float("inf")}),
        ("deadline", {"deadline": 1e10}),
        ("threshold", {"threshold": 1.5}),
        ("threshold", {"threshold": "high"}),
        ("on_error", {"on_error": "raise"}),
        ("on_fail", {"on_fail": "raise"}),
        ("scorer", {"scorer": "grounded_in_tools"}),
        ("threshold", {"scorer": numbered(1.0, scale=None)}),
    ],
)
def test_wrong_options_raise(field: str, options: Any) -> None:
    judge = options.pop("scorer", GROUNDED)
    with pytest.raises(ConfigError, match=field):
        otel_evals.check_sync(judge, RIGHT, **options)
    if field != "on_fail":
        with pytest.raises(ConfigError, match=field):
            otel_evals.guard(judge, fallback="", **options)


def gated(gate: threading.Event) -> Any:
    @scorer(id="gated", version="1")
    def judge(run: Run) -> float:
        gate.wait(10)
        return 0.0

    return judge


def test_after_the_deadline_the_score_still_comes_with_what_was_decided() -> None:
    gate = threading.Event()
    judge = gated(gate)
    app = App(judge)
    verdict = app.support(lambda: otel_evals.check_sync(judge, RIGHT, deadline=0.05, on_error="block"))
    assert (verdict.status, verdict.effect, verdict.reason) == ("undecided", "blocked", "deadline")
    assert otel_evals.stats().rules["gated"].pending == 1
    gate.set()
    (evaluation,) = app.evaluations()
    assert (evaluation.status, evaluation.verdict, evaluation.effect) == ("scored", "undecided", "blocked")
    assert otel_evals.stats().rules["gated"].sampled == 1


def test_a_cancelled_caller_leaves_an_evaluation_without_an_effect() -> None:
    gate = threading.Event()
    judge = gated(gate)
    app = App(judge)

    async def call() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await otel_evals.check(judge, RIGHT, deadline=10)

    app.support(lambda: asyncio.run(call()))
    gate.set()
    (evaluation,) = app.evaluations()
    assert (evaluation.status, evaluation.verdict, evaluation.effect) == ("scored", "undecided", None)


def test_the_reasons_for_finding_nothing() -> None:
    assert otel_evals.check_sync(GROUNDED, RIGHT).reason == "not_configured"
    app = App(GROUNDED)
    assert otel_evals.check_sync(GROUNDED, RIGHT).reason == "no_run"
    with app.tracer.start_as_current_span("POST /chat"):
        assert otel_evals.check_sync(GROUNDED, RIGHT, deadline=5).reason == "no_run"
    with TracerProvider().get_tracer("other").start_as_current_span("elsewhere"):
        assert otel_evals.check_sync(GROUNDED, RIGHT, deadline=5).reason == "not_captured"
    other = numbered(1.0)
    same_id = scorer(id="grounded_in_tools")(lambda run: True)
    assert app.support(lambda: otel_evals.check_sync(same_id, RIGHT, deadline=5)).reason == "other_version"
    assert app.support(lambda: otel_evals.check_sync(other, RIGHT, deadline=5)).status == "pass"
    app.evaluations()
    rules = otel_evals.stats().rules
    assert rules["grounded_in_tools"].dropped == {"no_run": 2, "not_captured": 1, "other_version": 1}
    assert rules["numbered"].scored == 1, "a scorer without a rule counts as if it had one"
    app.pipeline.shutdown()
    assert app.support(lambda: otel_evals.check_sync(GROUNDED, RIGHT, deadline=5)).reason == "shutdown"


def test_an_unsampled_trace_is_not_judged() -> None:
    app = App(GROUNDED, sampler=ALWAYS_OFF)
    verdict = app.support(lambda: otel_evals.check_sync(GROUNDED, WRONG))
    assert (verdict.status, verdict.reason) == ("undecided", "trace_not_sampled")


def test_rules_may_sample_less_than_is_checked() -> None:
    """The first check switches capture on; its own trace began before."""
    app = App(Rule(GROUNDED, sample=sampling.never()))
    first = app.support(lambda: otel_evals.check_sync(GROUNDED, RIGHT, deadline=5))
    assert first.reason == "not_captured"
    assert app.support(lambda: otel_evals.check_sync(GROUNDED, WRONG, deadline=5)).status == "fail"
    app.support(lambda: RIGHT)
    assert [e.effect for e in app.evaluations()] == ["blocked"]
    rule = otel_evals.stats().rules["grounded_in_tools"]
    assert (rule.scored, rule.not_sampled) == (1, {"sampled_out": 2})


def test_explain_names_the_check_instead_of_the_sampler() -> None:
    app = App(Rule(GROUNDED, sample=sampling.never()), answered())
    traces: list[int] = []

    def checked() -> str:
        traces.append(trace.get_current_span().get_span_context().trace_id)
        otel_evals.check_sync(GROUNDED, RIGHT, deadline=5)
        return RIGHT

    app.support(checked)
    app.evaluations()
    told = str(otel_evals.explain(traces[0]))
    assert "sampled by check;" in told
    assert "; the answer was allowed." in told
    assert "never()" not in told


def test_a_stuck_engine_does_not_hold_the_caller() -> None:
    gate = threading.Event()

    @scorer(id="stuck", version="1", inline=True)
    def judge(run: Run) -> float:
        gate.wait(10)
        return 1.0

    app = App(judge)
    verdict = app.support(lambda: otel_evals.check_sync(judge, RIGHT, deadline=0.02))
    assert not gate.is_set()
    assert verdict.reason == "deadline"
    gate.set()
    assert [e.verdict for e in app.evaluations()] == ["undecided"]


def test_without_asyncio_an_awaited_check_is_undecided() -> None:
    App(GROUNDED)
    with pytest.raises(StopIteration) as done:
        otel_evals.check(GROUNDED, RIGHT).send(None)
    assert done.value.value.reason == "no_event_loop"


def test_a_second_check_is_a_later_revision() -> None:
    app = App(GROUNDED)

    def twice() -> str:
        assert not otel_evals.check_sync(GROUNDED, WRONG, deadline=5, on_fail="rewrite").allowed
        assert otel_evals.check_sync(GROUNDED, RIGHT, deadline=5).allowed
        return RIGHT

    app.support(twice)
    first, second = app.evaluations()
    assert (first.revision, first.verdict, first.effect) == (1, "fail", "rewritten")
    assert (second.revision, second.verdict, second.effect) == (2, "pass", "rewritten")
    rule = otel_evals.stats().rules["grounded_in_tools"]
    assert (rule.sampled, rule.resumed, rule.scored) == (1, 1, 2)


def test_a_check_that_ends_late_does_not_replace_a_later_one_on_the_span() -> None:
    first_ends = threading.Event()

    @scorer(id="slow_then_fast", version="1")
    def judge(run: Run) -> float:
        if run.output == "first":
            first_ends.wait(5)
            return 0.1
        return 0.9

    app = App(Rule(judge, concurrency=2), hold=5)

    def both() -> str:
        assert otel_evals.check_sync(judge, "first", deadline=0.01).status == "undecided"
        assert otel_evals.check_sync(judge, "second", deadline=5).status == "fail"
        return RIGHT

    app.support(both)
    time.sleep(0.1)  # the run has closed when the first check ends
    first_ends.set()
    assert [e.revision for e in app.evaluations()] == [2, 1]
    otel_evals.force_flush()
    (root,) = [s for s in app.exported.get_finished_spans() if s.name == "invoke_agent support"]
    assert (root.attributes or {})["otel_evals.score.slow_then_fast"] == 0.9


def test_cascades_follow_a_check() -> None:
    after = scorer(id="after", version="1")(lambda run: 1.0)
    app = App(GROUNDED, Rule(after, sample=sampling.below("grounded_in_tools", 0.5)))
    for answer in (RIGHT, WRONG):
        app.support(lambda answer=answer: otel_evals.check_sync(GROUNDED, answer, deadline=5))
    assert sorted(e.scorer_id for e in app.evaluations()) == [
        "after",
        "grounded_in_tools",
        "grounded_in_tools",
    ]


def test_a_cascade_waits_for_a_check_that_outlives_its_run() -> None:
    gate = threading.Event()
    judge, after = gated(gate), scorer(id="after", version="1")(lambda run: 1.0)
    app = App(judge, Rule(after, sample=sampling.below("gated", 0.5)), grace=0.0)
    app.support(lambda: otel_evals.check_sync(judge, RIGHT, deadline=0.02))
    eventually(lambda: otel_evals.stats().seen)
    gate.set()
    (scored,) = app.evaluations() and app.scored.runs
    assert [e.scorer_id for e in scored.evaluations] == ["gated", "after"]


def test_what_leaves_is_redacted_and_so_is_the_verdict() -> None:
    key = "sk-proj-" + "a1B2c3D4e5F6g7H8" * 3
    judge = scorer(id="quotes", version="1")(
        lambda run: otel_evals.Score(value=0.0, explanation=f"it says {run.output}")
    )
    app = App(judge)
    verdict = app.support(lambda: otel_evals.check_sync(judge, f"The key is {key}.", deadline=5))
    assert verdict.explanation
    assert key not in verdict.explanation
    otel_evals.shutdown()
    app = App(judge, capture_content=False)
    verdict = app.support(lambda: otel_evals.check_sync(judge, "Hello.", deadline=5))
    assert (verdict.status, verdict.explanation) == ("fail", None)


def test_a_scorer_cannot_check() -> None:
    seen: list[Verdict] = []

    @scorer(version="1")
    def curious(run: Run) -> float:
        seen.append(otel_evals.check_sync(GROUNDED, "nested"))
        return 1.0

    app = App(curious)
    app.support(lambda: RIGHT)
    app.evaluations()
    assert [each.reason for each in seen] == ["inside_evaluation"]


def test_each_thread_gets_the_verdict_of_its_own_run() -> None:
    app = App(GROUNDED)

    def one(number: int) -> str:
        answer = RIGHT if number % 2 else WRONG
        verdict: Verdict = app.support(lambda: otel_evals.check_sync(GROUNDED, answer, deadline=20))
        return verdict.status

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(one, range(40))) == ["fail", "pass"] * 20
    assert len(app.evaluations()) == 40


def test_under_overload_the_newest_check_comes_first() -> None:
    gate = threading.Event()
    order: list[str | None] = []

    @scorer(id="ordered", version="1")
    def judge(run: Run) -> float:
        order.append(run.agent_name)
        gate.wait(10)
        return 1.0

    app = App(Rule(judge, concurrency=1))
    with ThreadPoolExecutor(3) as pool:
        for number, name in enumerate(("first", "second", "third"), 1):
            pool.submit(app.support, lambda: otel_evals.check_sync(judge, RIGHT, deadline=20), name)
            while app.pipeline.stats().rules["ordered"].pending < number:
                time.sleep(0.002)
        gate.set()
    assert order == ["first", "third", "second"]


def test_of_overlapping_runs_the_answer_names_the_one_to_judge() -> None:
    app = App(GROUNDED)
    both = threading.Barrier(2)
    with app.tracer.start_as_current_span("POST /chat"), ThreadPoolExecutor(2) as pool:
        for answer in (RIGHT, WRONG):
            here = contextvars.copy_context()
            pool.submit(here.run, app.support, lambda answer=answer: (both.wait(10), answer)[1])
        pool.shutdown()
        assert otel_evals.check_sync(GROUNDED, "It is there.", deadline=5).reason == "no_run"
        assert otel_evals.check_sync(GROUNDED, WRONG, deadline=5).status == "fail"
        assert otel_evals.check_sync(GROUNDED, RIGHT, deadline=5).status == "pass"


# --- guard ---


@pytest.mark.parametrize("request_span", [False, True])
@pytest.mark.parametrize("guard_inside", [False, True])
@pytest.mark.parametrize("answer", [RIGHT, WRONG])
def test_a_guarded_function_returns_the_fallback(request_span: bool, guard_inside: bool, answer: str) -> None:
    """The guard may be around the agent, whose run has then ended, or within it."""
    app = App(GROUNDED)
    guard: Any = otel_evals.guard(GROUNDED, fallback="Let me ask a colleague.", deadline=5)

    @guard
    def outside() -> Any:
        return app.support(lambda: answer)

    @guard
    def inside() -> str:
        return answer

    @guard
    async def outside_later() -> Any:
        await asyncio.sleep(0)
        return app.support(lambda: answer)

    def call() -> list[str]:
        if guard_inside:
            return [app.support(inside)]
        return [outside(), asyncio.run(outside_later())]

    if request_span:
        with app.tracer.start_as_current_span("POST /chat"):
            answers = call()
    else:
        answers = call()
    assert set(answers) == {answer if answer == RIGHT else "Let me ask a colleague."}
    effects = {e.effect for e in app.evaluations()}
    assert effects == {"allowed" if answer == RIGHT else "blocked"}
    assert len(app.scored.evaluations) == len(answers)


def test_a_fallback_may_rewrite() -> None:
    app = App(GROUNDED)

    @otel_evals.guard(GROUNDED, fallback=lambda answer, verdict: f"{answer} (unconfirmed)", deadline=5)
    def ask() -> Any:
        return app.support(lambda: WRONG)

    assert ask() == f"{WRONG} (unconfirmed)"
    assert [e.effect for e in app.evaluations()] == ["rewritten"]


def test_an_error_of_the_guarded_function_is_its_own() -> None:
    app = App(GROUNDED)

    @otel_evals.guard(GROUNDED, fallback="")
    def broken() -> str:
        raise KeyError("order")

    with pytest.raises(KeyError, match="order"):
        broken()
    assert app.evaluations() == []


CHUNKS = ("It arrives on ", "2026-11-25. It was", " shipped by post. ", "It costs $15.20", ". Bye.")
ALLOWED = ["It arrives on 2026-11-25. ", "It was shipped by post. "]


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize(("text", "expected"), [(RIGHT, ["A ", 7, RIGHT]), (WRONG, ["[stopped]"])])
def test_a_stream_is_checked_as_a_whole(later: bool, text: str, expected: list[Any]) -> None:
    app = App(GROUNDED)
    options: Any = {"capture_content": True, "tracer_provider": app.provider}

    def speak(question: str) -> Iterator[Any]:
        with agent("support", **options) as span:
            span.set_input(question)
            with tool("lookup_order", **options) as call:
                call.set_result({"eta": "2026-11-25"})
            yield from ("A ", 7, text)

    async def speak_later(question: str) -> AsyncIterator[Any]:
        for item in speak(question):
            await asyncio.sleep(0)
            yield item

    guard: Any = otel_evals.guard(GROUNDED, fallback="[stopped]", deadline=5)
    stream = guard(speak_later if later else speak)("Where is order A-1001?")

    async def collected() -> list[Any]:
        return [item async for item in stream]

    assert (asyncio.run(collected()) if later else list(stream)) == expected
    (evaluation,) = app.evaluations()
    assert evaluation.effect == ("allowed" if text == RIGHT else "blocked")
    rule = otel_evals.stats().rules["grounded_in_tools"]
    assert (rule.sampled, rule.scored, rule.resumed) == (1, 1, 0)


# --- conservation ---

FAULTS = st.sampled_from(
    ["none", "none", "zero", "raises", "sleeps", "hangs", "unavailable", "not_scored", "cancels"]
)
CALLS = st.lists(
    st.tuples(FAULTS, st.sampled_from(["check", "expire", "cancel", "twice", "none"])), max_size=12
)


async def fault(kind: str) -> float | NotScored:
    match kind:
        case "zero":
            return 0.0
        case "raises":
            raise KeyError("order")
        case "sleeps":
            await asyncio.sleep(0.01)
        case "hangs":
            await asyncio.sleep(30)
        case "unavailable":
            raise JudgeUnavailableError("503")
        case "not_scored":
            return NotScored(reason="no_claims")
        case "cancels":
            raise asyncio.CancelledError
    return 1.0


@settings(max_examples=12, suppress_health_check=list(HealthCheck))
@given(CALLS)
def test_whatever_happens_every_check_ends_as_one_thing(calls: list[tuple[str, str]]) -> None:
    plan = dict(enumerate(calls))

    @scorer(id="faulty", version="1")
    async def judge(run: Run) -> float | NotScored:
        return await fault(plan[int(run.agent_name or "0")][0])

    app = App(Rule(judge, timeout=0.05, attempts=1, concurrency=2), queue_size=3)
    verdicts: list[Verdict] = []

    async def call(number: int, how: str) -> None:
        options: Any = {"cancel": {}, "expire": {"deadline": 0.001}}.get(how, {"deadline": 5})
        for _ in range({"twice": 2, "none": 0}.get(how, 1)):
            task = asyncio.ensure_future(otel_evals.check(judge, "An answer.", **options))
            await asyncio.sleep(0.002)
            if how == "cancel":
                task.cancel()
            await asyncio.wait({task})
            if not task.cancelled():
                verdicts.append(task.result())

    async def turn(number: int, how: str) -> None:
        with agent(str(number), capture_content=True, tracer_provider=app.provider) as span:
            span.set_input("A question?")
            await call(number, how)
            span.set_output("An answer.")

    async def all_turns() -> None:
        await asyncio.gather(*(turn(number, how) for number, (_, how) in plan.items()))

    asyncio.run(all_turns())
    otel_evals.shutdown()
    stats = app.pipeline.stats()
    assert stats.check() == []
    rule = stats.rules["faulty"]
    ended = rule.scored + sum(sum(by.values()) for by in (rule.not_scored, rule.failed, rule.dropped))
    assert (rule.pending, ended) == (0, rule.sampled + rule.resumed)
    twice = sum(how == "twice" for _, how in calls)
    assert (rule.sampled, rule.resumed) == (len(calls), twice)
    delivered = [(e.evaluation_id, e.revision) for e in app.scored.evaluations]
    assert len(delivered) == len(set(delivered)) == len(calls) + twice
    assert {v.status for v in verdicts} <= {"pass", "fail", "undecided"}
