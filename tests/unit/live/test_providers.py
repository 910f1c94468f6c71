"""Providers made for processes that have none: exporters as the environment says, and nothing twice."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from otel_evals._internal.live import configure
from otel_evals._internal.live.providers import Providers, flush, make_missing
from otel_evals.errors import ConfigError
from tests.support.waits import SECONDS

OTLP = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}

PROGRAM = """
import os
import socket
from opentelemetry import _logs, metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider
from otel_evals._internal.live.providers import Providers, make_missing

def looked():
    return trace.get_tracer_provider(), _logs.get_logger_provider(), metrics.get_meter_provider()

{before}
before = looked()
made = Providers()
make_missing(Providers({given}), made)
print(
    trace.get_tracer("app").start_span("one").is_recording(),
    made.tracers is not None and len(made.tracers._active_span_processor._span_processors),
    made.loggers is not None and type(_logs.get_logger("app")._logger).__name__ == "Logger",
    made.meters is not None,
    *(found is set for found, set in zip(looked(), before)),
    flush=True,
)
os._exit(0)  # without exporting to an endpoint that is not there
"""


def made(given: str = "", before: str = "", **environment: str) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    program = PROGRAM.format(given=given, before=before)
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**clean, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("given", "environment", "expected"),
    [
        ("", {}, "True 0 False False"),
        ("", OTLP, "True 1 True True"),
        ("tracers=object(), loggers=object(), meters=object()", OTLP, "False False False False"),
        ("", {**OTLP, "OTEL_TRACES_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none"}, "True 0 False True"),
        ("", {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:9/v1/traces"}, "True 1 False False"),
        ("", {**OTLP, "OTEL_SDK_DISABLED": "true"}, "False 0 False False"),
    ],
)
def test_what_is_made_is_what_the_environment_asks_for(
    given: str, environment: dict[str, str], expected: str
) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    assert made(given, **environment) == f"{expected} True True True"


def test_what_the_application_has_set_is_left_alone() -> None:
    before = (
        "trace.set_tracer_provider(TracerProvider(shutdown_on_exit=False))\n"
        "metrics.set_meter_provider(MeterProvider(shutdown_on_exit=False))"
    )
    assert made(before=before, **OTLP) == "True False True False True True True"


def test_an_api_without_proxies_gets_global_providers() -> None:
    before = "del trace.ProxyTracer._tracer"
    assert made(before=before, **OTLP) == "True 1 True True False True True"


def test_an_unknown_protocol_is_a_configuration_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", OTLP["OTEL_EXPORTER_OTLP_ENDPOINT"])
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "carrier-pigeon")
    wanted = Providers(tracers=object(), meters=object())
    with pytest.raises(ConfigError, match=r"OTEL_EXPORTER_OTLP_PROTOCOL: 'carrier-pigeon' is unknown"):
        make_missing(wanted, Providers())


class Provider:
    """Says when it was flushed and shut down."""

    def __init__(self, name: str, told: list[str], *, flushes: bool = True) -> None:
        self.name, self.told, self.flushes = name, told, flushes

    def force_flush(self, timeout_millis: int) -> bool:
        self.told.append(f"flush {self.name}")
        return self.flushes

    def shutdown(self) -> None:
        self.told.append(f"shutdown {self.name}")


def test_those_there_are_are_flushed_and_shut_down_the_meters_last() -> None:
    told: list[str] = []
    names = ("tracers", "loggers", "meters")
    everything = Providers(*(Provider(name, told) for name in names))
    assert everything.force_flush(1_000)
    everything.shutdown(5.0)
    assert sorted(told[:3]) == sorted(f"flush {name}" for name in names)
    assert sorted(told[3:5]) == ["shutdown loggers", "shutdown tracers"]
    assert told[5:] == ["shutdown meters"]
    told.clear()
    slow = Providers(Provider("tracers", told, flushes=False), None, object())
    assert not slow.force_flush(1_000)
    assert told == ["flush tracers"]
    everything.shutdown(5.0)
    assert told == ["flush tracers"], "once"
    assert Providers().force_flush(1)


def test_a_provider_that_never_comes_back_or_raises_costs_the_time_given_and_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As with an exporter that logs its errors by the processor that is being flushed."""
    release = threading.Event()

    class Blocked(Provider):
        def force_flush(self, timeout_millis: int) -> bool:
            super().force_flush(timeout_millis)
            return release.wait()

        def shutdown(self) -> None:
            release.wait()

    class Raising(Provider):
        def force_flush(self, timeout_millis: int) -> bool:
            raise SystemExit("in a processor")

    told: list[str] = []
    assert not flush([Blocked("one", told), Blocked("two", told), Provider("three", told)], 200)
    assert sorted(told) == ["flush one", "flush three", "flush two"]
    assert not flush([Raising("four", told), Provider("five", told)], 30_000)
    assert "flush five" in told
    assert flush([object(), None], 0)
    Providers(Blocked("six", told), Blocked("seven", told), Blocked("eight", told)).shutdown(0.2)
    assert "did not answer in time" in caplog.text
    release.set()


def test_a_flush_leaves_the_providers_the_rest_of_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[int] = []
    scoring = SimpleNamespace(force_flush=lambda _: time.sleep(0.5))
    monkeypatch.setattr(configure, "_pipeline", scoring)
    monkeypatch.setattr(configure, "_made", SimpleNamespace(force_flush=given.append))
    configure.force_flush(3_000)
    configure.force_flush(300)
    assert given[0] <= 2_500
    assert given[1] == 300, "a moment in any case"
