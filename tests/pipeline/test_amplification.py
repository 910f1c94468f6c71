"""What a stranger's bytes cost: a search for the input that takes most memory or calls for its length.

For each decoder, pieces of its grammar are repeated, alone and in pairs, inside of brackets and not. Bounds
are bytes allocated and calls made per byte of the input, which do not depend on the machine.
"""

from __future__ import annotations

import contextlib
import gc
import gzip
import itertools
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from otel_evals._internal.config.yaml_file import YamlFile
from otel_evals._internal.judges.replies import parse_reply
from otel_evals.errors import ConfigError
from otel_evals_gateway._internal.receiver.answers import RefusedError
from otel_evals_gateway._internal.receiver.decoder import ExportRequest, decode, inflate
from otel_evals_instrumentation._internal.readers.messages import read_messages
from otel_evals_instrumentation._internal.readers.tool_values import arguments_of, result_of
from otel_evals_monitor._internal.page import forms
from tests.support.pauses import LongestCall

LENGTH = 6_000
JSON = [
    "[",
    "[],",
    "{",
    "{},",
    '{"a":',
    '{"a":1},',
    "1,",
    '"",',
    '"a",',
    "1e9,",
    '"\\u00e9",',
    "null,",
    "[[],",
]
PYTHON = [
    *JSON,
    "(",
    "(),",
    "'a',",
    "{'a': 1},",
    "1+",
    "-",
    "\\'",
    "'a' ",
    "x(a=",
    "<a ",
    "content='a' ",
    "not ",
]
OTLP = [*JSON, '{"spans":[{}]},', '{"scopeSpans":[{"spans":[]}]},', '{"traceId":"ab"},']
YAML = [
    "- a\n",
    "- [a]\n",
    "- - - a\n",
    "? a\n",
    "- *a\n",
    "- {}\n",
    "- &a a\n",
    "- ${A:-b}\n",
    "[",
    "{",
    "- !!a b\n",
]
FORM = ["a=b&", "a&", "%41=", "=&", "+", "%", "a;", "label=%e9&"]
FIELDS = [
    b"\n\x00",
    b"\n\x02\n\x00",
    b"\n\x04\x12\x02\n\x00",
    b"\n\x06\x12\x04\x12\x02\n\x00",
    b"\x12\x00",
    b"\x08\x01",
]


class Reply(BaseModel):
    verdicts: list[str]


def _otlp(kind: str) -> Callable[[str | bytes], Any]:
    def work(data: str | bytes) -> Any:
        body = data.encode() if isinstance(data, str) else data
        return decode(ExportRequest("traces", body, kind), 1 << 20)

    return work


def _yaml(text: str, folder: Path) -> Any:
    path = folder / "a.yaml"
    path.write_text("a: &a b\nb:\n" + text)
    return YamlFile(path, {})


DECODERS: dict[str, tuple[Callable[[Any], Any], list[Any], int]] = {
    # The bound is in bytes per byte: an empty list takes 56 bytes of memory for the three bytes of `[],`.
    # Python's parser takes most, but reads at most 6,000 characters of code.
    "OTLP as JSON": (_otlp("application/json"), OTLP, 80),
    "OTLP as protobuf": (_otlp("application/x-protobuf"), FIELDS, 40),
    "tool arguments": (arguments_of, PYTHON, 1_000),
    "tool results": (result_of, PYTHON, 1_000),
    "messages": (read_messages, PYTHON, 300),
    "a judge's reply": (lambda text: parse_reply(text, Reply), JSON, 350),
    "a form": (lambda text: forms.parse_qs(text, max_num_fields=20), FORM, 120),
}


