"""Examines a configuration file and its servers; writes the reports of `otel-evals doctor -- ...`."""

from __future__ import annotations

import json
import logging
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

import anyio

from otel_evals._internal.accounting.counters import Stats
from otel_evals._internal.config.loader import load_config
from otel_evals._internal.config.options import Config
from otel_evals._internal.config.rules import judges_of, missing_key
from otel_evals._internal.judges.judge import JudgeRequest
from otel_evals._internal.live.doctor.findings import Diagnosis, Finding, fine, problem
from otel_evals._internal.scorers.kit.isolation import is_child
from otel_evals._internal.util.plain import counted
from otel_evals.errors import ConfigError

_logger = logging.getLogger(__name__)
_ENDPOINTS = ("", "_TRACES", "_LOGS", "_METRICS")
_PORTS = {"http": 80, "https": 443}
REPORTS = "OTEL_EVALS_DOCTOR"
"""Environment variable: folder in which `otel-evals doctor -- ...` expects the reports of its program."""


def examine_file(path: str | Path, *, ask_judges: bool = False, timeout: float = 3.0) -> Diagnosis:
    try:
        config = load_config(path)
    except ConfigError as error:
        return diagnosis_of(error)
    found = check_outside(config, ask=ask_judges, timeout=timeout)
    return Diagnosis(findings=(fine("configuration", f"{path} has no mistakes"), *found))


def diagnosis_of(error: ConfigError) -> Diagnosis:
    return Diagnosis(findings=tuple(problem("configuration", str(each)) for each in error.errors))


@contextmanager
def mistakes_reported() -> Iterator[None]:
    """Write a report if the configuration is wrong."""
    try:
        yield
    except ConfigError as error:
        found = diagnosis_of(error)
        write_report(lambda: found)
        raise


def report_before_os_exit(report: Callable[[], None]) -> None:
    """Under `otel-evals doctor`, call a function before `os._exit`, which skips exit handlers."""
    leave = os._exit
    if REPORTS not in os.environ or hasattr(leave, "_otel_evals"):
        return

    def report_and_leave(status: int) -> NoReturn:
        try:
            report()
        finally:
            leave(status)

    report_and_leave._otel_evals = True  # type: ignore[attr-defined]  # marks the replaced function
    os._exit = report_and_leave


def warn_of_missing_keys(config: Config) -> None:
    """Log each judge without its API key."""
    judges = {judge.model: judge for rule in config.rules for judge in judges_of(rule.scorer)}
    for model, judge in judges.items():
        if (missing := missing_key(judge)) is not None:
            message = "the judge %s has no API key, so its scorers will fail; fix: export %s=..."
            _logger.warning(message, model, missing)


def examined_at_os_exit(stats: Callable[[], Stats], doctor: Callable[[], Diagnosis]) -> Diagnosis:
    """Examine a process that ends without its exit handlers; what the flush of the doctor scores is lost."""
    ended = _count_ended(stats())
    found = doctor()
    lost = _count_ended(stats()) - ended
    if not lost:
        return found
    text = f"os._exit ended process {os.getpid()} before {counted(lost, 'evaluation')} ended: scores are lost"
    loss = problem("exit", text, "call otel_evals.shutdown() before os._exit")
    return Diagnosis(findings=(*found.findings, loss))


def _count_ended(stats: Stats) -> int:
    rules = stats.rules.values()
    return sum(each.scored + sum(each.not_scored.values()) + sum(each.failed.values()) for each in rules)


def write_report(examine: Callable[[], Diagnosis]) -> None:
    """Under `otel-evals doctor`, examine and write the findings to its folder. Never raises."""
    folder = os.environ.get(REPORTS)
    if not folder or is_child():
        return
    try:
        target = Path(folder, f"{os.getpid()}.json")
        target.with_suffix(".part").write_text(json.dumps(examine().as_json()), "utf-8")
        # Renamed when complete: the reader takes every `*.json` file.
        target.with_suffix(".part").replace(target)
    except Exception:
        _logger.warning("the doctor's report could not be written", exc_info=True)


def read_reports(folder: Path) -> dict[int, Diagnosis]:
    paths = sorted(folder.glob("*.json"))
    return {int(path.stem): Diagnosis.of_json(json.loads(path.read_text("utf-8"))) for path in paths}


def check_outside(config: Config, *, ask: bool, timeout: float) -> Iterator[Finding]:
    names = [f"OTEL_EXPORTER_OTLP{signal}_ENDPOINT" for signal in _ENDPOINTS]
    # By address: one that several variables share is tried once.
    for address, name in {os.environ[name].strip(): name for name in names if os.environ.get(name)}.items():
        yield _reached("otlp", name, address, timeout)
    judges = {judge.model: judge for rule in config.rules for judge in judges_of(rule.scorer)}
    for model, judge in judges.items():
        yield _asked(model, judge, timeout) if ask else _judge(model, judge)
    for destination in config.destinations:
        url = getattr(getattr(destination, "_http", destination), "url", None)
        if isinstance(url, str):
            yield _reached("destinations", f"{destination.name}'s `url`", url, timeout)


def _reached(check: str, name: str, address: str, timeout: float) -> Finding:
    parts = urlsplit(address if "//" in address else f"//{address}")
    try:
        # OTLP over gRPC has port 4317, and its addresses may lack a scheme.
        port = parts.port or _PORTS.get(parts.scheme, 4317)
        socket.create_connection((parts.hostname or "localhost", port), timeout).close()
    except (OSError, ValueError) as error:
        text = f"{name}: nothing answers at {parts.hostname}:{parts.port}: {error}"
        return problem(check, text, f"start the server, or correct {name}")
    return fine(check, f"{name}: {parts.hostname}:{port} answers")


def _judge(model: str, judge: Any) -> Finding:
    missing = missing_key(judge)
    if missing is None:
        return fine("judges", f"{model} was not asked")
    return problem("judges", f"{model} has no API key", f"export {missing}=...")


def _asked(model: str, judge: Any, timeout: float) -> Finding:
    asked = JudgeRequest(instructions="", prompt="Answer with the word yes.", schema=None, scorer_id="doctor")

    async def ask() -> str:
        with anyio.fail_after(timeout):
            return str((await judge.ask(asked)).value)

    try:
        answer = anyio.run(ask)
    except Exception as error:
        text = f"{model} did not answer: {error or type(error).__name__}"
        return problem("judges", text, "correct the key, `model` or `api_base` in the message")
    return fine("judges", f"{model} answered: {answer[:40]!r}")
