"""`otel-evals scorers` and `init`: what there is, and a first file that is right."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from otel_evals import load_config
from otel_evals._internal.cli.app import app
from otel_evals._internal.config.plugins import scorer_names


def run(*arguments: str) -> str:
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code == 0, done.output
    return str(done.output)


def test_every_scorer_is_listed_with_what_it_says() -> None:
    rows = [line.split(maxsplit=2) for line in run("scorers", "list").splitlines()]
    assert [name for name, _, _ in rows] == scorer_names()
    assert {by for _, by, _ in rows} == {"code", "judge"}
    assert all(len(says) > 20 for _, _, says in rows)


def test_show_has_options_defaults_and_a_rule() -> None:
    text = run("scorers", "show", "hallucination")
    assert "model  (required)" in text
    assert "scale = 1.0" in text
    assert "from otel_evals.scorers import hallucination" in text
    assert "from otel_evals.scorers.checks import includes" in run("scorers", "show", "includes")
    assert "- scorer: hallucination\n    options: {model: ...}" in text
    assert "refusals = ()" in run("scorers", "show", "answered")


def test_an_unknown_scorer_is_named_with_the_nearest() -> None:
    done = CliRunner().invoke(app, ["scorers", "show", "halucination"])
    assert done.exit_code == 2
    assert "did you mean 'hallucination'?" in done.output


def test_init_writes_a_file_that_is_right_and_replaces_none(tmp_path: Path) -> None:
    path = tmp_path / "otel-evals.yaml"
    said = run("init", str(path))
    assert [rule.name for rule in load_config(path).rules] == ["answered", "grounded_in_tools"]
    assert "instrument" not in path.read_text(), "installed frameworks are not those of the application"
    assert "otel-evals doctor -- python app.py" in said
    assert f'otel_evals.install("{path}")' in said
    done = CliRunner().invoke(app, ["init", str(path)])
    assert done.exit_code == 2
    assert "--force replaces it" in done.output


@pytest.mark.parametrize("commented", ["answer_relevancy", "jsonl"])
def test_what_init_comments_out_is_right_too(commented: str, tmp_path: Path) -> None:
    path = tmp_path / "otel-evals.yaml"
    run("init", str(path))
    lines = path.read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if "# - " in line and commented in line)
    while start < len(lines) and lines[start].startswith("  # "):
        lines[start] = lines[start].replace("  # ", "  ", 1)
        start += 1
    path.write_text("\n".join(lines))
    config = load_config(path)
    assert commented in [rule.name for rule in config.rules] + [place.name for place in config.destinations]