def _inputs(pieces: list[Any], length: int) -> Iterator[Any]:
    """Yield inputs of a length: each piece and each pair of pieces, in brackets of each kind and in none."""
    for one, other in itertools.product(pieces, pieces):
        piece = one if one == other else one + other
        text = (piece * (length // len(piece) + 1))[:length]
        yield text
        if isinstance(text, str):
            yield f"[{text[:-2]}]"
            yield f'{{"verdicts":[{text[:-16]}]}}'


def _attempt(work: Callable[[Any], Any], data: Any) -> None:
    with contextlib.suppress(RefusedError, ConfigError, ValueError):  # refusing may not cost more either
        work(data)


def _memory(work: Callable[[Any], Any], data: Any) -> float:
    """Return the highest number of bytes in use while an input is decoded, per byte of it."""
    tracemalloc.clear_traces()
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    _attempt(work, data)
    return (tracemalloc.get_traced_memory()[1] - before) / len(data)


def _calls(work: Callable[[Any], Any], data: Any) -> int:
    count = 0

    def on_event(_: Any, event: str, __: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(on_event)
    try:
        _attempt(work, data)
    finally:
        sys.setprofile(None)
    return count


@pytest.fixture(autouse=True, scope="module")
def no_collection() -> Iterator[None]:
    """The collector, on the heap of a whole test run, can stop all threads for seconds."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.slow
@pytest.mark.parametrize("name", DECODERS)
def test_memory_is_bounded_by_the_length_of_the_input(name: str) -> None:
    work, pieces, most = DECODERS[name]
    _attempt(work, next(_inputs(pieces, 200)))  # what is built once
    tracemalloc.start()
    try:
        worst = max((_memory(work, data), data[:60]) for data in _inputs(pieces, LENGTH))
    finally:
        tracemalloc.stop()
    assert worst[0] < most, worst


@pytest.mark.slow
@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize("length", [LENGTH, 8 * LENGTH])
def test_calls_are_bounded_by_the_length_of_the_input(name: str, length: int) -> None:
    work, pieces, _ = DECODERS[name]
    _attempt(work, next(_inputs(pieces, 200)))
    chosen = pieces if length == LENGTH else pieces[::4]
    worst = max((_calls(work, data) / len(data), data[:60]) for data in _inputs(chosen, length))
    assert worst[0] < 100, worst


def test_a_body_of_many_compressed_members_is_refused_before_the_rest_is_copied_for_each() -> None:
    member = gzip.compress(b"")
    assert b"".join(inflate(member * 50, "gzip", 1 << 20)) == b""
    with pytest.raises(RefusedError):
        list(inflate(member * 40_000, "gzip", 1 << 20))
    assert _calls(lambda data: list(inflate(data, "gzip", 1 << 20)), member * 40_000) < 1_000


def test_a_body_stops_growing_at_the_limit() -> None:
    data = gzip.compress(b"\x00" * 50_000_000)
    tracemalloc.start()
    try:
        used = _memory(lambda body: list(inflate(body, "gzip", 100_000)), data) * len(data)
    finally:
        tracemalloc.stop()
    assert used < 3_000_000, "it is inflated in pieces of a megabyte"


@pytest.mark.parametrize("piece", YAML)
def test_a_configuration_file_takes_memory_and_calls_by_its_length(piece: str, tmp_path: Path) -> None:
    def work(text: str) -> Any:
        return _yaml(text, tmp_path)

    small, large = (_calls(work, piece * n) for n in (100, 400))
    assert large < 6 * small + 500
    tracemalloc.start()
    try:
        assert _memory(work, piece * 400) < 5_000
    finally:
        tracemalloc.stop()


def test_aliases_of_aliases_are_refused_before_anything_walks_them(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    path = tmp_path / "bomb.yaml"
    path.write_text("\n".join(lines))
    with pytest.raises(ConfigError, match="use fewer aliases"):
        YamlFile(path, {})
    path.write_text("a: &a {b: 1}\nc: *a\nd: *a\n")
    assert YamlFile(path, {}).values == {"a": {"b": 1}, "c": {"b": 1}, "d": {"b": 1}}


@pytest.mark.slow
@pytest.mark.parametrize("work", [arguments_of, result_of, read_messages], ids=lambda work: work.__name__)
@pytest.mark.parametrize(("start", "end"), [("", ""), ("[", "]"), ("{", "}"), ("content=", ""), ("'", "")])
def test_no_call_on_a_recorded_text_keeps_the_lock(work: Callable[[Any], Any], start: str, end: str) -> None:
    for piece in [*PYTHON, "\\'\\'", "'\\'", "<a<b>"]:
        calls = [LongestCall() for _ in range(3)]
        for call in calls:
            with call:
                work(start + piece * (200_000 // len(piece)) + end)
        quickest = min(calls, key=lambda call: call.seconds)  # a busy machine interrupts one or the other
        assert quickest.seconds < 0.02, f"{quickest.name} on {piece!r}"


@pytest.mark.parametrize("piece", ["\\'", "1,", "x,", "1+", "'a',", "'a' "])
def test_python_code_longer_than_its_bound_stays_text(piece: str) -> None:
    """Python's parser would keep the lock for 2 microseconds a character, or for ever in an open string."""
    text = "['" + piece * 8_000 if piece == "\\'" else f"[{piece * 8_000}]"
    assert _calls(arguments_of, text) < 20_000
    assert arguments_of(text) == text or piece == "1,"


def test_long_strings_in_short_python_code_are_read() -> None:
    told = {"city": "Paris's \n" * 10_000, "days": [1, 2]}
    assert arguments_of(repr(told)) == told
