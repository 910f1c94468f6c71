"""The texts of a stream leave by sentences, however they are cut into chunks."""

from __future__ import annotations

import re
import time
import timeit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_evals._internal.live.stream import Stream

PIECES = st.lists(
    st.sampled_from(["It costs $3.50", ".", "!", "?)", " ", "\n", "Good", "。", "…", '"', "U.S", "5"]),
    max_size=20,
)


def parts(chunks: list[str]) -> list[str]:
    stream = Stream()
    found = [stream.release(so_far) for chunk in chunks if (so_far := stream.add(chunk)) is not None]
    return [*found, stream.release(stream.text)]


@given(PIECES, st.integers(1, 5))
def test_nothing_is_lost_and_parts_end_with_a_sentence(pieces: list[str], size: int) -> None:
    text = "".join(pieces)
    found = parts([text[start : start + size] for start in range(0, len(text), size)])
    assert "".join(found) == text
    assert all(re.search(r"[.!?…。\n][\"')\]]*\s*\Z", part) for part in found[:-1])
    assert all(found[:-1])


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        (["One. Two."], ["One. ", "Two."]),
        (["It costs $3.", "50. Yes."], ["It costs $3.50. ", "Yes."]),
        (["He said ", '"no."', " Then", " he left."], ['He said "no." ', "Then he left."]),
        (["はい。次", "です。"], ["はい。", "次です。"]),
        (["- a\n", "- b\n"], ["- a\n", "- b\n"]),
        ([], [""]),
    ],
)
def test_where_sentences_end(chunks: list[str], expected: list[str]) -> None:
    assert parts(chunks) == expected


@pytest.mark.parametrize("repeated", [".", "\n", ". ", '."', "。", " "])
def test_long_runs_take_linear_time(repeated: str) -> None:
    def seconds(length: int) -> float:
        text = "A. " + repeated * (length // len(repeated))
        return min(timeit.repeat(lambda: parts([text]), timer=time.process_time, number=1, repeat=3))

    assert seconds(80_000) < 40 * seconds(8_000) + 0.01
