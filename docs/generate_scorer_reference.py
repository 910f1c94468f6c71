"""Enters the built-in scorers everywhere: python3 dev.py scorers

A built-in scorer is a public function in `otel_evals/_internal/scorers` that returns a scorer and whose
docstring states its `Range`; a check is such a function in `checks.py`. From these, this script writes the
exports of `otel_evals.scorers`, the entry points in pyproject.toml and docs/scorer-reference.md.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "otel_evals" / "_internal" / "scorers"
PAGE = Path(__file__).with_name("scorer-reference.md")
WIDTH = 110
FIX = "run: python3 dev.py scorers"
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
FACTS = ("Range", "Formula", "Needs", "Not scored", "Cost", "Label", "Source")
Names = Mapping[str, Sequence[str]]
BUILT_IN = re.compile(r"otel_evals\._internal\.scorers\.(?!kit\.)")
"""Modules of built-in scorers; the others have the kit to write one."""


# --- which there are ---


def built_ins() -> dict[str, list[str]]:
    """Return the names of the built-in scorers by their modules; `checks` is one of these."""
    named = {path.stem: [*_scorers_in(path)] for path in sorted(FOLDER.glob("*.py"))}
    return {module: sorted(names) for module, names in named.items() if names}


def _scorers_in(path: Path) -> Iterator[str]:
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if not isinstance(node, ast.FunctionDef) or node.name.startswith("_") or node.returns is None:
            continue
        returns_scorer = re.match(r"(Step|Function)?Scorer\b", ast.unparse(node.returns))
        stated = path.stem == "checks" or "\nRange: " in (ast.get_docstring(node) or "")
        if returns_scorer and stated:
            yield node.name


# --- where they are entered ---


def outdated() -> dict[Path, str]:
    """Return the files that do not have what the built-in scorers say, with their new text."""
    every = built_ins()
    checks = every.pop("checks")
    folder = ROOT / "otel_evals" / "scorers"
    texts = {
        folder / "__init__.py": _exports(folder / "__init__.py", every),
        folder / "checks.py": _exports(folder / "checks.py", {"checks": checks}),
        ROOT / "pyproject.toml": _entry_points(ROOT / "pyproject.toml", every, checks),
    }
    return {path: text for path, text in texts.items() if path.read_text(encoding="utf-8") != text}


def _exports(path: Path, names: Names) -> str:
    """Return a public module with its imports and `__all__`, next to those that it has of elsewhere."""
    text = path.read_text(encoding="utf-8")
    imports = re.compile(r"^( *)from (otel_evals\._internal\.\S+) import (\([^)]*\)|[^\n]*)\n", re.M)
    found = [(m[1], m[2], re.findall(r"\w+", m[3])) for m in imports.finditer(text)]
    indent = found[-1][0]
    inside = [(module, kept) for space, module, kept in found if space == indent]
    kept = {module: each for module, each in inside if not BUILT_IN.match(module)}
    ours = {f"otel_evals._internal.scorers.{module}": list(each) for module, each in names.items()}
    lines = "".join(_import(indent, module, each) for module, each in sorted((kept | ours).items()))
    first = next(m for m in imports.finditer(text) if m[1] == indent)
    last = [*imports.finditer(text)][-1]
    text = f"{text[: first.start()]}{lines}{text[last.end() :]}"
    listed = sorted({name for each in (kept | ours).values() for name in each}, key=_natural)
    everything = "".join(f'    "{name}",\n' for name in listed)
    text = re.sub(r"^__all__ = \[\n.*?^\]\n", f"__all__ = [\n{everything}]\n", text, flags=re.M | re.S)
    modules = sorted((module, " ".join(each)) for module, each in names.items())
    where = "".join(f'    "scorers.{module}": "{each}",\n' for module, each in modules)
    return re.sub(r"^_BUILT_IN = \{\n.*?^\}\n", f"_BUILT_IN = {{\n{where}}}\n", text, flags=re.M | re.S)


def _natural(name: str) -> tuple[int, str]:
    """Sort as ruff does: constants, classes, functions."""
    kind = 0 if name.isupper() else 1 if name[0].isupper() else 2
    return kind, name


def _import(indent: str, module: str, names: Sequence[str]) -> str:
    ordered = sorted(names, key=_natural)
    line = f"{indent}from {module} import {', '.join(ordered)}\n"
    if len(line) <= WIDTH + 1:
        return line
    each = "".join(f"{indent}    {name},\n" for name in ordered)
    return f"{indent}from {module} import (\n{each}{indent})\n"


def _entry_points(path: Path, names: Names, checks: Sequence[str]) -> str:
    public = {name: "otel_evals.scorers" for each in names.values() for name in each}
    public |= dict.fromkeys(checks, "otel_evals.scorers.checks")
    lines = "".join(f'{name} = "{module}:{name}"\n' for name, module in sorted(public.items()))
    title = "[project.entry-points.otel_evals_scorer]\n"
    head, mark, rest = path.read_text(encoding="utf-8").partition(title)
    return f"{head}{mark}{lines}\n{rest.partition(chr(10) * 2)[2]}"


# --- the page ---


def page() -> str:
    """The whole page."""
    every = built_ins()
    checks = import_module("otel_evals.scorers.checks")
    small = f"## Checks\n\n{inspect.getdoc(checks)}\n"
    names = sorted(name for module, each in every.items() if module != "checks" for name in each)
    sections = [section("otel_evals.scorers", name) for name in names]
    listed = [section("otel_evals.scorers.checks", name, level=3) for name in every["checks"]]
    return "\n".join([HEAD, *sections, small, *listed])


def section(module: str, name: str, level: int = 2) -> str:
    """One scorer: its call, and its docstring."""
    factory = getattr(import_module(module), name)
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


if __name__ == "__main__":
    for path, text in outdated().items():
        path.write_text(text, encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")
