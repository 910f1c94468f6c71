"""`otel-evals report`: the right mean whatever was sampled, what is missing, what changed; broken files."""

from __future__ import annotations

import gzip
import json
import random
import re
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import anyio
import pytest
from typer.testing import CliRunner

from otel_evals._internal.cli.app import app
from otel_evals.destinations import JsonlDestination
from otel_evals.errors import ConfigError
from otel_evals_monitor._internal.report.inputs import TraceLink
from otel_evals_monitor._internal.store.writer import ResultsStore
from tests.support.result_records import START, record, records
from tests.support.scored import scored_run


def written(path: Path, given: Iterable[Any]) -> Path:
    path.write_text("".join(json.dumps(each) + "\n" for each in given), encoding="utf-8")
    return path


def report(*arguments: Any, code: int = 0) -> Any:
    done = CliRunner().invoke(app, ["report", *map(str, arguments)])
    assert done.exit_code == code, done.output
    return done


def estimates(*arguments: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(report(*arguments, "--json").stdout)["estimates"]
    return found


def test_the_mean_is_that_of_all_traffic_whatever_was_sampled(tmp_path: Path) -> None:
    """Failing runs are sampled twenty times as often; unweighted, the mean would be about 0.3."""
    rng, given = random.Random(5), []
    for number in range(20_000):
        passed = float(rng.random() < 0.9)
        probability = 0.05 if passed else 1.0
        if rng.random() < probability:
            given.append(record(number, passed, probability=probability))
    (row,) = estimates(written(tmp_path / "scores.jsonl", given))
    assert abs(row["mean"] - 0.9) < 0.01
    assert row["low"] < 0.9 < row["high"]
    assert sum(e["evaluations"][0]["value"] for e in given) / len(given) < 0.4
    assert row["stands_for"] == pytest.approx(20_000, rel=0.1)


def test_every_field_that_programs_rely_on_is_there(tmp_path: Path) -> None:
    given = [
        *records(100, probability=0.5),
        record(501, None, status="failed", reason="timeout", probability=0.5),
        record(502, None, status="dropped", reason="queue_full", probability=0.5),
        record(503, None, status="not_scored", reason="no_claims", probability=0.5),
        record(504, 1.0, probability=None),
    ]
    (row,) = estimates(written(tmp_path / "scores.jsonl", given))
    wanted = {"scorer_id": "grounded", "scorer_version": "a1", "agent_name": "support", "n": 100}
    wanted |= {"scored": 101, "not_scored": 1, "failed": 1, "dropped": 1, "unknown_probability": 1}
    assert {name: row[name] for name in wanted} == wanted
    assert row["n_effective"] == pytest.approx(100)
    assert row["missing_low"] <= row["low"] < row["mean"] <= row["high"] <= row["missing_high"]
    assert row["missing_share"] == pytest.approx(2 / 102)
    assert row["cost"] == pytest.approx(0.104)
    assert len(row["worst"]) == 3
    assert all(run["value"] == 0.0 for run in row["worst"])


def test_what_the_jsonl_destination_writes_is_read_as_it_is(tmp_path: Path) -> None:
    async def write() -> None:
        destination = JsonlDestination(tmp_path / "scores.jsonl")
        await destination.export([scored_run(n << 96) for n in range(12)])
        await destination.shutdown()

    anyio.run(write)
    rows = {row["scorer_id"]: row for row in estimates(tmp_path / "scores.jsonl")}
    assert rows["hallucination"]["mean"] == 0.25
    assert rows["hallucination"]["cost"] == pytest.approx(12 * 0.00042)
    assert rows["keyword_coverage"]["scored"] == 12
    assert rows["tool_call_accuracy"]["not_scored"] == 12
    assert rows["answer_relevancy"]["failed"] == 12
    assert (rows["tone"]["dropped"], rows["tone"]["mean"]) == (12, None)


def test_few_runs_are_called_few(tmp_path: Path) -> None:
    (row,) = estimates(path := written(tmp_path / "scores.jsonl", records(9)))
    assert row["too_few"] is True
    assert "too few runs for a mean: 9 effective ones, at least 10 needed" in report(path).stdout
    equal, other = (record(n, n % 2, time=START + n) for n in range(12)), record(100, 0.0, probability=0.1)
    assert "one run has more" not in report(written(tmp_path / "equal.jsonl", equal)).stdout
    unequal = [*(record(n, n % 2) for n in range(40)), other]
    assert "one run has more than 5%" in report(written(tmp_path / "unequal.jsonl", unequal)).stdout


def test_several_files_patterns_and_gzip_are_one_report(tmp_path: Path) -> None:
    given = list(records(30))
    written(tmp_path / "a-1.jsonl", given[:10])
    written(tmp_path / "a-2.jsonl", given[5:20])
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(written(tmp_path / "b", given[20:]).read_bytes()))
    (row,) = estimates(tmp_path / "a-*.jsonl", tmp_path / "b.jsonl.gz")
    assert row["scored"] == 30


