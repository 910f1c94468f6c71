"""Public sets of answers and tool calls that people, or their authors, labelled right or wrong.

FOLDER holds checkouts under their own names: vectara/FaithBench, salesforce/factualNLG (SummEdits),
google/BEGIN-dataset, paul-rottger/hatecheck-data (as `hatecheck`), nyu-mll/BBQ, yizhongw/WikiQA-Selection,
oKatanaaa/ifeval and josejg/instruction_following_eval (IFEval's answers and its checks), NVIDIA/When2Call,
maszhongming/UniEval (QAGS), maximedb/full (FED's conversations), wangcunxiang/QA-Eval (EVOUNA),
microsoft/AgentRx and ag2ai/Agents_Failure_Attribution. A set whose files are missing is left out.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import importlib
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from otel_evals.model import Run
from otel_evals.testing import run_of

SHORT = 3_500
"""Characters of a source that is used."""


@dataclass(frozen=True)
class Example:
    """An answer or a tool call, with its label."""

    name: str
    """The set."""
    row: Mapping[str, Any]
    run: Run
    tools: Mapping[str, str] | None = None
    """Tools at hand, with their definitions."""
    agreed: bool = True
    """Whether the people who judged it agreed."""

    @property
    def right(self) -> bool:
        """The label."""
        return bool(self.row["right"])

    @property
    def digest(self) -> str:
        return digest(json.dumps(self.row, sort_keys=True))


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def held_out(digest: str) -> bool:
    """Return whether an item is in the half on which nothing was tried."""
    return digest >= "8"


def drawn(items: Iterable[Any], half: str, count: int, offset: int = 0) -> list[Any]:
    """Return items of a half in an order by their digests: half of them right, half wrong."""
    ours = sorted((i for i in items if held_out(i.digest) is (half == "held_out")), key=lambda i: i.digest)
    sides = ([i for i in ours if i.right is right] for right in (True, False))
    return [i for side in sides for i in side[offset // 2 : (offset + count) // 2]]


# --- answers from a source ---


def sourced(name: str, source: str, text: str, right: bool, question: str, *, agreed: bool = True) -> Example:
    row = {"source": source, "text": text, "right": right, "question": question}
    run = run_of({"input": question, "output": text, "context": [source]})
    return Example(name, row, run, agreed=agreed)


def faithbench(folder: Path) -> Iterator[Example]:
    """A text is wrong if any annotator marked an unwanted hallucination.

    They agree if two annotators marked one, or if all marks are benign.
    """
    question = "Summarize the document."
    for path in sorted((folder / "FaithBench/data_for_release").glob("batch_*.json")):
        for row in json.loads(path.read_text())["samples"]:
            marks = [(note["annotator_id"], label) for note in row["annotations"] for label in note["label"]]
            unwanted = {annotator for annotator, label in marks if label.startswith("Unwanted")}
            worst = {label.partition(".")[0] for _, label in marks} - {"Benign", "Consistent"}
            agreed = len(unwanted) > 1 if unwanted else not worst
            yield sourced("FaithBench", row["source"], row["summary"], not unwanted, question, agreed=agreed)


def summedits(folder: Path) -> Iterator[Example]:
    for path in sorted((folder / "factualNLG/data/summedits").glob("*.json")):
        for row in json.loads(path.read_text()):
            if len(row["doc"]) < SHORT:
                right = str(row["label"]) == "1"
                yield sourced("SummEdits", row["doc"], row["summary"], right, "Summarize the document.")


def begin(folder: Path) -> Iterator[Example]:
    """Generic answers, which state nothing, are left out."""
    for path in sorted((folder / "BEGIN-dataset").glob("*/begin_*.tsv")):
        for row in rows(path, delimiter="\t", quoting=csv.QUOTE_NONE):
            label, question = row["begin_label"], "What do you know about it?"
            if label in ("Fully attributable", "Not fully attributable"):
                yield sourced("BEGIN", row["knowledge"], row["response"], label.startswith("Fully"), question)


def qags(folder: Path) -> Iterator[Example]:
    """A right summary has no sentence that most annotators found inconsistent with the article."""
    for path in sorted((folder / "UniEval/reproduce/data/fact").glob("qags_*.json")):
        for row in json.loads(path.read_text()):
            if len(row["source"]) < SHORT:
                right, question = row["scores"]["consistency"] == 1, "Summarize the document."
                yield sourced("QAGS", row["source"], row["system_output"], right, question)


# --- answers with an expected one ---

ANSWERED = ("gpt35", "chatgpt", "gpt4", "newbing")


def evouna(folder: Path) -> Iterator[Example]:
    """Questions with one expected answer, and what chat models answered."""
    for path in sorted((folder / "QA-Eval/EVOUNA").glob("*.json")):
        for case in json.loads(path.read_text()):
            expected = case["golden_answer"]
            if case["improper"] or "/" in expected:
                continue
            for model in ANSWERED:
                text, right = case[f"answer_{model}"], case[f"judge_{model}"]
                if isinstance(right, bool) and 0 < len(text or "") < SHORT:
                    row = {"question": case["question"], "expected": expected, "text": text, "right": right}
                    given = {"input": case["question"], "output": text, "expected": expected}
                    yield Example("EVOUNA", row, run_of(given))


# --- conversations ---

FED = {
    "Coherent": "Throughout the conversation, the assistant is coherent and keeps up a good flow.",
    "Understanding": "The assistant understands what the user says.",
    "Informative": "The assistant is informative throughout the conversation.",
    "Inquisitive": "The assistant is inquisitive throughout the conversation.",
}
"""Questions that people answered about whole conversations with 0, 1 or 2, as criteria."""
AGREED, DENIED = 1.8, 1.2
"""Means of these answers that count as right and as wrong; what is between is left out."""


def fed(folder: Path) -> Iterator[Example]:
    path = folder / "full/data/fed_data.json"
    for row in json.loads(path.read_text()) if path.exists() else ():
        if "response" in row:
            continue  # people were asked about a single reply
        turns = _fed_turns(row["context"])
        for kind, criterion in FED.items():
            value = fmean(row["annotations"][kind])
            if not DENIED < value < AGREED:
                kept = {"turns": turns, "criterion": criterion, "right": value >= AGREED, "kind": kind}
                *history, asked, said = turns
                run = {"history": history, "input": asked["content"], "output": said["content"]}
                yield Example("FED", kept, run_of(run))


def _fed_turns(text: str) -> list[dict[str, str]]:
    """Return the turns up to the assistant's last one."""
    roles = {"User": "user", "System": "assistant"}
    parts = re.split(r"^(User|System): ?", text, flags=re.MULTILINE)[1:]
    turns = [
        {"role": roles[speaker], "content": said.strip()}
        for speaker, said in zip(parts[::2], parts[1::2], strict=True)
    ]
    return turns if turns[-1]["role"] == "assistant" else turns[:-1]


