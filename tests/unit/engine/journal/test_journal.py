"""What a journal accepted survives its process, until it is done."""

from __future__ import annotations

import asyncio
import errno
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from otel_evals import Rule, Stats
from otel_evals._internal.engine.journal.journal import Journal
from otel_evals._internal.engine.journal.runs import RunJournal, decode_group, encode_group, items_of
from otel_evals._internal.engine.journal.segments import Entry
from otel_evals._internal.gather.trace import SpanGroup
from otel_evals.model import SpanEvent, SpanRecord
from otel_evals.scorers import answered
from tests.support.traffic import agent_run
from tests.support.wired import wired

_WRITER = """
import sys
from pathlib import Path
from otel_evals._internal.engine.journal.journal import Journal, Entry

journal = Journal(Path(sys.argv[1]), max_segment=20_000)
kept = {entry.payload: entry.keys for entry in journal.adopt()}
print("adopted", *(each.decode() for each in kept), flush=True)
for number in range(100_000):
    name = f"{sys.argv[2]}-{number}".encode()
    assert journal.append(Entry("run", name, [name]))
    print("kept", name.decode(), flush=True)
    if number % 3 == 0:
        print("ending", name.decode(), flush=True)
        journal.done(name)
"""


def entry(name: str) -> Entry:
    return Entry("run", name.encode(), [name.encode()[:20]])


def left(folder: Path) -> list[str]:
    """What the next process would get."""
    journal = Journal(folder)
    names = [each.payload.decode() for each in journal.adopt()]
    journal.close()
    return names


def crash(journal: Journal) -> None:
    """Release the locks as the end of a process does, without anything else."""
    journal.after_fork_in_child()


def files(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.rglob("*") if each.is_file() and each.name != "lock")


def test_nothing_is_lost_in_processes_that_are_killed(tmp_path: Path) -> None:
    """At any moment: entries that were accepted come back until they are done, whole and in order."""
    rng, kept, ending = random.Random(7), dict[str, None](), set[str]()
    for life in range(8):
        writer = subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(tmp_path), str(life)], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        word, *adopted = writer.stdout.readline().split()
        assert word == "adopted"
        assert [each for each in adopted if each in kept] == [each for each in kept if each in adopted]
        assert kept.keys() - ending <= set(adopted)
        time.sleep(rng.uniform(0.0, 0.1))
        writer.send_signal(signal.SIGKILL)
        said, _ = writer.communicate()
        for line in said.splitlines(keepends=True):
            word, _, name = line.partition(" ")
            if name.endswith("\n"):
                kept[name.strip()] = None
                ending.update([name.strip()] if word == "ending" else [])


class Lives(RuleBasedStateMachine):
    """Processes keep entries, and end well or not; the files end with a part of an entry."""

    @initialize(max_segment=st.sampled_from([1, 200, 10_000]))
    def begin(self, max_segment: int) -> None:
        self.folder = Path(os.environ["JOURNALS"]) / f"{time.time_ns()}"
        self.max_segment, self.number = max_segment, 0
        self.open: dict[bytes, set[bytes]] = {}
        """The keys of each entry that are not done."""
        self.journal = Journal(self.folder, max_segment=max_segment)

    @rule(keys=st.sets(st.integers(0, 5), min_size=1, max_size=3))
    def entry_is_kept(self, keys: set[int]) -> None:
        self.number += 1
        payload, names = f"{self.number}".encode(), {b"%d" % key for key in keys}
        assert self.journal.append(Entry("traces", payload, names))
        self.open[payload] = names

    @rule(key=st.integers(0, 5))
    def key_is_done(self, key: int) -> None:
        self.journal.done(b"%d" % key)
        for keys in self.open.values():
            keys.discard(b"%d" % key)

    @precondition(lambda self: any(self.open.values()))
    @rule(torn=st.booleans())
    def process_ends(self, torn: bool) -> None:
        self.journal.close()
        for file in self.folder.rglob("*.log"):
            if torn:
                with file.open("ab") as written:
                    written.write(b"\x06\x01\x00\x00\x00\x09")
        self.journal = Journal(self.folder, max_segment=self.max_segment)
        found = {each.payload: set(each.keys) for each in self.journal.adopt()}
        expected = {payload: keys for payload, keys in self.open.items() if keys}
        assert found == expected
        assert self.journal.problem is None

    def teardown(self) -> None:
        if hasattr(self, "journal"):
            self.journal.done(*(key for keys in self.open.values() for key in keys))
            assert files(self.folder) == []
            self.journal.close()
            assert not self.folder.exists() or [*self.folder.iterdir()] == []


