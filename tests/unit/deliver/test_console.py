"""The console destination: what a person sees."""

from __future__ import annotations

import io
import re
import socket
from typing import Any

import anyio
import pytest

from otel_evals._internal.deliver.fanout import FanOut
from otel_evals.destinations import ConsoleDestination
from otel_evals.model import Direction, Score, ScoredRun
from otel_evals.scorers import answered
from otel_evals_exporters.mlflow import MlflowDestination
from otel_evals_exporters.phoenix import PhoenixDestination
from tests.support.replacing import replace
from tests.support.scored import TRACE, scored_run
from tests.support.traffic import Live
from tests.support.waits import eventually


class Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


def shown(
    scored: ScoredRun, *, encoding: str = "utf-8", content: bool = True, kind: Any = io.TextIOWrapper
) -> str:
    raw = io.BytesIO()
    file = kind(raw, encoding=encoding, newline="\n")
    anyio.run(ConsoleDestination(file=file, content=content).export, [scored])
    file.flush()
    return raw.getvalue().decode(encoding)


def test_plain_text_shows_run_scores_and_why() -> None:
    assert shown(scored_run()) == (
        "support · 2.00 s · trace 4bf92f3577b34da6a3ce929d0e0e4736\n"
        "  asked     Where is my order 1042?\n"
        "  answered  It ships on Monday for $12.50.\n"
        "  ● hallucination            0.250 unsupported  sampled ratio(0.25) (p=0.25)\n"
        "      $12.50 is in no tool result\n"
        "  ● keyword_coverage         1.000  sampled ratio(0.25) (p=0.25)\n"
        "  ○ tool_call_accuracy       not scored: no_tool_calls  sampled ratio(0.25) (p=0.25)\n"
        "      the run called no tool\n"
        "  ✗ answer_relevancy         failed: timeout (3 attempts)  sampled ratio(0.25) (p=0.25)\n"
        "      no answer in 30 s\n"
        "  ✗ tone                     dropped: queue_full  sampled ratio(0.25) (p=0.25)\n"
        "  judged for $0.000420\n"
        "\n"
    )


def test_it_shows_where_the_other_destinations_have_the_trace() -> None:
    file = io.StringIO()
    console = ConsoleDestination(file=file)
    FanOut([PhoenixDestination(url="http://p:6006"), console, MlflowDestination(url="http://m")])
    anyio.run(console.export, [scored_run()])
    assert file.getvalue().splitlines()[1:3] == [
        f"  http://p:6006/redirects/traces/{TRACE}",
        f"  http://m/#/experiments/0/traces?selectedEvaluationId=tr-{TRACE}",
    ]


def test_a_backend_that_does_not_answer_gets_no_links() -> None:
    file = io.StringIO()
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound and not listening: nothing answers
        phoenix = PhoenixDestination(url=f"http://127.0.0.1:{closed.getsockname()[1]}")
        with Live(answered(), destinations=[phoenix, ConsoleDestination(file=file)]) as live:
            live.run()
            eventually(
                lambda: (live.flush(20), live.pipeline.health().failing_destinations and file.getvalue())[1]
            )
            assert live.pipeline.health().failing_destinations == ("phoenix",)
            before = len(file.getvalue())
            live.run()
            eventually(lambda: (live.flush(20), len(file.getvalue()) > before)[1])
            live.pipeline.shutdown(100)
    assert "answered" in file.getvalue()[before:]
    assert "/redirects/traces/" not in file.getvalue()[before:]


def test_content_can_be_hidden() -> None:
    text = shown(scored_run(), content=False)
    assert "hallucination" in text
    for words in ("1042", "12.50", "no answer"):
        assert words not in text


def test_long_texts_are_shortened_to_one_line() -> None:
    scored = scored_run()
    text = shown(replace(scored, run=replace(scored.run, output="all of\nit " * 10_000)))
    (answer,) = re.findall(r"answered  (.*)\n", text)
    assert (len(answer), answer[-1]) == (100, "…")
    assert answer.startswith("all of it all")


def test_content_cannot_steer_the_terminal() -> None:
    scored = scored_run()
    evil = replace(scored.run, output="\x1b]0;owned\x07\x1b[2Jhi\u202e\x9b", agent_name="a\x1b[31m\r\nb")
    for kind in (io.TextIOWrapper, Terminal):
        text = shown(replace(scored, run=evil), kind=kind)
        assert not {"\x07", "\x9b", "\u202e", "\r"} & set(text)
        assert "\x1b]" not in text
        assert "\x1b[2J" not in text


def test_a_terminal_that_lacks_the_signs_still_shows_the_words() -> None:
    assert "? hallucination" in shown(scored_run(), encoding="ascii")


def test_a_run_without_content_says_so() -> None:
    scored = scored_run(outcomes={})
    text = shown(
        replace(scored, run=replace(scored.run, output=None, end_time=None, error_type="ValueError"))
    )
    assert "answered  (not recorded)" in text
    assert "did not end" in text
    assert "ValueError" in text


@pytest.mark.parametrize(
    ("value", "direction", "color"),
    [
        (0.9, Direction.HIGHER, 32),
        (0.9, Direction.LOWER, 31),
        (0.6, Direction.HIGHER, 33),
        (7.0, Direction.HIGHER, None),
    ],
)
def test_colour_says_whether_a_score_is_good(
    value: float, direction: Direction, color: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    scored = scored_run(outcomes={"s": Score(value=value)})
    evaluation = replace(scored.evaluations[0], direction=direction)
    text = shown(replace(scored, evaluations=(evaluation,)), kind=Terminal)
    assert f"\x1b[1;{color}m{value:.3f}" in text if color else f"\x1b[1m{value:.3f}" in text
