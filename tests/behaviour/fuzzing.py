"""Random applications for the fuzzer: rules, samplers, scorers that misbehave, traffic and ways to end."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from opentelemetry.trace import Span, set_span_in_context

import otel_evals
from otel_evals import NotScored, Rule, Run, Score, sampling, scorer
from otel_evals.destinations import InMemoryDestination, JsonlDestination
from otel_evals.errors import JudgeUnavailableError
from otel_evals_monitor import ResultsDestination
from tests.behaviour.app import App
from tests.support.agents import agent_run

__all__ = ["Round"]

AGENT = {"gen_ai.operation.name": "invoke_agent"}
NUISANCES = (
    *("score",) * 6,
    "decline",
    "raise",
    "exit",
    "cancelled",
    "cancels_itself",
    "nan",
    "hang",
    "stubborn",
    "unavailable",
    "busy_once",
)


class Round:
    """An application whose every property is drawn from a seed; `drive` sends traffic, `end` ends it."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.rng = random.Random(seed)
        self.seed = seed
        self.folder = folder
        self.traces: list[str] = []
        self.calm = self.rng.random() < 0.5
        """Whether it flushes and ends with all the time that it needs."""
        self._tried: set[tuple[str, str]] = set()
        self._stubborn = threading.Event()
        self._checked = self._scorer("checked", self.rng.choice(("thread", "async", "inline")))
        sample = self.rng.choice(("ratio(0.5)", "never()"))
        self.rules = [*self._rules(), Rule(self._checked, sample=sample, timeout=0.03, attempts=1)]
        self.rng.shuffle(self.rules)
        self.kept = InMemoryDestination()
        self.app = App(*self.rules, **self._options())

    def __str__(self) -> str:
        rules = [f"{r.name}: {r.sample}, {r.concurrency}" for r in self.rules]
        return f"seed {self.seed}, calm {self.calm}: {rules}"

    def _options(self) -> dict[str, Any]:
        pick = self.rng.choice
        return {
            "grace": pick((0.0, 0.01, 0.05)),
            "limits": {"queue_size": pick((1, 5, 2048)), "max_conversations": pick((3, 10_000))},
            "hold": pick((0.02, 60.0)) if not self.calm else 60.0,
            "evaluation_spans": pick(("linked", "same_trace", "off")),
            "destinations": [
                self.kept,
                JsonlDestination(self.folder / "scores.jsonl"),
                ResultsDestination(self.folder / "results.db"),
            ],
        }

    # --- rules ---

    def _rules(self) -> list[Rule]:
        rules: list[Rule] = []
        for number in range(self.rng.randint(2, 5)):
            scope = self.rng.choice(("run", "run", "agent", "conversation"))
            kind = self.rng.choice(("inline", "thread", "async"))
            rules.append(
                Rule(
                    self._scorer(f"{kind}{number}", kind),
                    sample=self._sampler([rule for rule in rules if rule.scope == scope]),
                    when={"agent_name": ["support", "sales"]} if self.rng.random() < 0.3 else None,
                    scope=scope,
                    **({"idle": 0.05} if scope == "conversation" else {}),
                    timeout=0.03,
                    concurrency=self.rng.choice((1, 3, 16)),
                    attempts=self.rng.choice((1, 1, 1, 2)),
                )
            )
        return rules

    def _sampler(self, earlier: list[Rule]) -> Any:
        rate = round(self.rng.uniform(0.2, 1.0), 2)
        simple = ["always()", f"ratio({rate})", "errors()", f"ratio({rate}) | errors()", "per_minute(20)"]
        if earlier and self.rng.random() < 0.5:
            name, limit = self.rng.choice(earlier).scorer_id, round(self.rng.random(), 2)
            return self.rng.choice((f"below('{name}', {limit})", f"above('{name}', {limit}) & ratio({rate})"))
        if self.rng.random() < 0.2:
            return sampling.when(lambda run: run.trace_id > 0)  # type: ignore[operator]  # it fails
        return self.rng.choice(simple)

    def _scorer(self, name: str, kind: str) -> Any:
        """A scorer that does to each run what the seed and the run's trace id say."""

        def draw(run: Run) -> tuple[str, float]:
            rng = random.Random(f"{self.seed}{name}{run.trace_id}")
            return rng.choice(NUISANCES), rng.random()

        def now(run: Run) -> Any:
            what, value = draw(run)
            if kind == "thread":
                time.sleep(value * 0.002)
            return self._outcome(name, run, what, value)

        async def later(run: Run) -> Any:
            what, value = draw(run)
            await asyncio.sleep(value * 0.005)
            match what:
                case "hang":
                    await asyncio.sleep(30)
                case "stubborn":
                    await self._refuse_to_end()
                case "cancels_itself":
                    asyncio.current_task().cancel()  # type: ignore[union-attr]  # it runs in one
                    await asyncio.sleep(1)
            return self._outcome(name, run, what, value)

        judge: Any = later if kind == "async" else now
        return scorer(id=name, version="1", inline=kind == "inline")(judge)

    def _outcome(self, name: str, run: Run, what: str, value: float) -> Any:
        match what:
            case "decline":
                return NotScored(reason="no_claims")
            case "raise":
                raise KeyError("no such order")
            case "exit":
                raise SystemExit(3)
            case "cancelled":
                raise asyncio.CancelledError
            case "nan":
                return float("nan")
            case "unavailable":
                raise JudgeUnavailableError("503", retry_after=0.001)
            case "busy_once":
                first = (name, run.trace_id) not in self._tried
                self._tried.add((name, run.trace_id))
                if first:
                    raise JudgeUnavailableError("429", retry_after=0.001)
        return Score(value=value, label=what)

    async def _refuse_to_end(self) -> None:
        until = time.monotonic() + 0.15
        while time.monotonic() < until and not self._stubborn.is_set():
            try:
                await asyncio.sleep(0.02)
            except asyncio.CancelledError:
                continue

    # --- traffic ---

    def drive(self) -> None:
        """Send runs of all kinds; a round that is not calm may be shut down in the midst of them."""
        runs = self.rng.randint(5, 40)
        ends_at = None if self.calm or self.rng.random() < 0.5 else self.rng.randrange(runs)
        for number in range(runs):
            self.rng.choice(self._kinds())()
            if self.rng.random() < 0.1:
                time.sleep(self.rng.random() * 0.02)
            if not self.calm and self.rng.random() < 0.05:
                self.app.pipeline.force_flush(self.rng.choice((0, 5, 50)))
            if number == ends_at:
                self.end()

    def _kinds(self) -> list[Callable[[], None]]:
        often, others = [self._run] * 4, [self._nested, self._failed, self._other, self._open]
        return [*often, *others, self._turn, self._turn, self._checked_run]

    def _run(self, during: Callable[[Span], object] = lambda _: None) -> None:
        self.traces.append(self.app.run(agent=self.rng.choice(("support", "sales", "vip")), during=during))

    def _nested(self) -> None:
        self._run(lambda _: agent_run(self.app.tracer, agent="inner"))

    def _failed(self) -> None:
        self._run(lambda span: span.set_attribute("error.type", "Boom"))

    def _turn(self) -> None:
        name = f"c{self.rng.randrange(6)}"
        self._run(lambda span: span.set_attribute("gen_ai.conversation.id", name))

    def _checked_run(self) -> None:
        deadline = self.rng.choice((0.001, 2.0))

        def check(_: Span) -> None:
            verdict = otel_evals.check_sync(self._checked, "An answer.", deadline=deadline)
            assert verdict.status in ("pass", "fail", "undecided")

        self._run(check)

    def _other(self) -> None:
        with self.app.tracer.start_as_current_span("GET /health") as span:
            self.traces.append(f"{span.get_span_context().trace_id:032x}")

    def _open(self) -> None:
        """A call below an agent that never ends."""
        root = self.app.tracer.start_span("invoke_agent open", attributes=AGENT)
        call = {"gen_ai.operation.name": "chat"}
        self.app.tracer.start_span("chat", attributes=call, context=set_span_in_context(root)).end()
        self.traces.append(f"{root.get_span_context().trace_id:032x}")

    def end(self) -> None:
        """Shut down, in time or at once."""
        if self.calm:
            self.app.pipeline.force_flush(60_000)
            self.app.provider.force_flush()
        self.app.pipeline.shutdown(60_000 if self.calm else self.rng.choice((0, 20, 100, 500)))
