"""Users' code that raises, or returns something else.

The engine goes on: nothing stays pending, other rules are scored and delivered, health names the plug-in.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider

from otel_evals import Direction, Pipeline, Rule, Run, Score, Scorer, sampling, scorer
from otel_evals._internal.config.loader import build_config
from otel_evals.conventions import Conventions, load_conventions
from otel_evals.destinations import EventPreset
from otel_evals.judges import JudgeReply
from otel_evals.model import ScoredRun
from otel_evals.sampling import Chance, Sampler
from otel_evals.scorers import PromptStep, ScoreReply, step_scorer
from otel_evals.testing import InMemoryDestination
from tests.support.traffic import agent_run
from tests.support.waits import SECONDS

ODD_SCOPE = "tests.odd"
RAISED: Mapping[str, Callable[[], BaseException]] = {
    "raises": lambda: ValueError("odd"),
    "exits": lambda: SystemExit(3),
    "interrupts": lambda: KeyboardInterrupt(),
}


class Trouble:
    """Makes some places in users' code fail."""

    def __init__(self) -> None:
        self.armed: dict[str, str] = {}

    def at(self, place: str, value: Any) -> Any:
        """Return the value, unless the place is in trouble."""
        kind = self.armed.get(place)
        if kind in RAISED:
            raise RAISED[kind]()
        return value if kind is None else object()


class OddScorer(Scorer):
    """A scorer; also a mere result that it returns may be odd."""

    id = "odd"
    version = "1"
    direction = Direction.HIGHER
    scale = 1.0

    def __init__(self, trouble: Trouble) -> None:
        self._trouble = trouble

    async def score(self, run: Run) -> Any:
        await asyncio.sleep(0)
        return self._trouble.at("OddScorer awaited", Score(value=1.0))


class OddInline(Scorer):
    """A scorer on the engine's thread."""

    id = "odd_inline"
    version = "1"
    inline = at_once = True
    scale = 1.0

    def __init__(self, trouble: Trouble) -> None:
        self._trouble = trouble

    async def score(self, run: Run) -> Any:
        return self.score_at_once(run)

    def score_at_once(self, run: Run) -> Any:
        return self._trouble.at("OddInline called", Score(value=1.0))


class OddSampler(Sampler):
    """A sampler of every run."""

    def __init__(self, trouble: Trouble) -> None:
        self._trouble = trouble

    def chance(self, run: Run, earlier: Any = None) -> Any:
        return self._trouble.at("OddSampler called", Chance(1.0))

    def __str__(self) -> str:
        return str(self._trouble.at("OddSampler text", "odd"))


class OddDestination:
    """A destination with every optional method."""

    name = "odd"
    batch_size = 4

    def __init__(self, trouble: Trouble) -> None:
        self._trouble = trouble

    async def export(self, batch: Sequence[ScoredRun]) -> Any:
        await asyncio.sleep(0)
        return self._trouble.at("OddDestination awaited", None)

    async def keep_picks(self, rows: Any) -> Any:
        return self._trouble.at("OddDestination picks", None)

    def trace_url(self, trace_id: str, span_id: str) -> Any:
        return self._trouble.at("OddDestination url", None)

    async def shutdown(self) -> None:
        self._trouble.at("OddDestination shut down", None)


class OddPreset(EventPreset):
    """A preset of event attributes."""

    name = "preset"

    def __init__(self, trouble: Trouble) -> None:
        self._trouble = trouble

    def event_attributes(self, run: Run, evaluation: Any) -> Any:
        return self._trouble.at("OddPreset called", {"preset": 1})


class OddConvention:
    """Claims the spans of one scope, and reads them as another convention does."""

    name = "odd"
    scopes = (ODD_SCOPE,)
    markers = ()

    def __init__(self, trouble: Trouble) -> None:
        self._trouble = trouble

    def read(self, span: Any) -> Any:
        return self._trouble.at("OddConvention called", NORMAL.choose("", span.attributes).read(span))  # type: ignore[union-attr]


class OddJudge:
    """A judge with every optional property."""

    model = "odd/judge"
    images = False
    max_prompt_chars = 40_000
    on_cut = "score"

    def __init__(self, trouble: Trouble) -> None:
        self._trouble = trouble

    def prepare(self) -> None:
        self._trouble.at("OddJudge prepared", None)

    def redact(self, text: str) -> Any:
        return self._trouble.at("OddJudge redacted", text)

    async def ask(self, request: Any) -> Any:
        await asyncio.sleep(0)
        value = self._trouble.at("OddJudge value", request.schema(score=1.0))
        return self._trouble.at("OddJudge awaited", JudgeReply(value=value, model="odd/judge"))


def odd_steps(trouble: Trouble) -> Scorer:
    """A scorer of four steps, with a resolver and a question, in which every function is a place."""

    def odd(place: str, value: Callable[[Any], Any]) -> Callable[..., Any]:
        return lambda *given: trouble.at(f"{place} called", value(given[0]))

    question = PromptStep(
        prompt="$input $output $context $own",
        schema=ScoreReply,
        data=odd("data", lambda params: {"own": "text"}),
        check=odd("check", lambda params: None),
    )
    return (
        step_scorer("stepped", judge=OddJudge(trouble), get_context=odd("get_context", lambda params: ["x"]))
        .preprocess(odd("preprocess", lambda params: "ready"))
        .analyze(question)
        .generate_score(odd("generate_score", lambda params: params.results.analyze.score))
        .generate_reason(odd("generate_reason", lambda params: "because"))
    )


