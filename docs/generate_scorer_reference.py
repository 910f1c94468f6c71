"""Writes docs/scorer-reference.md from the scorers' docstrings: python docs/generate_scorer_reference.py"""

from __future__ import annotations

import inspect
from pathlib import Path
from types import ModuleType

from otel_evals import scorers
from otel_evals.scorers import checks

PAGE = Path(__file__).with_name("scorer-reference.md")
HEAD = """\
# Scorer reference

The built-in scorers, generated from their docstrings by `docs/generate_scorer_reference.py`. Each is a
function of `otel_evals.scorers` that returns a scorer. Use the same name in YAML.
Formulas without a source are this project's own.

Judge scorers ask one question each. The reply lists the judged items, each with the words that decide and a
verdict, and the explanation of a score is put together from them. The questions are text files in
`otel_evals/_internal/scorers/prompts`.
Judge scorers share these options:

- `model`: a judge, or a model's name for LiteLLM.
- `scale`: the score of an answer that is as good (or, where lower is better, as bad) as can be.
- `id`: the name of the score.
- `get_context`: [resolver](scorers.md#context-for-the-judge) of the context.
- `context`: the context itself, the same for every run.
- `without_context`: judge even if there is no context.
"""


def page() -> str:
    """The whole page."""
    small = f"## Checks\n\n{inspect.getdoc(checks)}\n"
    built_in = (section(scorers, name) for name in scorers.__all__ if is_built_in(getattr(scorers, name)))
    return "\n".join([HEAD, *built_in, small, *(section(checks, name, level=3) for name in checks.__all__)])


def is_built_in(thing: object) -> bool:
    """Return True for a built-in scorer, False for the parts to write one."""
    return getattr(thing, "__module__", "").startswith("otel_evals._internal.scorers.")


def section(module: ModuleType, name: str, level: int = 2) -> str:
    """One scorer: its call, and its docstring."""
    factory = getattr(module, name)
    parameters = [
        str(p).partition(":")[0] + default(p) for p in inspect.signature(factory).parameters.values()
    ]
    text = (inspect.getdoc(factory) or "").partition("\nRaises:")[0].strip()
    return f"{'#' * level} {name}\n\n`{name}({', '.join(parameters)})`\n\n{listed(text)}\n"


def default(parameter: inspect.Parameter) -> str:
    """A parameter's default, as written in a call."""
    return "" if parameter.default is inspect.Parameter.empty else f"={parameter.default!r}"


def listed(text: str) -> str:
    """The docstring with its facts and arguments as lists."""
    lines: list[str] = []
    arguments = False
    for line in text.splitlines():
        word, found, _ = line.strip().partition(":")
        begins = bool(found) and word[:1].isalpha() and word.replace("_", "").replace(" ", "").isalnum()
        if line == "Args:":
            arguments = True
        elif arguments and begins and line.startswith("    ") and not line.startswith("     "):
            lines.append(f"- `{word}`:{line.strip()[len(word) + 1 :]}")
        elif not arguments and begins and word in FACTS:
            lines.append(f"- **{word}**:{line[len(word) + 1 :]}")
        elif lines and lines[-1].startswith(("- ", "  ")) and line.strip():
            lines.append(f"  {line.strip()}")
        else:
            lines.append(line)
    return "\n".join(lines)


FACTS = ("Range", "Formula", "Needs", "Not scored", "Cost", "Label", "Source")

if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