def test_broken_lines_are_counted_and_told(tmp_path: Path) -> None:
    path = written(tmp_path / "scores.jsonl", records(20))
    deep = b"[" * 100_000
    path.write_bytes(path.read_bytes() + b'{"cut": \n\xff\xfe\n[1]\n{"a": 1}\n' + deep + b'\n{"trace_id": "')
    done = report(path, "--json")
    assert json.loads(done.stdout)["unreadable_lines"] == 6
    assert json.loads(done.stdout)["estimates"][0]["scored"] == 20
    assert "4 lines are not JSON" in done.stderr
    assert "not the record of a scored run" in done.stderr


@pytest.mark.parametrize("end", [b"", b"\x07"])  # 7 begins a block of no known type
def test_a_gzip_file_that_a_crash_cut_off_is_read_as_far_as_it_goes(tmp_path: Path, end: bytes) -> None:
    packer = zlib.compressobj(wbits=31)
    packed = packer.compress(written(tmp_path / "plain", records(2_000)).read_bytes())
    (tmp_path / "scores.gz").write_bytes(packed + packer.flush(zlib.Z_SYNC_FLUSH) + end)
    (row,) = estimates(tmp_path / "scores.gz")
    assert 100 < row["scored"] <= 2_000


def test_conversations_whose_runs_resemble_each_other_widen_the_interval(tmp_path: Path) -> None:
    alike = [
        record(i, float(i // 20 % 3 > 0), conversation=f"c{i // 20}", user_id=None) for i in range(2_000)
    ]
    apart = [record(i, float(i // 20 % 3 > 0), conversation=f"c{i}", user_id=None) for i in range(2_000)]
    (wide,), (narrow,) = (estimates(written(tmp_path / "scores.jsonl", each)) for each in (alike, apart))
    assert wide["mean"] == narrow["mean"]
    assert wide["high"] - wide["low"] > 2 * (narrow["high"] - narrow["low"])


def test_versions_are_split_and_compared_with_an_interval(tmp_path: Path) -> None:
    given = [*records(2_000, version="1"), *records(2_000, version="2", seed=2, mean=lambda hour: 0.7)]
    rows = estimates(written(tmp_path / "scores.jsonl", given), "--by", "version", "--against", "1")
    first, second = rows
    assert (first["agent_version"], first["change"]) == ("1", None)
    change = second["change"]
    assert change["low"] < -0.2 < change["high"] < 0.0
    assert change["against"] == "1"


def test_a_window_is_compared_with_the_one_before(tmp_path: Path) -> None:
    given = records(4_000, mean=lambda hour: 0.95 if hour < 24 else 0.75)
    (row,) = estimates(written(tmp_path / "scores.jsonl", given), "--window", "24h", "--against", "previous")
    assert row["change"]["high"] < -0.1
    assert row["n"] < 2_200


def test_scores_whose_low_values_are_good_have_their_highest_as_worst(tmp_path: Path) -> None:
    given = [record(i, i / 20, direction="lower_is_better") for i in range(20)]
    (row,) = estimates(written(tmp_path / "scores.jsonl", given))
    assert [run["value"] for run in row["worst"]] == [0.95, 0.9, 0.85]
    assert row["direction"] == "lower_is_better"


def test_a_store_and_its_files_say_the_same(tmp_path: Path) -> None:
    path = written(tmp_path / "scores.jsonl", given := list(records(500, probability=0.25)))
    store = ResultsStore(tmp_path / "results.db")
    store.write(given)
    store.close()
    assert estimates(tmp_path / "results.db") == estimates(path)


def test_the_html_file_needs_nothing_else_and_shows_no_markup_of_others(tmp_path: Path) -> None:
    given = [r | {"output": "<script>alert(1)</script>", "agent": "<b>bold</b>"} for r in records(200)]
    path = written(tmp_path / "scores.jsonl", given)
    report(path, "--html", tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert "<svg" in text
    assert "&lt;script&gt;alert" in text
    assert "<script" not in text
    assert "<b>bold" not in text
    assert re.findall(r'(?:src|href)="(?!#)[^"]*"', text) == []


def test_a_terminal_is_not_steered_by_an_answer(tmp_path: Path) -> None:
    given = [record(i, 0.0) for i in range(20)]
    given[0]["evaluations"][0]["explanation"] = "\x1b[31mred\x1b[0m"
    given[0]["agent"] = "\x1b]0;title\x07"
    assert "\x1b" not in report(written(tmp_path / "scores.jsonl", given), "--worst", 20).stdout


def test_links_lead_to_the_trace(tmp_path: Path) -> None:
    path = written(tmp_path / "scores.jsonl", records(20))
    rows = estimates(path, "--link", "jaeger=http://localhost:16686/")
    worst = rows[0]["worst"][0]
    assert worst["link"] == f"http://localhost:16686/trace/{worst['trace_id']}"


def test_a_destination_can_stand_for_its_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "scores.jsonl", records(20))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://mlflow:5000")
    (named, *_) = estimates(path, "--link", "mlflow")[0]["worst"]
    assert named["link"].endswith(f"/#/experiments/0/traces?selectedEvaluationId=tr-{named['trace_id']}")
    for name in ("WANDB_API_KEY", "WANDB_ENTITY", "WANDB_PROJECT"):
        monkeypatch.setenv(name, "team")
    monkeypatch.delenv("WF_TRACE_SERVER_URL", raising=False)
    (by_span, *_) = estimates(path, "--link", "weave")[0]["worst"]
    assert by_span["link"] == f"https://wandb.ai/team/team/r/call/{by_span['span_id']}"


@pytest.mark.parametrize(
    "wrong",
    [
        "javascript:{trace_id}",
        "ftp://x/{trace_id}",
        "http://x/",
        "http://x/{trace_id}{a}",
        "http://x/{trace_id",
    ],
)
def test_a_link_that_cannot_work_is_refused(wrong: str) -> None:
    with pytest.raises(ConfigError, match="--link"):
        TraceLink.parse(wrong)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--by", "colour"], "--by"),
        (["--by", "attribute:"], "--by"),
        (["--since", "soon"], "--since"),
        (["--window", "fortnight"], "--window"),
        (["--window", "24h", "--since", "2026-01-01"], "--window"),
        (["--since", "2026-02-01", "--until", "2026-01-01"], "--until"),
        (["--against", "previous"], "--against"),
        (["--against", "9.9"], "--against"),
        (["--html", "/nowhere/report.html"], "--html"),
    ],
)
def test_wrong_options_are_named(tmp_path: Path, options: list[str], named: str) -> None:
    path = written(tmp_path / "scores.jsonl", records(20))
    assert named in report(path, *options, code=2).stderr


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    assert "there is no such file" in report(tmp_path / "none.jsonl", code=2).stderr
    assert "is a folder" in report(tmp_path, code=2).stderr
    empty = written(tmp_path / "empty.jsonl", [])
    assert "No scored runs" in report(empty).stdout
    assert json.loads(report(empty, "--json").stdout)["estimates"] == []


def test_of_runs_of_one_user_nothing_is_said_about_others(tmp_path: Path) -> None:
    given = [record(i, float(i % 3 > 0), conversation=f"c{i}", user_id="one") for i in range(60)]
    (row,) = estimates(written(tmp_path / "scores.jsonl", given))
    assert (row["low"], row["high"]) == (0.0, 1.0)
    assert any("of one user" in warning for warning in row["warnings"])


@pytest.mark.slow
def test_a_window_that_is_not_of_whole_hours_is_wider_for_conversations_too(tmp_path: Path) -> None:
    given = [
        record(i, float(i // 20 % 3 > 0), conversation=f"c{i // 20}", user_id=None, time=START + i)
        for i in range(2_000)
    ]
    path = written(tmp_path / "scores.jsonl", given)
    since = "2026-09-21T14:25"
    (row,), (whole,) = estimates(path, "--since", since), estimates(path)
    assert row["n"] < whole["n"]
    assert row["high"] - row["low"] > 0.8 * (whole["high"] - whole["low"])


def test_files_of_a_sample_without_ordinary_runs_have_no_interval(tmp_path: Path) -> None:
    """48 errors under `ratio(0.001) | errors()`; one of ordinary runs stands for a thousand."""
    given = [_sampled(number, float(number % 3 == 0), 1.0) for number in range(48)]
    (row,) = estimates(path := written(tmp_path / "scores.jsonl", given))
    assert (row["low"], row["high"], row["representative"]) == (None, None, False)
    assert "not representative" in report(path).stdout
    (row,) = estimates(written(path, [*given, _sampled(48, 1.0, 0.001)]))
    assert row["representative"] is True
    given = [_sampled(number, 1.0, 1.0, "ratio(0.5) | errors()") for number in range(300)]
    (row,) = estimates(written(path, given))
    assert row["representative"] is True, "at most six others, of 300"


def _sampled(number: int, value: float, probability: float, sampler: str = "") -> dict[str, Any]:
    given = record(number, value, probability=probability)
    given["evaluations"][0]["sampling"]["rule"] = sampler or "ratio(0.001) | errors()"
    return given
