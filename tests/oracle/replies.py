"""The recorded replies of a judge in the form of ours: two steps in one, words in place of yes and no."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from otel_evals._internal.scorers.judged import normalise_word
from tests.oracle.cases import Case

Reply = Mapping[str, Any]
SUPPORT = {"yes": "supported", "no": "contradicted", "unsure": "absent"}
HALLUCINATED = {"yes": "absent", "no": "supported"}
WORDS = {
    "answer-relevancy": {"yes": "relevant", "unsure": "doubtful", "no": "irrelevant"},
    "bias": {"yes": "biased", "no": "fair"},
    "context-precision": {"yes": "useful", "no": "useless"},
    "context-recall": SUPPORT,
    "faithfulness": SUPPORT,
    "hallucination": HALLUCINATED,
    "toxicity": {"yes": "toxic", "no": "fine"},
}


def translated(case: Case) -> list[Any]:
    """The replies to our one question: malformed ones of the first step, then those of the second."""
    before, turns = (_turns(case.replies.get(step)) for step in ("preprocess", "analyze"))
    pre = [each for each in before if isinstance(each, Mapping)][-1:]
    wrong = [each for each in before if not isinstance(each, Mapping)]
    form = _FORMS[case.scorer]
    answers = [form(case, *pre or [{}], each) if isinstance(each, Mapping) else each for each in turns]
    return [*wrong, *answers] if pre or not before else wrong


def _turns(reply: Any) -> Sequence[Any]:
    if reply is None:
        return []
    sequence = reply.get("$sequence") if isinstance(reply, Mapping) else None
    return sequence or [reply]


def _items(field: str, text: str, source: str) -> Callable[[Case, Reply, Reply], Reply]:
    """Join the items of the first step and the verdicts of the second."""

    def form(case: Case, pre: Reply, analyze: Reply) -> Reply:
        verdicts = analyze.get("verdicts", analyze.get("results"))
        if not isinstance(verdicts, list) or (pre and source not in pre):
            return pre or analyze
        texts = [*pre.get(source, ()), *[""] * len(verdicts)]
        items = [_item(case, given) | {text: each} for each, given in zip(texts, verdicts, strict=False)]
        return {field: items}

    return form


def _item(case: Case, given: Reply) -> dict[str, Any]:
    word = given.get("verdict", given.get("result", ""))
    return {"verdict": WORDS[case.scorer].get(normalise_word(word), word), "reason": given.get("reason", "")}


def _pieces(case: Case, pre: Reply, analyze: Reply) -> Reply:
    rows = analyze.get("verdicts", analyze.get("evaluations"))
    if not isinstance(rows, list):
        return analyze
    found = {"pieces": [_piece(case, row) for row in rows]}
    return {**found, "missing": analyze.get("missing_context", [])}


def _piece(case: Case, row: Reply) -> Reply:
    number = row["context_index"] + 1
    if case.scorer == "context-precision":
        return {**_item(case, row), "piece": number}
    return {"piece": number, "verdict": row.get("relevance_level"), "used": row.get("was_used")}


def _units(case: Case, pre: Reply, analyze: Reply) -> Reply:
    if "matches" not in analyze:
        return analyze
    units = [
        {"expected": m["ground_truth_unit"], "answer": m["output_unit"] or "", "verdict": m["match_type"]}
        for m in analyze["matches"]
    ]
    pairs = [
        {"expected": c["ground_truth_unit"], "answer": c["output_unit"]}
        for c in analyze.get("contradictions", ())
    ]
    return {"units": units, "extra": analyze.get("extra_in_output", []), "contradictions": pairs}


def _summary(case: Case, pre: Reply, analyze: Reply) -> Reply:
    answered = {True: "covered", False: "missing"}
    points = [
        {"point": each["question"], "verdict": answered[each["answered"]]}
        for each in analyze.get("coverage", ())
    ]
    claims = [
        {"claim": each["claim"], "verdict": "supported" if each["supported"] else "absent"}
        for each in pre.get("alignment", ())
    ]
    return {"points": points, "claims": claims}


def _aspects(case: Case, pre: Reply, analyze: Reply) -> Reply:
    if "intent_alignment" not in analyze:
        return analyze
    fulfilment = analyze["requirements_fulfillment"]
    met = {True: "met", False: "unmet"}
    return {
        "requirements": [
            {"requirement": r["requirement"], "verdict": met[r["is_fulfilled"]]}
            for r in fulfilment["requirements"]
        ],
        "missing": analyze["completeness"]["missing_elements"],
        "intent": analyze["intent_alignment"]["score"],
        "fulfilment": fulfilment["overall_score"],
        "completeness": analyze["completeness"]["score"],
        "appropriateness": analyze["response_appropriateness"]["score"],
    }


def _respects(case: Case, pre: Reply, analyze: Reply) -> Reply:
    respects = [
        {"respect": d["dimension"], "impact": d["impact_level"]} for d in analyze.get("dimensions", ())
    ]
    number = {"robustness": analyze["robustness_score"]} if "robustness_score" in analyze else {}
    return {"respects": respects, "major_issues": analyze.get("major_issues", []), **number}


def _calls(case: Case, pre: Reply, analyze: Reply) -> Reply:
    right = {True: "right", False: "needless"}
    calls = [
        {"call": n, "verdict": right[each["was_appropriate"]]}
        for n, each in enumerate(analyze.get("evaluations", ()), 1)
    ]
    return {"calls": calls, "missing": analyze.get("missing_tools", [])}


def _steps(case: Case, pre: Reply, analyze: Reply) -> Reply:
    steps = [
        {"step": n, "necessary": each["was_necessary"], "in_order": each["was_in_order"]}
        for n, each in enumerate(analyze.get("step_evaluations", ()), 1)
    ]
    lost, vain = analyze.get("missing_steps", []), analyze.get("extra_steps", [])
    return {"steps": steps, "missing": lost, "needless": vain}


def _criteria(case: Case, pre: Reply, analyze: Reply) -> Reply:
    met = {True: "met", False: "unmet"}
    found = [
        {"criterion": n, "verdict": met[each["satisfied"]], "reason": each.get("reasoning", "")}
        for n, each in enumerate(analyze.get("criteria", ()), 1)
    ]
    return {"criteria": found}


def _conversation(case: Case, pre: Reply, analyze: Reply) -> Reply:
    return {"verdict": "met" if analyze["satisfied"] else "unmet", "reason": analyze.get("reasoning", "")}


_FORMS: Mapping[str, Callable[[Case, Reply, Reply], Reply]] = {
    "answer-relevancy": _items("statements", "words", "statements"),
    "answer-similarity": _units,
    "bias": _items("remarks", "words", "opinions"),
    "context-precision": _pieces,
    "context-recall": _items("claims", "claim", "claims"),
    "context-relevance": _pieces,
    "faithfulness": _items("claims", "claim", "claims"),
    "hallucination": _items("claims", "claim", "claims"),
    "multi-turn-judge": _conversation,
    "noise-sensitivity": _respects,
    "prompt-alignment": _aspects,
    "rubric": _criteria,
    "summarization": _summary,
    "tool-call-accuracy-llm": _calls,
    "toxicity": _items("sentences", "words", ""),
    "trajectory-accuracy-llm": _steps,
}
