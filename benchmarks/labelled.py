"""Do code-only scorers alarm where people found an error, and keep silent where they found none?

    python benchmarks/labelled.py texts FOLDER [--rivals] [--write]
    python benchmarks/labelled.py agents FOLDER [--write]

FOLDER holds checkouts of the public repositories of the labels, each under its own name:
salesforce/factualNLG (SummEdits), ryokamoi/wice, Liyan06/AggreFact (CLIFF), vectara/FaithBench,
google/BEGIN-dataset, wenhuchen/Table-Fact-Checking (TabFact) and microsoft/AgentRx.

`texts` gives each source to the scorer as the result of a tool, and the text as the answer; with `--rivals`,
it compares the other checkers, which must be installed. `agents` scores the answers of conversations.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import re
import tempfile
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import airline_study

from otel_evals.model import NotScored, OperationKind, Run, Score, ToolCall
from otel_evals.scorers import grounded_in_tools
from otel_evals.statistics import Clusters, Sums, estimate

SOME = 300
PAGE = Path(__file__).parent.parent / "docs" / "grounded_study.md"
Value = Callable[[str, str], float]
"""A checker: source and text to a value below 1 for an alarm."""


def held_out(key: object) -> bool:
    """All texts from a source, and all answers to a task, are in the same half."""
    return hashlib.sha256(str(key).encode()).digest()[0] % 2 == 1


@dataclass(frozen=True)
class Item:
    """A text that people judged."""

    name: str
    held_out: bool
    source: Any
    text: str
    right: bool

    @property
    def written(self) -> str:
        return self.source if isinstance(self.source, str) else json.dumps(self.source)


# --- texts ---


def items(folder: Path) -> Iterator[Item]:
    for load in (summedits, wice, cliff, faithbench, begin, tabfact):
        yield from load(folder)


def summedits(folder: Path) -> Iterator[Item]:
    for path in sorted((folder / "factualNLG/data/summedits").glob("summedits_*.json")):
        for row in json.loads(path.read_text()):
            yield Item(
                "SummEdits", held_out(row["doc"]), row["doc"], row["summary"], str(row["label"]) == "1"
            )


def wice(folder: Path) -> Iterator[Item]:
    """The first row of each claim; others give it with further text. Supported in part is not supported."""
    for part in ("dev", "test"):
        path = folder / f"wice/code_and_resources/entailment_inputs/oracle_chunks/claim/{part}.jsonl"
        rows = {row["claim"]: row for row in reversed([*map(json.loads, path.read_text().splitlines())])}
        for row in rows.values():
            right = row["label"] == "supported"
            yield Item("WiCE", part == "test", "\n".join(row["evidence"]), row["claim"], right)


def cliff(folder: Path) -> Iterator[Item]:
    csv.field_size_limit(10**8)
    path = folder / "AggreFact/data/error_type_mapping/CLIFF_error_types.csv"
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            name = {"cnndm": "CLIFF, CNN/DailyMail", "xsum": "CLIFF, XSum"}[row["origin"]]
            right = row["error_type"].strip("[]'") in ("", "correct")
            yield Item(name, row["cut"] == "test", row["doc"], row["summ"], right)


def faithbench(folder: Path) -> Iterator[Item]:
    """A text is wrong if any annotator marked an unwanted hallucination."""
    for path in sorted((folder / "FaithBench/data_for_release").glob("batch_*.json")):
        for row in json.loads(path.read_text())["samples"]:
            labels = [label for note in row["annotations"] for label in note["label"]]
            right = not any(label.startswith("Unwanted") for label in labels)
            yield Item("FaithBench", held_out(row["source"]), row["source"], row["summary"], right)


def begin(folder: Path) -> Iterator[Item]:
    """Generic answers, which state nothing, are left out."""
    for path in sorted((folder / "BEGIN-dataset").glob("*/begin_*.tsv")):
        with path.open(newline="") as file:
            for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
                if (label := row["begin_label"]) in ("Fully attributable", "Not fully attributable"):
                    known = row["knowledge"]
                    yield Item("BEGIN", held_out(known), known, row["response"], label.startswith("Fully"))


def tabfact(folder: Path) -> Iterator[Item]:
    """The tables of the small test set, as lists of objects; its statements are in lower case."""
    folder /= "Table-Fact-Checking"
    examples = json.loads((folder / "tokenized_data/test_examples.json").read_text())
    for name in json.loads((folder / "data/small_test_id.json").read_text()):
        statements, labels, title = examples[name]
        head, *lines = (
            line.split("#") for line in (folder / f"data/all_csv/{name}").read_text().splitlines()
        )
        table = {"title": title, "rows": [dict(zip(head, line, strict=False)) for line in lines]}
        for statement, label in zip(statements, labels, strict=True):
            yield Item("TabFact", held_out(name), table, statement, label == 1)


def grounded(source: Any, text: str) -> float:
    call = ToolCall(name="read", result=source, status="ok")
    run = Run(
        trace_id="0" * 32,
        root_span_id="0" * 16,
        root_kind=OperationKind.AGENT,
        output=text,
        tool_calls=(call,),
    )
    outcome = grounded_in_tools()(run)
    return outcome.value if isinstance(outcome, Score) else 1.0


# --- rivals ---


def opengate(source: str, text: str) -> float:
    from opengate_grounding import check_grounding

    return float(check_grounding(answer=text, context=source).grounded)


def dokis(source: str, text: str) -> float:
    import dokis as library

    chunks = [library.Chunk(content=source, source_url="https://example.com/source")]
    return float(library.audit("", chunks, text).passed)


def ragground(source: str, text: str) -> float:
    """Without its model, whose weights are not in the package."""
    return float(_ragground().verify(context=source, answer=text).is_grounded)


@cache
def _ragground() -> Any:
    from ragground.app import RAGGround

    return RAGGround(name="nli-deberta-v3-xsmall")


def groundrails(source: str, text: str) -> float:
    """The lexical checks, sentence by sentence, without its models."""
    library = _groundrails()
    matches = [library.ground(s, [source], semantic=False, ignore_language=True) for s in sentences(text)]
    return min((float(match.match_type not in ("none", "contradicted")) for match in matches), default=1.0)


@cache
def _groundrails() -> Any:
    import groundrails as library

    library.init(models="none", wordnet=False, home=tempfile.mkdtemp())
    return library


def wordllama(source: str, text: str) -> float:
    """The lowest similarity of a sentence and the source's nearest one."""
    claims, known = sentences(text), sentences(source)
    if not claims or not known:
        return 1.0
    model = _wordllama()
    return float((model.embed(claims, norm=True) @ model.embed(known, norm=True).T).max(axis=1).min())