# --- words, and calls ---


def hatecheck(folder: Path) -> Iterator[Example]:
    for case in rows(folder / "hatecheck/test_suite_cases.csv"):
        text, question = case["test_case"], "Say what you think."
        right, kind = case["label_gold"] == "non-hateful", case["functionality"]
        row = {"text": text, "right": right, "question": question, "kind": kind}
        yield Example("HateCheck", row, run_of({"input": question, "output": text}))


def when2call(folder: Path) -> Iterator[Example]:
    """A call is wrong where the agent had to ask back, or had no tool for it."""
    path = folder / "When2Call/data/test/when2call_test_llm_judge.jsonl"
    for case in map(json.loads, path.read_text().splitlines() if path.exists() else ()):
        call = case["answers"].get("tool_call")
        if not call:
            continue
        call = json.loads(call) if isinstance(call, str) else call
        tools = {tool["name"]: json.dumps(tool) for tool in map(json.loads, case["tools"])}
        kind = case["correct_answer"]
        row = {"question": case["question"], "tools": tools, "call": call}
        row |= {"right": kind == "tool_call", "kind": kind}
        called = [{"name": call["name"], "arguments": call.get("arguments", {})}]
        yield Example(
            "When2Call", row, run_of({"input": case["question"], "output": "", "tools": called}), tools
        )


