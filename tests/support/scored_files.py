"""Scores the runs of OTLP files as `otel-evals score` does."""

from __future__ import annotations

from otel_evals._internal.cli.score import Report, score_traces
from otel_evals._internal.cli.terminal import report_skipped
from otel_evals._internal.config.options import Config
from otel_evals._internal.otlp.files import read_traces


def score_files(files: list[str], config: Config) -> Report:
    return score_traces(read_traces(files, skipped=report_skipped), config, None, None)[0]
