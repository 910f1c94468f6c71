"""`otel-evals score --from`: options that cannot be meant; what servers answer is tested with the sources."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from typer.testing import CliRunner

from otel_evals._internal.cli.app import app


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--from", "jaeger"], "--since: is required with --from"),
        (
            ["--from", "jager", "--since", "1h"],
            "--from: cannot read traces from 'jager'; did you mean 'jaeger'?",
        ),
        (["--from", "opik", "--since", "1h"], "--from: cannot read traces from 'opik'"),
        (["--from", "jaeger=ftp://x", "--since", "1h"], "'ftp://x' is not a URL"),
        (["--from", "jaeger", "--since", "soon"], "--since: 'soon' is not a time"),
        (["--from", "jaeger", "--since", "1h", "--until", "2h"], "--until: must be later than --since"),
        (["--from", "jaeger", "--since", "1h", "--filter", "shop"], "--filter: must be NAME=VALUE words"),
        (
            ["--from", "jaeger", "--since", "1h", "spans.json"],
            "FILES: give either files with traces, or a backend",
        ),
        ([], "FILES: give either files with traces, or a backend"),
        (["spans.json", "--since", "1h"], "--since: requires --from"),
    ],
)
def test_wrong_options_are_told(given: Sequence[str], told: str) -> None:
    done = CliRunner().invoke(app, ["score", *given, "--scorer", "answered"])
    assert done.exit_code == 2
    assert told in done.output
