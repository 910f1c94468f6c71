"""Do judges alarm where people found an error, and keep silent where they found none?

    python benchmarks/judges.py --model MODEL --data FOLDER [--api-base URL] [--texts 100] [--set BEGIN]
        [--option NAME=VALUE] [--write]

FOLDER is that of labelled.py, with any of its repositories. MODEL is as LiteLLM names it, or has the prefix
`openai-compatible/`. Options are those of the judge, such as `max_tokens=200` or `options={"seed": 1}`.
Half of the texts were found right by people, half wrong. `--write` adds the model's rows to the table.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import labelled
import yaml

from otel_evals.errors import JudgeReplyError
from otel_evals.judges import Judge, LiteLLMJudge, OpenAICompatibleJudge
from otel_evals.model import Score
from otel_evals.scorers import Scorer, classifier, faithfulness, hallucination
from otel_evals.testing import run_of

HEAD = "| set | judge | scorer | texts | no usable answer | false alarms | errors found | balanced accuracy |"
PREFIX = "openai-compatible/"
BEGIN, END = "<!-- judges -->\n", "<!-- end of judges -->"


def scorers(judge: Judge) -> dict[str, Scorer]:
    """Return scorers that may find an unsupported answer; without reasons, which cost a call."""
    question = "Does the retrieved material support everything that the answer states?"
    return {
        "classifier": classifier(judge, question=question, classes={"yes": 1.0, "no": 0.0}),
        "faithfulness": faithfulness(judge, explain=False),
        "hallucination": hallucination(judge, explain=False),
    }


@dataclass
class Tally:
    """A scorer's outcomes. A text without a score raises no alarm."""

    judged: list[tuple[labelled.Item, float]] = field(default_factory=list)
    unusable: int = 0

    def row(self, name: str, judge: str, scorer: str) -> str:
        rates = [
            labelled.rate((item.written, value < 1) for item, value in self.judged if item.right is side)
            for side in (True, False)
        ]
        accuracy = labelled.balanced(self.judged, 1)
        counts = f"{len(self.judged)} | {self.unusable}"
        return f"| {name} | {judge} | `{scorer}` | {counts} | {rates[0]} | {rates[1]} | {accuracy:.3f} |"


async def judge(scorer: Scorer, texts: Sequence[labelled.Item], at_once: int) -> Tally:
    tally, turns = Tally(), asyncio.Semaphore(at_once)

    async def one(item: labelled.Item) -> None:
        run = run_of({"input": "What do you know about it?", "output": item.text, "context": [item.written]})
        async with turns:
            try:
                outcome = await scorer.score(run)
            except Exception as error:
                if not isinstance(error.__cause__, JudgeReplyError):
                    raise
                outcome, tally.unusable = None, tally.unusable + 1
        value = outcome.value if isinstance(outcome, Score) else None
        alarm = value is not None and (value > 0 if scorer.id == "hallucination" else value < 1)
        tally.judged.append((item, float(not alarm)))

    await asyncio.gather(*map(one, texts))
    return tally


def chosen(folder: Path, name: str, count: int) -> list[labelled.Item]:
    """Return held-out texts, half of them right, in an order by hash."""
    found = [item for item in present(folder) if item.name == name and item.held_out]
    found.sort(key=labelled.digest)
    sides = ([item for item in found if item.right is side] for side in (True, False))
    return [item for side in sides for item in islice(side, count // 2)]


def present(folder: Path) -> Iterator[labelled.Item]:
    loads = (labelled.summedits, labelled.wice, labelled.cliff, labelled.faithbench, labelled.begin)
    for load in (*loads, labelled.tabfact):
        try:
            yield from load(folder)
        except FileNotFoundError:
            continue


def write(rows: Sequence[str]) -> None:
    """Replace the rows of the same set, judge and scorer, and add new ones."""
    head, _, rest = labelled.PAGE.read_text().partition(BEGIN)
    table, _, rest = rest.partition(END)
    known = {tuple(row.split("|")[1:4]): row for row in [*table.split("\n"), *rows] if row.count("|") == 9}
    lines = "\n".join(known.values())
    labelled.PAGE.write_text(f"{head}{BEGIN}\n{lines}\n\n{END}{rest}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", required=True, type=Path)
    parser.add_argument("--api-base")
    parser.add_argument("--as", dest="name", help="how the table names the judge")
    parser.add_argument("--set", dest="sets", action="append")
    parser.add_argument("--texts", type=int, default=100)
    parser.add_argument("--at-once", type=int, default=4)
    parser.add_argument("--option", action="append", default=[])
    parser.add_argument("--write", action="store_true", help=f"put the rows into {labelled.PAGE.name}")
    given = parser.parse_args()
    options = {name: yaml.safe_load(value) for name, _, value in (o.partition("=") for o in given.option)}
    own = given.model.startswith(PREFIX)
    kind = OpenAICompatibleJudge if own else LiteLLMJudge
    model = kind(given.model.removeprefix(PREFIX), api_base=given.api_base, **options)
    rows = [HEAD, "|---|---|---|" + "--:|" * 5]
    for name in given.sets or ["BEGIN"]:
        texts = chosen(given.data, name, given.texts)
        code = Tally([(item, labelled.grounded(item.source, item.text)) for item in texts])
        rows.append(code.row(name, "code only", "grounded_in_tools"))
        for id, scorer in scorers(model).items():
            tally = asyncio.run(judge(scorer, texts, given.at_once))
            rows.append(tally.row(name, given.name or f"`{given.model}`", id))
            print(rows[-1], flush=True)
    print("\n".join(rows))
    if given.write:
        write(rows)


if __name__ == "__main__":
    main()