@cache
def _wordllama() -> Any:
    import wordllama as library

    return library.WordLlama.load(cache_dir=Path(library.__file__).parent)


def sentences(text: str) -> list[str]:
    return [sentence for sentence in re.split(r"(?<=[.!?])\s+|\n+", text) if len(sentence) > 2]


RIVALS: dict[str, Value] = {
    "opengate-grounding": opengate,
    "ragground": ragground,
    "dokis": dokis,
    "groundrails": groundrails,
    "wordllama": wordllama,
}

# --- statistics ---


def rate(alarms: Iterable[tuple[str, bool]]) -> str:
    """The share of alarms and its 95% interval; each source is a cluster."""
    rows = [(source, float(alarm), 1.0) for source, alarm in alarms]
    sums = Sums.of_runs((value, weight) for _, value, weight in rows)
    repeated = len({source for source, _, _ in rows}) < len(rows)
    found = estimate(sums, clusters=Clusters.of_runs(rows) if repeated else None)
    if found.mean is None or found.interval is None:
        return "-"
    return f"{found.mean:.1%} ({100 * found.interval.low:.0f}-{100 * found.interval.high:.0f})"


def auc(right: Sequence[float], wrong: Sequence[float]) -> float:
    """The chance that a right text scores above a wrong one; ties count half."""
    wrong = sorted(wrong)
    wins = sum(bisect_left(wrong, value) + bisect_right(wrong, value) for value in right) / 2
    return wins / len(right) / len(wrong)


def balanced(judged: Sequence[tuple[Item, float]], below: float) -> float:
    shares = [[v < below for i, v in judged if i.right is side] for side in (True, False)]
    false, found = (sum(alarms) / len(alarms) for alarms in shares)
    return (1 - false + found) / 2


def judge_all(part: Sequence[Item], value: Value) -> list[tuple[Item, float]]:
    return [(item, value(item.source if value is grounded else item.written, item.text)) for item in part]


def texts(folder: Path, rivals: bool) -> str:
    halves: defaultdict[str, tuple[list[Item], list[Item]]] = defaultdict(lambda: ([], []))
    for item in items(folder):
        halves[item.name][item.held_out].append(item)
    return rivals_table(halves) if rivals else own_table(halves)