TestLives = Lives.TestCase
TestLives.settings = settings(max_examples=30, stateful_step_count=30, deadline=None)


@pytest.fixture(autouse=True)
def journals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOURNALS", str(tmp_path))


def test_only_its_owner_may_read_a_journal(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    assert journal.append(entry("a"))
    modes = {each.name: each.stat().st_mode & 0o077 for each in (tmp_path / "journal").rglob("*")}
    assert len(modes) == 3, "its folder, its lock and a segment"
    assert set(modes.values()) == {0}
    journal.close()


def test_a_running_process_keeps_its_entries(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.append(entry("a"))
    assert left(tmp_path) == []
    journal.close()
    assert left(tmp_path) == ["a"]


def test_what_is_done_does_not_come_back_after_a_crash(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.append(*(entry(str(number)) for number in range(1_000)))
    for number in range(900):
        journal.done(str(number).encode())
    crash(journal)
    assert len(left(tmp_path)) == 100


def test_files_are_deleted_once_all_of_their_keys_are_done(tmp_path: Path) -> None:
    journal = Journal(tmp_path, max_segment=1)
    journal.append(Entry("traces", b"x", [b"a", b"b"]))
    journal.append(entry("a"))
    journal.done(b"a")
    assert len(files(tmp_path)) == 1
    journal.done(b"b")
    assert files(tmp_path) == []


def test_a_segment_with_which_three_processes_crashed_for_five_minutes_is_set_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = Journal(tmp_path)
    first.append(entry("bad"))
    crash(first)
    for _ in range(5):
        journal = Journal(tmp_path)
        assert [each.payload for each in journal.adopt()] == [b"bad"]
        assert journal.problem is None
        crash(journal)
    (file,) = tmp_path.rglob("*.log")
    os.utime(file, (0, time.time() - 300))
    journal = Journal(tmp_path)
    assert list(journal.adopt()) == []
    assert "set aside" in (journal.problem or "")
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert [name[-7:] for name in files(tmp_path)] == [".poison"]


def test_processes_that_end_well_do_not_count_as_crashes(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.append(entry("slow"))
    journal.close()
    assert [left(tmp_path) for _ in range(5)] == [["slow"]] * 5


@pytest.fixture
def small_disk() -> Iterator[None]:
    """A limit of the size of files stands for a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4_096, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_is_reported_once_and_costs_nothing_else(
    tmp_path: Path, small_disk: None, caplog: pytest.LogCaptureFixture
) -> None:
    journal = Journal(tmp_path)
    assert journal.append(entry("small"))
    assert not journal.append(entry("x" * 10_000))
    assert not journal.append(entry("y" * 10_000))
    assert "cannot be written" in (journal.problem or "")
    assert len(caplog.records) == 1
    assert journal.append(entry("again"))
    assert journal.problem is None
    crash(journal)
    assert left(tmp_path) == ["small", "again"]


def test_it_takes_no_more_than_its_bytes(tmp_path: Path) -> None:
    journal = Journal(tmp_path, max_segment=1_000, max_bytes=5_000)
    kept = [journal.append(entry(f"{number:020}" + "x" * 500)) for number in range(20)]
    assert kept.count(True) < 12
    journal.done(*(f"{number:020}".encode() for number in range(20)))
    assert journal.append(entry("more"))


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    """A folder that a journal shares with something else, and a file in it that is not its own."""
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "1.0.log").write_text("x")
    ours = tmp_path / f"{1:020}-0123abcd"
    ours.mkdir()
    (ours / "00000001.0.log").write_text("something else")
    journal = Journal(tmp_path)
    assert list(journal.adopt()) == []
    assert "not written by this version" in (journal.problem or "")
    assert journal.append(entry("a"))
    assert (ours / "00000001.0.log").read_text() == "something else"
    assert files(tmp_path / "theirs") == ["1.0.log"]


def test_zeros_that_a_crash_of_the_machine_left_cost_no_entry_before_them(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    assert journal.append(entry("a"))
    crash(journal)
    (file,) = tmp_path.rglob("*.log")
    file.write_bytes(file.read_bytes() + bytes(100))
    assert left(tmp_path) == ["a"]


def test_a_folder_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    journal = Journal(tmp_path / "file" / "journal")
    assert not journal.append(entry("a"))
    assert "cannot be written" in (journal.problem or "")
    assert list(journal.adopt()) == []
    journal.done(b"a")
    journal.close()


def test_without_locks_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("otel_evals._internal.engine.journal.journal.HAS_FILE_LOCKS", False)
    journal = Journal(tmp_path)
    assert not journal.append(entry("a"))
    assert "needs file locks" in (journal.problem or "")


def test_a_forked_child_has_a_folder_of_its_own(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.append(entry("parent"))
    child = os.fork()
    if not child:
        journal.after_fork_in_child()
        journal.append(entry("child"))
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert left(tmp_path) == ["child"]
    journal.close()
    assert left(tmp_path) == ["parent", "child"]


def span(number: int, parent: int | None, **more: object) -> SpanRecord:
    above = f"{parent:016x}" if parent else None
    ids = {"trace_id": f"{1:032x}", "span_id": f"{number:016x}", "parent_span_id": above}
    return SpanRecord(**{**ids, **more})  # type: ignore[arg-type]  # all are fields


def test_the_spans_of_a_run_come_back_as_they_were(tmp_path: Path) -> None:
    event = SpanEvent(name="e", attributes={"k": (1.5, 2.5)}, body={"deep": [None, True, b"x"]})
    spans = (
        span(2, 99, attributes={"a": (1, 2), "b": b"\xff", "t": "é\u2028"}, logs=(event,)),
        span(1, None, events=(event,), resource={"service.name": "s"}, links=(("a" * 32, "b" * 16),)),
    )
    group = SpanGroup(spans, {spans[0].span_id: spans[1].span_id}, 5)
    assert decode_group(encode_group(group)) == group
    source = RunJournal(Journal(tmp_path))
    source.sampled(group)
    crash(source._journal)
    later = RunJournal(Journal(tmp_path))
    (items,) = later.left()
    assert [item.owner for item in items] == [1, 0]
    later.done(spans[0].trace_id)
    assert files(tmp_path) == []
    assert items == items_of(group)


@pytest.mark.parametrize("payload", [b"", b"\x00", b"\xc1" * 9, encode_group(SpanGroup((), {}))[:-2]])
def test_bytes_that_are_no_spans_are_refused(payload: bytes) -> None:
    with pytest.raises(ValueError, match="not the spans of a run"):
        decode_group(payload)


def test_a_run_that_is_not_kept_is_counted_and_scored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A full disk must not look like a journal that has the run."""

    async def scored() -> Stats:
        async with wired(Rule(answered()), source=RunJournal(Journal(tmp_path))) as w:
            for full in (False, True, False, True):
                monkeypatch.setattr(os, "write", full_disk if full else write)
                agent_run(w.tracer)
                w.feed()
                await w.settled()
            return w.engine.stats()

    write = os.write

    def full_disk(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    stats = asyncio.run(scored())
    assert (stats.rules["answered"].scored, stats.not_kept) == (4, 2)
    assert [r.getMessage() for r in caplog.records if "cannot be written" in r.getMessage()] == [
        f"the journal: {tmp_path} cannot be written: [Errno 28] No space left on device"
    ]
