"""`otel-evals init`: writes a first configuration, with comments, for the framework that is installed."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from otel_evals._internal.cli.terminal import echo

_OPENINFERENCE = "{0}Instrumentor().instrument()  # of openinference-instrumentation-{1}"
_FRAMEWORKS = {
    "pydantic_ai": ("pydantic-ai", "pydantic_ai.Agent.instrument_all()"),
    "agents": ("OpenAI Agents", _OPENINFERENCE.format("OpenAIAgents", "openai-agents")),
    "langchain": ("LangChain", _OPENINFERENCE.format("LangChain", "langchain")),
    "crewai": ("CrewAI", _OPENINFERENCE.format("CrewAI", "crewai")),
    "llama_index": ("LlamaIndex", _OPENINFERENCE.format("LlamaIndex", "llama-index")),
    "openai": ("the OpenAI client", _OPENINFERENCE.format("OpenAI", "openai")),
}
_FILE = """\
# What otel-evals scores, and how. Every option: docs/configuration.md, or `otel-evals config schema`.
# `otel-evals config check {name}` tells all mistakes, how often is scored, and at what cost.
{framework}
rules:
  # Whether there was an answer at all: code, on every run.
  - answered

  # Facts in the answer that no tool said: code, on every run.
  - scorer: grounded_in_tools
    # when: {{agent_name: [support, sales], tenant.id: acme}}   # run fields and span attributes

  # A model as judge, on one run in twenty and on all that failed. `otel-evals scorers list` has the others.
  # - scorer: answer_relevancy
  #   options: {{model: "${{JUDGE_MODEL:-openai/gpt-5-mini}}"}}   # needs the litellm extra
  #   sample: ratio(0.05) | errors()
  #   timeout: 30s

destinations:
  - console                        # question, answer and scores of each run, on standard error
  # - jsonl: {{path: scores.jsonl}}  # one line of JSON per run

# Prompts, contexts and explanations stay off the scores with: capture_content: false
"""
_NONE = """\
# No agent framework was found in this environment: turn on yours as its documentation says,
# or write spans by hand (docs/instrument.md).
"""


def init(
    path: Annotated[Path, typer.Argument(help="The file to write.")] = Path("otel-evals.yaml"),
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")] = False,
) -> None:
    """Write a first configuration, with comments, for the framework that is installed here."""
    if path.exists() and not force:
        echo(f"otel-evals init: {path} is there already; --force replaces it", err=True)
        raise typer.Exit(2)
    found = next((words for module, words in _FRAMEWORKS.items() if find_spec(module) is not None), None)
    try:
        path.write_text(_FILE.format(name=path, framework=_comment(found)), "utf-8")
    except OSError as error:
        echo(f"otel-evals init: {path} cannot be written: {error.strerror or error}", err=True)
        raise typer.Exit(2) from None
    echo(f"{path} is written. Next:\n")
    if found:
        echo(f"  {found[1]}")
    echo(f'  otel_evals.install("{path}")')
    echo("\nin your application, and `otel-evals doctor -- python app.py` to see that it works.")


def _comment(found: tuple[str, str] | None) -> str:
    return (
        _NONE if found is None else f"# Found here: {found[0]}. Its spans are recorded by\n#   {found[1]}\n"
    )
