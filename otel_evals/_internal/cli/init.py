"""`otel-evals init`: writes a first configuration, with comments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from otel_evals._internal.cli.terminal import echo

_FILE = """\
# Configuration of otel-evals. All options: docs/configuration.md, or `otel-evals config schema`.
# `otel-evals config check {name}` lists all mistakes, or the rules with sampling rate and cost.

rules:
  # Is there an answer? In code, on every run.
  - answered

  # Are the facts in the answer supported by tool results? In code, on every run.
  - scorer: grounded_in_tools
    # when: {{agent_name: [support, sales], tenant.id: acme}}   # run fields and span attributes

  # A model as judge, on one run in twenty and all failed runs. More: `otel-evals scorers list`.
  # - scorer: answer_relevancy
  #   options: {{model: "${{JUDGE_MODEL:-openai/gpt-5-mini}}"}}   # needs the litellm extra
  #   sample: ratio(0.05) | errors()
  #   timeout: 30s

destinations:
  - console                        # question, answer and scores of each run, on standard output
  # - jsonl: {{path: scores.jsonl}}  # one line of JSON per run

# To keep prompts, contexts and explanations off the scores: capture_content: false
"""


def init(
    path: Annotated[Path, typer.Argument(help="The file to write.")] = Path("otel-evals.yaml"),
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Write a first configuration, with comments."""
    try:
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(_FILE.format(name=path))
    except OSError as error:
        hint = "; --force replaces it" if isinstance(error, FileExistsError) else ""
        problem = f"{path} cannot be written: {error.strerror or error}{hint}"
        echo(f"otel-evals init: {problem}", err=True)
        raise typer.Exit(2) from None
    echo(f'{path} is written. In your application, at startup:\n\n  otel_evals.install("{path}")')
    echo("\nThe line that turns your framework's spans on is reported by: otel-evals doctor -- python app.py")
