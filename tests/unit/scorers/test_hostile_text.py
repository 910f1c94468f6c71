"""No text makes a scorer keep the interpreter's lock: the application's threads go on while it is scored.

Every scorer runs on text made to be slow to read, up to a megabyte in every field of the run, while another
thread notes the longest time that it did not get to run. And no call into C, which alone keeps the lock for
as long as it takes, may take more than 20 ms.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import pytest

import otel_evals.scorers as built_in
from otel_evals._internal.config.plugins import build_scorer
from otel_evals._internal.judges.fence import Fence
from otel_evals._internal.judges.replies import parse_reply
from otel_evals._internal.redaction.secrets import redact_secrets
from otel_evals._internal.scorers.judged import judgement
from otel_evals.context import documents, tool_results
from otel_evals.errors import ConfigError
from otel_evals.judges import JudgeReply, JudgeRequest
from otel_evals.model import Run, Usage
from otel_evals.scorers import FunctionScorer, Scorer, checks
from otel_evals.testing import run_of
from tests.support.code_scorers import CODE_OPTIONS
from tests.support.judge_scorers import JUDGE_OPTIONS, judge_scorers
from tests.support.pauses import LongestCall, Pause

MAX_CALL = 0.02
"""Seconds of processor time for which one call into C may keep the interpreter's lock."""
MAX_PAUSE = 0.2
"""Seconds on the clock; other programs on the machine count here, so it is ten times the other bound."""
SIZES = (1_000_000, 200_000, 20_000)
PIECES = [
    "token:", '{"token":"a1b2c3d4",', "-----BEGIN PRIVATE KEY-----", "sk-", "eyJ-", "://a:",
    "a", "中", "中1", " ", "\n", ".", "...a", "no. ", "don't ", "ab ",
    "```\n", "<", "<a", "[", '{"a":', "a@", "http://", "1-", "1,", "AB12 ", "4111111111111111 ",
    "\u0301\u0316", "e\u0301", "\ud800", "\x00", "\u202e", "ß", "I can't ", "</data-", "[1,",
]  # fmt: skip
"""Repeated up to the size; each has been slow, or could be, for some pattern or routine."""


@pytest.fixture(autouse=True, scope="module")
def no_collection() -> Iterator[None]:
    """The collector, on the heap of a whole test run, can stop all threads for seconds."""
    gc.disable()
    yield
    gc.enable()


def assert_gives_way(work: Callable[[], Any], what: str) -> None:
    """Check the longest pause; what a busy machine adds does not come back each time."""
    longest = 1e9
    for _ in range(6):
        with Pause() as pause:
            work()
        longest = min(longest, pause.longest)
        if longest < MAX_PAUSE * 0.8:
            break
    assert longest < MAX_PAUSE, f"{what}: other threads waited {longest * 1000:.0f} ms"


def assert_short_calls(work: Callable[[], Any], what: str) -> None:
    """Check the longest call; the watch makes everything slower, but not that."""
    found = []
    for _ in range(4):
        with LongestCall() as call:
            work()
        found.append((call.seconds, call.name))
        if call.seconds < MAX_CALL * 0.8:
            break
    assert min(found)[0] < MAX_CALL, f"{what}: {min(found)[0] * 1000:.0f} ms in {min(found)[1]}"


class Echo:
    """A judge that answers every question with a hostile text, or one of the wrong form."""

    model = "echo"

    def __init__(self, text: str) -> None:
        self.text = text

    async def ask(self, request: JudgeRequest) -> JudgeReply:
        value = self.text
        if request.schema is not None:
            found, _ = parse_reply(self.text, request.schema)
            value = found if found is not None else request.schema.model_construct()
        return JudgeReply(value=value, model="echo", usage=Usage())


