"""Whatever judged text says, it stays inside its fence, and the question and its form stay as they are."""

from __future__ import annotations

import functools
import re
from base64 import b64encode
from collections import Counter
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from pydantic import BaseModel

import otel_evals.scorers as built_in
from otel_evals._internal.judges.fence import user_content
from otel_evals._internal.offline.judge_trials import load_attacks
from otel_evals.judges import JudgeRequest, ScriptedJudge
from otel_evals.model import Document, Media, Message, Part, Run
from otel_evals.scorers import Scorer, rubric
from tests.support.judge_scorers import JUDGE_OPTIONS, judge_scorers, reply_of
from tests.support.replacing import replace
from tests.support.runs import a_run, tool

ATTACKS = load_attacks()
BENIGN = "ordinary text"
Replies = Callable[[str], dict[str, Any]]


def plain(name: str) -> tuple[Callable[[ScriptedJudge], Scorer], Replies]:
    """A scorer, and the replies of a judge whose own words repeat the attack."""
    make = getattr(built_in, name)
    return (
        lambda judge: make(judge, **JUDGE_OPTIONS.get(name, {})),
        lambda text: {"analyze": reply_of(name, text)},
    )


SCORERS: dict[str, tuple[Callable[[ScriptedJudge], Scorer], Replies]] = {
    **{name: plain(name) for name in judge_scorers()},
    "rubric of the configuration": (
        lambda judge: rubric(judge, criteria=["is kind"]),
        lambda t: {"analyze": reply_of("rubric", t)},
    ),
}


PICTURE = b64encode(b"\x89PNG\r\n\x1a\n of a lift").decode()


def picture_of(text: str) -> Media:
    return Media(kind="image", mime_type=text, name=text, digest=text, base64=PICTURE)


def captioned(role: str, text: str) -> Message:
    """A message with a text and a picture that has it as name and caption."""
    picture = Part(kind="media", text=text, media=picture_of(text))
    return Message(role=role, parts=(Part(kind="text", text=text), picture))


def poisoned(text: str) -> Run:
    """A run that says the same thing everywhere, in names, keys and ids too."""
    run = a_run(
        text,
        text,
        tools=[tool(text, [{text: text}, picture_of(text).in_result(text)], arguments={text: text})],
        history=[("user", text), ("assistant", text)],
        documents=(Document(content=text, id=text, metadata={text: text}, query=text),),
        agent_name=text,
        agent_version=text,
        conversation_id=text,
        user_id=text,
        system_instructions=text,
        ground_truth=text,
    )
    said = {"input_messages": (captioned("user", text),), "output_messages": (captioned("assistant", text),)}
    return replace(run, **said)


def requests(name: str, text: str) -> list[JudgeRequest]:
    make, replies = SCORERS[name]
    judge = ScriptedJudge(replies(text), images=True)
    anyio.run(make(judge).score, poisoned(text))
    return judge.requests


def skeleton(request: JudgeRequest) -> tuple[str, str, list[str]]:
    """What of a question is not judged text: system message, prompt around the fences, fences' names."""
    mark = request.mark
    block = re.compile(rf'<data-{mark} name="([^"]*)">\n.*?\n</data-{mark}>', re.DOTALL)
    names = block.findall(request.prompt)
    assert request.prompt.count(mark) == 2 * len(names), "a mark stands somewhere else"
    shown = user_content(request)[1:] if request.media else ()
    fences = [part["text"].replace(mark, "") for part in shown if part["type"] == "text"]
    numbers = range(1, len(request.media) + 1)
    assert fences == [text for n in numbers for text in (f'<data- name="media {n}">', "</data->")]
    return request.instructions.replace(mark, ""), block.sub("<>", request.prompt), names


@functools.cache
def reply_form(schema: type[BaseModel] | None) -> dict[str, Any] | None:
    return schema.model_json_schema() if schema else None


def test_the_corpus_is_large_and_varied() -> None:
    assert len({attack.text for attack in ATTACKS}) >= 60
    sizes = Counter(attack.family for attack in ATTACKS)
    assert len(sizes) >= 8
    assert min(sizes.values()) >= 7


@pytest.mark.parametrize("name", SCORERS)
def test_no_attack_changes_the_question_or_its_form(name: str) -> None:
    plain = requests(name, BENIGN)
    assert BENIGN not in "".join(skeleton(request)[1] for request in plain)
    for attack in ATTACKS[list(SCORERS).index(name) % 4 :: 4]:
        asked = requests(name, attack.text)
        assert [reply_form(r.schema) for r in asked] == [reply_form(r.schema) for r in plain]
        assert [skeleton(request) for request in asked] == [skeleton(request) for request in plain]


def test_a_repair_keeps_the_attack_fenced_too() -> None:
    for attack in ATTACKS:
        replies = {"analyze": {"calls": [], "missing": [attack.text]}}
        judge = ScriptedJudge(replies, images=True)
        with pytest.raises(Exception, match="verdicts for"):
            anyio.run(built_in.tool_call_judge(judge).score, poisoned(attack.text))
        around = skeleton(judge.requests[-1])[1]
        assert attack.text.strip() not in around