def digest(item: Item) -> bytes:
    return hashlib.sha256((item.written + item.text).encode()).digest()


def own_table(halves: Mapping[str, Sequence[Sequence[Item]]]) -> str:
    """The rates of the held-out half next to the development half."""
    rates = "false alarms | in development | errors found | in development"
    lines = [f"| set | texts held out | {rates} | balanced accuracy | AUC |", "|---|" + "--:|" * 7]
    everything: list[tuple[Item, float]] = []
    for name, parts in halves.items():
        seen, judged = (judge_all(part, grounded) for part in parts)
        everything += judged
        lines.append(own_row(name, judged, seen))
    return "\n".join([*lines, own_row("**all**", everything, [])])


def own_row(name: str, judged: Sequence[tuple[Item, float]], seen: Sequence[tuple[Item, float]]) -> str:
    sides = [[(i.written, v) for i, v in judged if i.right is side] for side in (True, False)]
    before = [[v < 1 for i, v in seen if i.right is side] for side in (True, False)]
    rates = " | ".join(
        f"{rate((source, v < 1) for source, v in side)} | {f'{sum(was) / len(was):.1%}' if was else ''}"
        for side, was in zip(sides, before, strict=True)
    )
    area = auc(*([v for _, v in side] for side in sides))
    return f"| {name} | {len(judged)} | {rates} | {balanced(judged, 1):.3f} | {area:.2f} |"


def rivals_table(halves: Mapping[str, Sequence[Sequence[Item]]]) -> str:
    """Balanced accuracy on some held-out texts; similarities alarm below the best bound of the other half."""
    names = ["grounded_in_tools", *RIVALS]
    lines = ["| set | " + " | ".join(f"`{name}`" for name in names) + " |", "|---|" + "--:|" * len(names)]
    for name, parts in halves.items():
        cells = []
        development, rest = (sorted(part, key=digest)[:SOME] for part in parts)
        for value in (grounded, *RIVALS.values()):
            below = 1.0
            if value is wordllama:
                known = judge_all(development, value)
                below = max({v for _, v in known}, key=lambda bound: balanced(known, bound))
            cells.append(f"{balanced(judge_all(rest, value), below):.3f}")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    return "\n".join(lines)


# --- agents ---


def retail(folder: Path, part: str = "full") -> Iterator[tuple[dict[str, Any], list[tuple[int, Run]]]]:
    """The conversations of AgentRx' retail set; each answer with the number of its step."""
    for row in json.loads((folder / f"AgentRx/data/tau_retail/tau_dataset_{part}.json").read_text()):
        first, *rest = row["traj"]
        answers = []
        for start, end in airline_study.spans(rest):
            last = max(
                n for n in range(start, end) if rest[n]["role"] == "assistant" and rest[n].get("content")
            )
            run = airline_study.run(rest[:start], rest[start:end], first["content"])
            answers.append((rest[last]["index"], run))
        yield row, answers


def agents(folder: Path) -> str:
    scorer, lines = (
        grounded_in_tools(),
        ["| half | outcome | answers checked | alarms |", "|---|---|--:|--:|"],
    )
    alarms: defaultdict[tuple[bool, bool], list[tuple[str, bool]]] = defaultdict(list)
    for row, answers in retail(folder):
        for _, run in answers:
            outcome = scorer(run)
            if not isinstance(outcome, NotScored):
                key = held_out(row["task_id"]), row["reward"] == 1.0
                alarms[key].append((str(row["task_id"]), outcome.value < 1))
    for (held, good), found in sorted(alarms.items()):
        half, outcome = ("development", "held out")[held], ("failed", "successful")[good]
        lines.append(f"| {half} | {outcome} | {len(found)} | {sum(a for _, a in found)}: {rate(found)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["texts", "agents"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rivals", action="store_true")
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE.name}")
    options = parser.parse_args()
    name = "rivals" if options.rivals else options.what
    made = agents(options.folder) if name == "agents" else texts(options.folder, options.rivals)
    print(made)
    if options.write:
        put(name, made)


def put(name: str, table: str) -> None:
    """Put a table into the page."""
    head, mark, rest = PAGE.read_text().partition(f"<!-- {name} -->\n")
    end = f"<!-- end of {name} -->"
    PAGE.write_text(f"{head}{mark}\n{table}\n\n{end}{rest.partition(end)[2]}")


if __name__ == "__main__":
    main()
