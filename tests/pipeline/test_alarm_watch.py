"""A process that scores checks its store for alarms in the background, and tells of them by log events."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor

from otel_evals import ConfigError, load_config
from otel_evals_monitor import AlarmOptions, ResultsDestination
from otel_evals_monitor._internal.alarms.section import AlarmWatch
from otel_evals_monitor._internal.store.writer import ResultsStore
from tests.support.result_records import records
from tests.support.waits import eventually


def events(exporter: InMemoryLogRecordExporter) -> list[Any]:
    return [each.log_record for each in exporter.get_finished_logs()]


def until(exporter: InMemoryLogRecordExporter, number: int) -> list[Any]:
    return eventually(lambda: events(exporter), ready=lambda found: len(found) >= number)


def test_an_alarm_is_an_event_at_its_start_and_its_end_and_once_for_all_processes(tmp_path: Path) -> None:
    path = tmp_path / "results.db"
    store = ResultsStore(path)
    store.write(records(600, hours=12, mean=lambda hour: 0.7, end=time.time() - 60))
    store.close()
    exporter = InMemoryLogRecordExporter()
    provider = LoggerProvider(shutdown_on_exit=False)
    provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))

    def watch(floor: float) -> AlarmWatch:
        options = AlarmOptions(every=0.2, floors={"grounded": floor})
        destinations = (ResultsDestination(path),)
        return AlarmWatch(options, destinations, lambda: provider.get_logger("otel_evals"))

    watches = [watch(0.9) for _ in range(3)]
    (started,) = until(exporter, 1)
    time.sleep(0.6)
    assert len(events(exporter)) == 1
    for each in watches:
        each.stop()
    last = watch(0.1)
    ended = until(exporter, 2)[1]
    last.stop()
    assert (started.event_name, started.trace_id or 0) == ("otel_evals.alarm", 0)
    assert started.attributes["otel_evals.alarm.kind"] == "floor"
    assert started.attributes["gen_ai.evaluation.name"] == "grounded"
    assert len(started.attributes["otel_evals.alarm.traces"]) == 5
    assert "below the floor of 0.9" in started.body
    assert [e.attributes["otel_evals.alarm.state"] for e in (started, ended)] == ["started", "ended"]


def test_the_section_is_read_from_yaml_and_its_mistakes_are_named(tmp_path: Path) -> None:
    path = tmp_path / "evals.yaml"
    rest = "rules: [{scorer: no_tool_errors}]\ndestinations: [{results: {path: r.db}}]\n"
    path.write_text(
        rest + "alarms: {every: 5m, floors: {no_tool_errors: 0.9}, alertmanager: 'http://a:9093'}\n"
    )
    options = load_config(path).sections["alarms"]
    assert (options.every, options.floors, options.events) == (300.0, {"no_tool_errors": 0.9}, True)
    path.write_text(rest + "alarms: {webhook: 'ftp://x', missing: 2}\n")
    with pytest.raises(ConfigError, match=r"alarms\.(webhook|missing)"):
        load_config(path)


def test_without_a_store_there_is_nothing_to_watch() -> None:
    with pytest.raises(ConfigError, match=r"alarms\.store"):
        AlarmWatch(AlarmOptions(), (), lambda: LoggerProvider().get_logger("x"))


def test_a_store_that_is_not_there_yet_is_waited_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = tmp_path / "later.db"
    options = AlarmOptions(every=0.05, store=os.fspath(place))
    watch = AlarmWatch(options, (), lambda: LoggerProvider().get_logger("x"))
    eventually(lambda: "no such file" in caplog.text)
    watch.stop()
    assert caplog.text.count("no such file") == 1