STEPS = ("preprocess", "get_context", "data", "check", "generate_score", "generate_reason")
NORMAL = load_conventions()
PLACES = (
    *(f"{kind} called" for kind in ("OddInline", "OddSampler", "OddPreset", "OddConvention", "condition")),
    *(f"{kind} awaited" for kind in ("OddScorer", "OddDestination")),
    "OddDestination picks",
    *(f"OddJudge {what}" for what in ("prepared", "redacted", "value", "awaited")),
    *(f"{step} called" for step in STEPS),
    "function called",
    "redaction called",
)


@scorer(inline=True)
def good(run: Run) -> bool:
    """Return True for every run."""
    return True


class Application:
    """A pipeline with one good rule and destination among odd ones."""

    def __init__(self) -> None:
        self.trouble = trouble = Trouble()
        self.kept = InMemoryDestination()
        resolved = scorer(id="resolved")(lambda run: trouble.at("function called", 1.0))
        rules = [
            Rule(OddScorer(trouble), timeout=0.5),
            Rule(OddInline(trouble)),
            Rule(resolved, sample=OddSampler(trouble)),
            Rule(scorer(id="conditional", inline=True)(lambda run: True), when=self._condition),
            Rule(good),
            Rule(odd_steps(trouble), timeout=0.5),
            Rule(scorer(id="after", inline=True)(lambda run: True), sample=sampling.above("odd_inline", 0.5)),
        ]
        destinations: Any = [self.kept, OddDestination(trouble), OddPreset(trouble)]
        config = build_config(
            rules, destinations, redact=self._redact, grace=0.0, shutdown_timeout=2.0, metrics=False
        )
        conventions = Conventions([*NORMAL, OddConvention(trouble)])
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.pipeline = Pipeline(config, tracer_provider=self.provider, conventions=conventions)
        self.provider.add_span_processor(self.pipeline.spans)
        self.good: set[str] = set()

    def _redact(self, text: str) -> Any:
        return self.trouble.at("redaction called", text)

    def _condition(self, run: Run) -> Any:
        return self.trouble.at("condition called", True)

    def runs(self, count: int, scope: str = "tests.app") -> None:
        tracer = self.provider.get_tracer(scope)
        for _ in range(count):
            trace_id = agent_run(tracer)
            if scope != ODD_SCOPE:
                self.good.add(f"{trace_id:032x}")

    def settle(self) -> None:
        """Wait until nothing is pending and the good rule's scores were delivered."""
        end = time.monotonic() + SECONDS
        while True:
            self.pipeline.force_flush(300)
            stats = self.pipeline.stats()
            delivered = {e.trace_id for e in self.kept.evaluations if e.scorer_id == "good"}
            if self.good <= delivered and not any(rule.pending for rule in stats.rules.values()):
                break
            left = {name: rule.pending for name, rule in stats.rules.items()}
            assert time.monotonic() < end, (left, len(self.good - delivered))
        assert stats.check() == []

    def close(self) -> None:
        self.pipeline.shutdown()
        stats = self.pipeline.stats()
        assert stats.check() == []
        assert not any(rule.pending for rule in stats.rules.values())
        assert self.pipeline.health().thread_alive is False


@pytest.mark.parametrize("place", PLACES)
def test_the_other_rules_are_scored_while_a_place_fails_for_good(place: str) -> None:
    application = Application()
    application.trouble.armed[place] = "raises"
    application.runs(12)
    application.settle()
    application.close()


@pytest.mark.parametrize(
    ("place", "kind", "named"),
    [
        ("OddScorer awaited", "exits", "odd"),
        ("OddInline called", "returns nonsense", "odd_inline"),
        ("OddSampler called", "interrupts", "resolved"),
        ("condition called", "raises", "conditional"),
        ("function called", "raises", "resolved"),
        ("get_context called", "exits", "stepped"),
        ("OddJudge awaited", "returns nonsense", "stepped"),
        ("OddJudge redacted", "raises", "stepped"),
    ],
)
def test_health_names_the_rule_whose_code_fails(place: str, kind: str, named: str) -> None:
    application = Application()
    application.trouble.armed[place] = kind
    application.runs(12)
    application.settle()
    health = application.pipeline.health()
    assert named in health.failing_rules
    assert health.status == "degraded"
    application.close()


def test_health_names_a_destination_and_a_convention_that_fail() -> None:
    application = Application()
    application.trouble.armed["OddDestination awaited"] = "exits"
    application.trouble.armed["OddConvention called"] = "returns nonsense"
    application.runs(2, ODD_SCOPE)
    application.runs(1)
    application.settle()
    health = application.pipeline.health()
    assert health.failing_destinations == ("odd",)
    assert "convention odd: cannot read spans" in (health.problem or "")
    application.close()
