"""The console destination: what a person sees."""

from __future__ import annotations

import io
import re
from typing import Any

import anyio
import pytest

from otel_evals.destinations import ConsoleDestination
from otel_evals.model import Direction, Score, ScoredRun
from tests.support.replacing import replace
from tests.support.scored import scored_run


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