def bbq(folder: Path) -> Iterator[Example]:
    """A text is wrong if it names a stereotyped person without evidence, and right with evidence for it.

    Answers that are not known count as right without evidence.
    """
    for path in sorted((folder / "BBQ/data").glob("*.jsonl")):
        for case in map(json.loads, path.read_text().splitlines()):
            groups = case["additional_metadata"]["stereotyped_groups"]
            names = [f"ans{number}" for number in range(3)]
            stereotyped = [name for name in names if set(case["answer_info"][name]) & set(groups)]
            if case["question_polarity"] != "neg" or len(stereotyped) != 1:
                continue
            vague = case["context_condition"] == "ambig"
            said = {stereotyped[0]: False} if vague else {}
            said[f"ans{case['label']}"] = True
            for name, right in said.items():
                text = f"{case['context']} {case['question']} {case[name]}."
                row = {"text": text, "right": right, "question": "Tell me about it.", "kind": path.stem}
                yield Example("BBQ", row, run_of({"input": row["question"], "output": text}))


# --- questions, and what answers them ---


def wikiqa(folder: Path) -> Iterator[tuple[str, str, bool]]:
    """Yield questions with a sentence of the article that was found for them: does it answer?"""
    for path in sorted((folder / "WikiQA-Selection/data/raw").glob("WikiQA-dev.tsv")):
        for row in rows(path, delimiter="\t", quoting=csv.QUOTE_NONE):
            if row["Label"] in ("0", "1"):
                yield row["Question"], row["Sentence"], row["Label"] == "1"


def wikiqa_answers(folder: Path) -> Iterator[Example]:
    for question, sentence, right in wikiqa(folder):
        row = {"question": question, "text": sentence, "right": right}
        yield Example("WikiQA", row, run_of({"input": question, "output": sentence}))


def wikiqa_passages(folder: Path) -> Iterator[Example]:
    for question, sentence, right in wikiqa(folder):
        row = {"question": question, "source": sentence, "right": right}
        given = {"input": question, "output": "I looked it up.", "context": [sentence]}
        yield Example("WikiQAPassages", row, run_of(given))


def ifeval(folder: Path) -> Iterator[Example]:
    """An answer is right if it passes all the checks of its prompt; needs nltk, langdetect, immutabledict."""
    answers = folder / "ifeval/examples/example_en_responses.jsonl"
    if not answers.exists():
        return
    sys.path.append(str(folder / "instruction_following_eval"))
    checks = importlib.import_module("instruction_following_eval.instructions_registry").INSTRUCTION_DICT
    prompts = folder / "instruction_following_eval/instruction_following_eval/data/input_data.jsonl"
    known = {case["prompt"]: case for case in map(json.loads, prompts.read_text().splitlines())}
    for given in map(json.loads, answers.read_text().splitlines()):
        case = known.get(given["prompt"])
        if case is None or len(given["response"]) > SHORT:
            continue
        with contextlib.suppress(LookupError):  # a check that needs a model of sentences
            right = all(
                _passes(checks[name](name), options, given)
                for name, options in zip(case["instruction_id_list"], case["kwargs"], strict=True)
            )
            row = {"question": given["prompt"], "text": given["response"], "right": right}
            yield Example("IFEval", row, run_of({"input": row["question"], "output": row["text"]}))


def _passes(check: Any, options: Mapping[str, Any], given: Mapping[str, str]) -> bool:
    check.build_description(**{name: value for name, value in options.items() if value is not None})
    if "prompt" in (check.get_instruction_args() or {}):
        check.build_description(prompt=given["prompt"])
    return bool(given["response"].strip() and check.check_following(given["response"]))


def rows(path: Path, **form: Any) -> Sequence[Mapping[str, str]]:
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file, **form))


LOADERS = {
    "FaithBench": faithbench,
    "SummEdits": summedits,
    "BEGIN": begin,
    "QAGS": qags,
    "EVOUNA": evouna,
    "FED": fed,
    "HateCheck": hatecheck,
    "BBQ": bbq,
    "WikiQA": wikiqa_answers,
    "WikiQAPassages": wikiqa_passages,
    "IFEval": ifeval,
    "When2Call": when2call,
}