def hostile_run(text: str) -> Run:
    return run_of(
        {
            "input": text,
            "output": text,
            "system": text,
            "expected": text,
            "history": [{"role": "user", "content": text}] * 3,
            "tools": [
                {"name": "a", "arguments": {"x": text}, "result": text},
                {"name": text[:1_000], "arguments": {"x": [text[:1_000]] * 500}, "result": {"k": text}},
                {"name": "a", "arguments": {"x": text}, "result": {"k": [text]}, "error": text},
            ],
            "context": [text, text],
        }
    )


CODE_SCORERS: dict[str, dict[str, Any]] = {
    **CODE_OPTIONS,
    "answered": {"refusals": ["(a+)+$"]},
    "matches": {"pattern": "(a|a)+b"},
    "similarity": {"expected": "x y z"},
    "valid_json": {"schema": {"type": "array", "items": {"type": "string"}}},
}


def code_scorer(name: str) -> Scorer:
    return build_scorer(name, CODE_SCORERS[name], "rules[0]")


WITH_CONTEXT = ("hallucination", "context_recall", "context_precision", "context_relevance")


def judge_scorer(name: str, text: str) -> Scorer:
    options = JUDGE_OPTIONS.get(name, {})
    if name in WITH_CONTEXT:
        options = {**options, "get_context": tool_results()}
    return getattr(built_in, name)(Echo(text), **options)  # type: ignore[no-any-return]  # by name


def outcome(scorer: Scorer, run: Run) -> Any:
    async def main() -> Any:
        try:
            return await scorer.score(run)
        except Exception as error:
            return error

    return anyio.run(main)


def _is_scorer(name: str) -> bool:
    module = getattr(built_in, name).__module__
    return module.startswith("otel_evals._internal.scorers.") and ".kit." not in module


def test_every_scorer_is_here() -> None:
    named = CODE_SCORERS.keys() | set(judge_scorers())
    assert {name for name in built_in.__all__ if _is_scorer(name)} <= named
    assert set(checks.__all__) <= named


