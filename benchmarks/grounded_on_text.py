"""Does grounded_in_tools alarm where people found an error, and keep silent where they found none?

    OTEL_EVALS_LABELLED=FOLDER python benchmarks/grounded_on_text.py [--part development] [--write]

FOLDER holds public sets of texts that people judged against their source, as their authors publish them:

- summedits_*.json: SummEdits (github.com/salesforce/factualNLG, data/summedits), Apache 2.0
- wice_dev.jsonl, wice_test.jsonl: WiCE (github.com/ryokamoi/wice, entailment_inputs/oracle_chunks/claim,
  dev.jsonl and test.jsonl), ODC-BY
- CLIFF_error_types.csv: CLIFF (github.com/ShuyangCao/cliff_summ, Apache 2.0) as gathered by AggreFact
  (github.com/Liyan06/AggreFact, data/error_type_mapping)

The source is given to the scorer as the result of a tool, the text as the answer. Prints the table of
docs/grounded_study.md for the held-out part, or puts it there.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import os
import time
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from otel_evals.model import OperationKind, Run, Score, ToolCall
from otel_evals.scorers import grounded_in_tools

PAGE = Path(__file__).parent.parent / "docs" / "grounded_study.md"
BEGIN, END = "<!-- table -->\n", "<!-- end of table -->"
HEAD = (
    "| set | texts | without error | false alarms | errors found | balanced accuracy | AUC |\n"
    "|---|--:|--:|--:|--:|--:|--:|"
)


@dataclass(frozen=True)
class Item:
    """A text that people judged."""

    name: str
    held_out: bool
    source: str
    text: str
    right: bool


@dataclass(frozen=True)
class Judged:
    """What people and the scorer say of a text; one that is not scored raises no alarm."""

    right: bool
    value: float


def items(folder: Path) -> Iterator[Item]:
    yield from summedits(folder)
    yield from wice(folder)
    yield from cliff(folder)


def summedits(folder: Path) -> Iterator[Item]:
    """All texts of one source are in the same part, drawn by its hash."""
    for path in sorted(folder.glob("summedits_*.json")):
        for row in json.loads(path.read_text()):
            held_out = hashlib.sha256(row["doc"].encode()).digest()[0] % 2 == 1
            yield Item("SummEdits", held_out, row["doc"], row["summary"], str(row["label"]) == "1")


def wice(folder: Path) -> Iterator[Item]:
    """The first row of each claim; others give it with further text. Supported in part is not supported."""
    for part in ("dev", "test"):
        seen = set()
        for row in map(json.loads, (folder / f"wice_{part}.jsonl").read_text().splitlines()):
            if row["claim"] not in seen:
                seen.add(row["claim"])
                right = row["label"] == "supported"
                yield Item("WiCE", part == "test", "\n".join(row["evidence"]), row["claim"], right)


def cliff(folder: Path) -> Iterator[Item]:
    csv.field_size_limit(10**8)
    with (folder / "CLIFF_error_types.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            name = {"cnndm": "CLIFF, CNN/DailyMail", "xsum": "CLIFF, XSum"}[row["origin"]]
            right = row["error_type"].strip("[]'") in ("", "correct")
            yield Item(name, row["cut"] == "test", row["doc"], row["summ"], right)


def judge(item: Item) -> Judged:
    outcome = grounded_in_tools()(
        Run(
            trace_id="0" * 32,
            root_span_id="0" * 16,
            root_kind=OperationKind.AGENT,
            output=item.text,
            tool_calls=(ToolCall(name="read", result=item.source, status="ok"),),
        )
    )
    return Judged(item.right, outcome.value if isinstance(outcome, Score) else 1.0)


def row(name: str, judged: Sequence[Judged]) -> str:
    right = [j.value for j in judged if j.right]
    wrong = sorted(j.value for j in judged if not j.right)
    false = sum(value < 1 for value in right) / len(right)
    found = sum(value < 1 for value in wrong) / len(wrong)
    # The chance that a right text scores above a wrong one; ties count half.
    wins = sum(bisect_left(wrong, v) + bisect_right(wrong, v) for v in right) / 2
    rates = (
        f"{false:.1%} | {found:.1%} | {(1 - false + found) / 2:.3f} | {wins / len(right) / len(wrong):.2f}"
    )
    return f"| {name} | {len(judged)} | {len(right)} | {rates} |"


def table(part: str, folder: Path) -> str:
    found: defaultdict[str, list[Judged]] = defaultdict(list)
    began, n = time.process_time(), 0
    for item in items(folder):
        if item.held_out is (part == "held-out"):
            found[item.name].append(judge(item))
            n += 1
    print(f"{(time.process_time() - began) / n * 1000:.1f} ms for a text, reading the files included")
    rows = [row(name, judged) for name, judged in found.items()]
    return "\n".join([HEAD, *rows, row("**all**", [j for judged in found.values() for j in judged])])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", choices=["development", "held-out"], default="held-out")
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE.name}")
    options = parser.parse_args()
    made = table(options.part, Path(os.environ["OTEL_EVALS_LABELLED"]))
    print(made)
    if options.write:
        head, _, rest = PAGE.read_text().partition(BEGIN)
        PAGE.write_text(f"{head}{BEGIN}\n{made}\n\n{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    main()
