"""Examines a process or a file, and writes the reports that `otel-evals doctor -- ...` reads."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

from otel_evals._internal.config.loader import load_config
from otel_evals._internal.live.doctor.findings import Diagnosis, Finding
from otel_evals._internal.live.doctor.outside import check_outside
from otel_evals._internal.live.doctor.process import check_process
from otel_evals._internal.live.providers import Providers
from otel_evals._internal.pipeline.pipeline import Pipeline
from otel_evals.errors import ConfigError

_logger = logging.getLogger(__name__)


REPORTS = "OTEL_EVALS_DOCTOR"
"""Environment variable: the folder that `otel-evals doctor -- ...` wants reports of its program in."""


def examine(pipeline: Pipeline | None, used: Providers, *, ask_judges: bool, timeout: float) -> Diagnosis:
    """Look at scoring in this process, and at what it needs outside.

    Args:
        pipeline: what is configured.
        used: the providers that it is connected to.
        ask_judges: whether each judge is asked one short question.
        timeout: seconds for each connection and each question.
    """
    found = list(check_process(pipeline, used))
    if pipeline is not None:
        found += check_outside(pipeline.config, ask=ask_judges, timeout=timeout)
    return Diagnosis(findings=tuple(found))


def examine_file(path: str | Path, *, ask_judges: bool = False, timeout: float = 3.0) -> Diagnosis:
    """Look at a configuration file, and at what it needs outside."""
    try:
        config = load_config(path)
    except ConfigError as error:
        return Diagnosis(findings=tuple(_mistakes(error)))
    fine = Finding(check="configuration", status="fine", text=f"{path} has no mistakes")
    return Diagnosis(findings=(fine, *check_outside(config, ask=ask_judges, timeout=timeout)))


def _mistakes(error: ConfigError) -> list[Finding]:
    fix = "what each message says; `otel-evals config check` tells them again"
    return [
        Finding(check="configuration", status="problem", text=str(each), fix=fix) for each in error.errors
    ]


def report_mistakes(error: ConfigError) -> None:
    """Report a configuration that is wrong."""
    write_report(Diagnosis(findings=tuple(_mistakes(error))))


def write_report(found: Diagnosis) -> None:
    """Write findings to the folder that `otel-evals doctor` waits for, if it does. Never raises."""
    folder = os.environ.get(REPORTS)
    if not folder:
        return
    try:
        target = Path(folder, f"{os.getpid()}.json")
        target.with_suffix(".part").write_text(json.dumps(found.as_json()), "utf-8")
        target.with_suffix(".part").replace(target)
    except Exception:
        _logger.warning("the doctor's report could not be written", exc_info=True)


def read_reports(folder: Path) -> dict[int, Diagnosis]:
    """The reports of all processes, by their ids."""
    paths = sorted(folder.glob("*.json"))
    return {int(path.stem): Diagnosis.of_json(json.loads(path.read_text("utf-8"))) for path in paths}