def text_of(piece: str, size: int) -> str:
    return (piece * (size // len(piece) + 1))[:size]


def check(make: Callable[[str], Scorer], pieces: list[str], sizes: tuple[int, ...]) -> None:
    outcome(make("so"), hostile_run("a small one "))  # what is loaded once is loaded now
    for piece in pieces:
        for size in sizes:
            text = text_of(piece, size)
            scorer, run = make(text), hostile_run(text)
            work = lambda: outcome(scorer, run)  # noqa: B023, E731  # called at once
            assert_gives_way(work, f"{scorer.id} on {size} characters of {piece!r}")


FEW = ["token:", "中1", "\u0301\u0316", '{"a":', "...a", "<a"]


@pytest.mark.parametrize("name", sorted(CODE_SCORERS))
def test_code_scorers_let_other_threads_go_on(name: str) -> None:
    check(lambda text: code_scorer(name), FEW[:1], (200_000,))


@pytest.mark.parametrize("name", judge_scorers())
def test_judge_scorers_let_other_threads_go_on(name: str) -> None:
    check(lambda text: judge_scorer(name, text), FEW[:1], (50_000,))


READ = 40_000
"""Characters: several times as many as a pattern is given at once."""


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("piece", FEW[:1])
@pytest.mark.parametrize("name", sorted(CODE_SCORERS.keys() - {"grounded_in_tools"}))  # minutes, when watched
def test_no_call_of_a_scorer_takes_long(name: str, piece: str) -> None:
    outcome(code_scorer(name), hostile_run("a small one "))
    run = hostile_run(text_of(piece, READ))
    assert_short_calls(lambda: outcome(code_scorer(name), run), f"{name} of {piece!r}")


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", sorted(CODE_SCORERS))
def test_code_scorers_on_every_text(name: str) -> None:
    check(lambda text: code_scorer(name), PIECES, SIZES)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", judge_scorers())
def test_judge_scorers_on_every_text(name: str) -> None:
    check(lambda text: judge_scorer(name, text), PIECES, SIZES[:1])


ROUTINES: dict[str, Callable[[str], Any]] = {
    "redaction": redact_secrets,
    "a fence around a text": lambda text: Fence().wrap("x", text),
    "a fence around many": lambda text: Fence().wrap("x", [text[:5_000]] * 2_000),
    "a fence of a megabyte": lambda text: Fence(max_chars=1_000_000).wrap("x", text),
    "reading a reply": lambda text: parse_reply(text, judgement("summarization").reply),
    "documents": lambda text: documents()(_params(text)),
}


def _params(text: str) -> Any:
    from otel_evals.context import Params, Results

    return Params(run=hostile_run(text), results=Results(None, None), step="analyze")


@pytest.mark.parametrize("name", sorted(ROUTINES))
@pytest.mark.parametrize(
    ("piece", "size"),
    [(FEW[0], 200_000), *(pytest.param(each, SIZES[0], marks=pytest.mark.slow) for each in FEW[:3])],
)
def test_routines_let_other_threads_go_on(name: str, piece: str, size: int) -> None:
    text = text_of(piece, size)
    assert_gives_way(lambda: ROUTINES[name](text), f"{name} of {piece!r}")


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["redaction", "a fence around a text", "reading a reply"])
@pytest.mark.parametrize("piece", FEW[:1])
def test_no_call_of_a_routine_takes_long(name: str, piece: str) -> None:
    text = text_of(piece, 200_000)
    ROUTINES[name]("a small one ")
    assert_short_calls(lambda: ROUTINES[name](text), f"{name} of {piece!r}")


@pytest.mark.slow
def test_a_pattern_of_exponential_time_is_given_up() -> None:
    found = outcome(checks.matches("(a|a)+b"), run_of({"output": "a" * 100_000}))
    assert isinstance(found, TimeoutError)


SLOW = "^(a|a)+b"
SCHEMAS: dict[str, dict[str, Any]] = {
    "pattern": {"properties": {"a": {"pattern": SLOW}}},
    "behind a reference": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$ref": "#/$defs/x",
        "$defs": {"x": {"properties": {"a": {"pattern": SLOW}}}},
    },
    "names of names": {"propertyNames": {"pattern": SLOW}},
}


@pytest.mark.slow
@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
def test_a_schema_s_pattern_of_exponential_time_is_given_up(schema: dict[str, Any]) -> None:
    """jsonschema's own search would stop every thread for as long as it takes."""
    text = "a" * 5_000
    scorer = built_in.valid_json(schema=schema)
    ended: list[Any] = []
    hostile = hostile_run(f'{{"a": "{text}", "{text}": 1}}')
    assert_gives_way(lambda: ended.append(outcome(scorer, hostile)), "a schema's pattern")
    assert all(isinstance(each, TimeoutError) for each in ended), ended


def test_a_schema_whose_patterns_cannot_be_bounded_is_refused() -> None:
    with pytest.raises(ConfigError, match="use propertyNames"):
        built_in.valid_json(schema={"allOf": [{"patternProperties": {"a": {}}}]})


def test_what_is_too_long_is_not_scored_and_says_so() -> None:
    long = run_of({"input": "so?", "output": "so " * 100_000})
    for scorer in (built_in.keyword_coverage(stop_words=()), checks.includes("so"), built_in.valid_json()):
        assert outcome(scorer, long).reason == "output_too_long"
    assert outcome(built_in.no_secrets(), long).reason == "output_too_long"


def test_a_secret_is_found_wherever_a_part_ends() -> None:
    secret = "ghp_" + "a1" * 18
    for before in range(0, 2_100, 61):
        found = outcome(built_in.no_secrets(), run_of({"input": "so?", "output": "a " * before + secret}))
        assert found.label == "leak", before


def test_versions_tell_patterns_apart() -> None:
    assert isinstance(checks.matches("a"), FunctionScorer)
    assert len({checks.matches("a").version, checks.matches("b").version, checks.matches("a").version}) == 2
