"""`otel-evals runs`: prints the runs in OTLP files, or the scored runs in files of the jsonl destination."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Annotated, Any

import typer
from msgspec.structs import asdict

from otel_evals._internal.cli.scored_records import ScoredRecord, scored_records
from otel_evals._internal.cli.terminal import FILES_HELP, echo, exit_on, json_text, report_skipped
from otel_evals._internal.deliver.jsonl import read_jsonl
from otel_evals._internal.judges.fence import visible
from otel_evals._internal.model import Run, ToolCall
from otel_evals._internal.model.convention import load_conventions
from otel_evals._internal.otlp.files import open_file, read_traces
from otel_evals._internal.read.runs import read_runs
from otel_evals._internal.redaction.redactor import redacted
from otel_evals._internal.util.plain import counted, read_json


def runs(
    files: Annotated[list[str], typer.Argument(help=f"Scores of jsonl, or {FILES_HELP}")],
    plain: Annotated[bool, typer.Option("--json/--tree", help="Print JSON lines, or trees.")] = False,
) -> None:
    """Print the runs in OTLP files, or the scored runs of jsonl; without secrets."""
    show = _print_json if plain else _print_trees
    try:
        with exit_on(command="runs"):
            if all(map(_has_scores, files)):
                if plain:
                    records = (record for path in files for record in read_jsonl(path))
                    sys.stdout.writelines(json_text(record) + "\n" for record in records)
                else:
                    _print_trees(scored_records(files, command="runs"), _scored_tree)
                return
            traces = read_traces(files, skipped=report_skipped)
            count = show(map(redacted, read_runs(traces, load_conventions())))
    # The reader went away, as `head` does: no error, and no second one while Python closes stdout.
    except BrokenPipeError:
        sys.stderr.close()
        raise typer.Exit(0) from None
    if not count:
        problem = "no run found: there is no span of an agent or a model"
        echo(f"otel-evals runs: {', '.join(files)}: {problem}", err=True)
        raise typer.Exit(1)


def _has_scores(path: str) -> bool:
    """Return True for a file whose first line is a scored run."""
    try:
        with open_file(path) as lines:
            return path != "-" and "evaluations" in read_json(lines.readline())
    except Exception:  # OTLP's reader names the problem
        return False


def _print_json(found: Iterable[Run]) -> int:
    count = 0
    for count, run in enumerate(found, 1):  # noqa: B007 - the count is returned
        sys.stdout.write(json_text(run_as_json(run), default=str) + "\n")
    return count


_FIELDS = """trace_id trace_ids root_span_id root_kind agent_name agent_version prompt_version tenant
conversation_id user_id input output error error_type"""
_CALL = "id name arguments result error error_type status span_id source"
_ATTEMPT = "status result error error_type span_id"


def run_as_json(run: Run) -> dict[str, Any]:
    """Return a run as one JSON object, without its operations."""
    return {
        **_picked(run, _FIELDS),
        "tool_calls": [_call_as_json(call) for call in run.tool_calls],
        "documents": [_picked(document, "id content score") for document in run.documents],
        **_picked(run, "models provider finish_reasons waiting"),
        "usage": asdict(run.usage),
        **_picked(run, "start_time duration convention"),
        "availability": dict(run.availability),
    }


def _call_as_json(call: ToolCall) -> dict[str, Any]:
    attempts = {"attempts": [_picked(each, _ATTEMPT) for each in call.attempts]} if call.attempts else {}
    return _picked(call, _CALL) | attempts


def _picked(record: Any, names: str) -> dict[str, Any]:
    return {name: getattr(record, name) for name in names.split()}


# --- trees ---


def _tree(run: Run) -> Any:
    from rich.tree import Tree

    seconds = "" if run.duration is None else f"  {run.duration:.2f} s"
    name = _short(run.agent_name or run.root_kind)
    tree = Tree(f"[bold]{name}[/]  [dim]{run.trace_id}{seconds}  {run.convention}[/]")
    tree.add(f"[cyan]user[/] {_shown(run, 'input')}")
    for call in run.tool_calls:
        ended = call.error if call.status == "error" else call.result
        color = "red" if call.status == "error" else "yellow"
        tree.add(f"[{color}]{_short(call.name)}[/] {_short(call.arguments)} → {_short(ended)}")
    for document in run.documents:
        tree.add(f"[blue]document[/] {_short(document.content or document.id)}")
    tree.add(f"[green]answer[/] {_shown(run, 'output')}")
    if run.error:
        tree.add(f"[red]error[/] {_short(run.error)}")
    tokens = f"{run.usage.input_tokens} + {run.usage.output_tokens} tokens"
    tree.add(f"[dim]{_short(', '.join(run.models) or 'model not recorded')}  {tokens}[/]")
    return tree


def _print_trees(found: Iterable[Any], tree: Callable[[Any], Any] = _tree) -> int:
    from rich.console import Console

    console = Console(highlight=False)
    count = 0
    for count, run in enumerate(found, 1):  # noqa: B007 - the count is printed at the end
        console.print(tree(run))
    console.print(counted(count, "run"))
    return count


def _scored_tree(record: ScoredRecord) -> Any:
    from rich.tree import Tree

    tree = Tree(f"[bold]{_short(record.agent or 'run')}[/]  [dim]{_short(record.trace_id)}[/]")
    tree.add(f"[cyan]user[/] {_short(record.input or '(not recorded)')}")
    tree.add(f"[green]answer[/] {_short(record.output or '(not recorded)')}")
    for each in record.evaluations:
        no_value = f"{each.status}: {each.reason}"
        value = no_value if each.value is None else f"{each.value:.3f} {each.label or ''}"
        why = f"  {_short(each.explanation)}" if each.explanation else ""
        tree.add(f"[magenta]{_short(each.rule or each.scorer)}[/] {_short(value)}{why}")
    return tree


def _shown(run: Run, name: str) -> str:
    value = getattr(run, name)
    return f"[dim]({run.availability.get(name, 'not_recorded')})[/]" if value is None else _short(value)


def _short(value: Any, width: int = 100) -> str:
    from rich.markup import escape

    text = value if isinstance(value, str) else json_text(value, default=str)
    line = visible(" ".join(text[: 8 * width].split()))
    return escape(line if len(line) <= width else line[: width - 1] + "…")
