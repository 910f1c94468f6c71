"""Findings of the doctor: of a configuration file, its servers, and the programs that it runs."""

from __future__ import annotations

import json
import logging
import os
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import anyio

from otel_evals._internal.config.loader import load_config
from otel_evals._internal.config.options import Config
from otel_evals._internal.config.rules import judges_of, missing_key
from otel_evals._internal.judges.judge import JudgeRequest
from otel_evals._internal.scorers.kit.isolation import is_child
from otel_evals.errors import ConfigError

_logger = logging.getLogger(__name__)
_ENDPOINTS = ("", "_TRACES", "_LOGS", "_METRICS")
_PORTS = {"http": 80, "https": 443}
REPORTS = "OTEL_EVALS_DOCTOR"
"""Environment variable: folder in which `otel-evals doctor -- ...` expects the reports of its program."""


Status = Literal["fine", "note", "problem"]
SPANS = "instrumentation"
"""Name of the check for spans of agents, which succeeds if any process of a program has some."""
_SIGNS = {"fine": "ok", "note": "note", "problem": "PROBLEM"}


@dataclass(frozen=True)
class Finding:
    """A check's result."""

    status: Status
    """`note`: runs are scored, but something is missing. `problem`: runs are not scored."""
    check: str
    """Short name of the check, such as `tracer_provider`."""
    text: str
    fix: str = ""
    """A line of code or configuration that fixes it."""


fine, note, problem = partial(Finding, "fine"), partial(Finding, "note"), partial(Finding, "problem")


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """All findings. `str()` returns them as text, problems last."""

    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Return True if there is no problem."""
        return not self.problems

    @property
    def problems(self) -> tuple[Finding, ...]:
        """The findings that are problems."""
        return tuple(finding for finding in self.findings if finding.status == "problem")

    def as_json(self) -> list[dict[str, Any]]:
        """Return the findings as JSON values."""
        return [asdict(finding) for finding in self.findings]

    @classmethod
    def of_json(cls, values: Iterable[Mapping[str, Any]]) -> Diagnosis:
        """Read the output of `as_json`."""
        return cls(findings=tuple(Finding(**value) for value in values))

    @classmethod
    def of_program(cls, reports: Iterable[Diagnosis]) -> Diagnosis:
        """Join the reports of a program's processes; one that saw no agent is fine if another did."""
        found = dict.fromkeys(finding for each in reports for finding in each.findings)
        seen = any(each.check == SPANS and each.status == "fine" for each in found)
        return cls(findings=tuple(f for f in found if not (seen and f.check == SPANS and f.status != "fine")))

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        order = list(_SIGNS)
        for finding in sorted(self.findings, key=lambda each: order.index(each.status)):
            yield f"{_SIGNS[finding.status]:8}{finding.check}: {finding.text}"
            if finding.fix:
                yield f"{'':8}  fix: " + finding.fix.replace("\n", f"\n{'':15}")
        count = len(self.problems)
        yield "no problem found" if not count else f"{count} problem{'s' * (count != 1)}"


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


def warn_of_missing_keys(config: Config) -> None:
    """Log each judge without its API key."""
    for model, judge in _judges(config).items():
        missing = missing_key(judge)
        if missing is not None:
            message = "the judge %s has no API key, so its scorers will fail; fix: export %s=..."
            _logger.warning(message, model, missing)


def _judges(config: Config) -> dict[str, Any]:
    return {judge.model: judge for rule in config.rules for judge in judges_of(rule.scorer)}


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
    for model, judge in _judges(config).items():
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
