"""Examines a configuration file, and writes the reports that `otel-evals doctor -- ...` reads."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

from otel_evals._internal.config.loader import load_config
from otel_evals._internal.live.doctor.findings import Diagnosis, fine, problem
from otel_evals._internal.live.doctor.outside import check_outside
from otel_evals.errors import ConfigError

_logger = logging.getLogger(__name__)
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
    fix = "correct the field; `otel-evals config check` lists all mistakes"
    return Diagnosis(findings=tuple(problem("configuration", str(each), fix) for each in error.errors))


def write_report(found: Diagnosis) -> None:
    """Write findings to the folder of `otel-evals doctor`, if the program runs under it. Never raises."""
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
    paths = sorted(folder.glob("*.json"))
    return {int(path.stem): Diagnosis.of_json(json.loads(path.read_text("utf-8"))) for path in paths}
