"""docs/accounting.md and docs/sampling.md tell every reason and every sampler there is, and no others."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from otel_evals import load_config, sampling
from otel_evals._internal.accounting.reasons import REASONS

ROOT = Path(__file__).parents[3]
DOC = (ROOT / "docs" / "accounting.md").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^\| `([^`]+)` \| ([^|]+) \|$", DOC, re.M))
CALLS = {"Loss": 1, "Decision": 2, "DueConversation": 3, "_evict": 1, "abort": 0}
"""Functions that take a reason by position, and its position."""
OUTCOMES = {"NotScored", "Dropped", "ScorerFailure"}


def texts(node: ast.AST) -> Iterator[str]:
    """The texts an expression may be; what is filled in is `<field>`."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr(values=values):
            yield "".join(str(v.value) if isinstance(v, ast.Constant) else "<field>" for v in values)
        case ast.IfExp(body=body, orelse=orelse):
            yield from texts(body)
            yield from texts(orelse)
        case ast.BoolOp(values=values):
            for value in values:
                yield from texts(value)


def reasons(source: Path) -> Iterator[str]:
    """Every reason that a module writes down."""
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            given = [k.value for k in node.keywords if k.arg == "why"]
            given += [
                k.value for k in node.keywords if k.arg in ("reason", "error_type") and name in OUTCOMES
            ]
            given += node.args[CALLS[name] : CALLS[name] + 1] if name in CALLS else []
            for value in given:
                yield from texts(value)
        if isinstance(node, ast.Assign) and [getattr(t, "id", "") for t in node.targets] in (
            ["error_type"],
            ["reason"],
        ):
            yield from texts(node.value)


def told(reason: str) -> bool:
    if "<field>" in reason:
        pattern = re.escape(reason).replace("<field>", ".+")
        return any(re.fullmatch(pattern, row) for row in ROWS)
    field = re.sub(r"^.+_(captured_off|not_recorded|empty)$", r"<field>_\1", reason)
    return reason in ROWS or field in ROWS


def test_every_reason_in_the_code_has_its_sentence() -> None:
    """Found where runs are ignored, skipped, dropped, failed or not scored."""
    written = {
        (reason, str(source.relative_to(ROOT)))
        for source in (ROOT / "otel_evals").rglob("*.py")
        for reason in reasons(source)
        if re.fullmatch(r"[A-Za-z_<>]+", reason)
    }
    assert len({reason for reason, _ in written}) > 35
    assert {(reason, where) for reason, where in written if not told(reason)} == set()


def test_the_engines_reasons_are_told_in_the_words_that_explain_uses() -> None:
    assert {reason: ROWS.get(reason) for reason in REASONS} == dict(REASONS)


def test_every_sampler_is_told() -> None:
    doc = (ROOT / "docs" / "sampling.md").read_text(encoding="utf-8")
    helpers = {
        "Chance",
        "Earlier",
        "Sampler",
        "SamplerFacts",
        "cascade_order",
        "parse",
        "credible_state",
        "is_sampled",
        "randomness",
        "share",
        "threshold",
    }
    for name in set(sampling.__all__) - helpers - {"recorded_probability"}:
        assert f"`{name}(" in doc, name


def example(language: str) -> str:
    doc = (ROOT / "docs" / "sampling.md").read_text(encoding="utf-8")
    (code,) = re.findall(rf"```{language}\n(.+?)```", doc, re.S)
    return str(code)


def test_the_example_in_yaml_is_a_configuration(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(example("yaml"))
    assert len(load_config(tmp_path / "config.yaml").rules) == 2


@pytest.mark.slow
def test_the_example_in_python_runs() -> None:
    """In a process of its own, since it configures one."""
    code = f"{example('python')}\nimport otel_evals\nprint(len(otel_evals.stats().rules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "3"
