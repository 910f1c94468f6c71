"""Checks the facts of an answer against the evidence of the agent. Code only, no judge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from otel_evals._internal.model import Availability, Message, NotScored, Part, Run, Score, StepRecord
from otel_evals._internal.model.convention import content_setting
from otel_evals._internal.scorers.kit.missing import missing
from otel_evals._internal.scorers.kit.scorer import FunctionScorer, scorer
from otel_evals._internal.scorers.text.claim import Claim
from otel_evals._internal.scorers.text.claims import claims_in, fold, list_items
from otel_evals._internal.scorers.text.contradiction import Alternatives
from otel_evals._internal.scorers.text.evidence import Evidence
from otel_evals._internal.scorers.text.lookup import check
from otel_evals._internal.util.plain import counted

_MAX_NAMED = 8
_MAX_ANSWER = 50_000
_MAX_CLAIMS = 1_000
_MAX_COMPARED = 50


def grounded_in_tools() -> FunctionScorer:
    """The share of an answer's checkable facts that the agent's evidence supports.

    Facts are the numbers, dates, times, identifiers (order numbers, addresses, links, phone numbers,
    versions) and names of several words that the answer states. Evidence is the results of tools, the
    arguments of successful calls, retrieved documents, the system instructions, and the earlier messages of
    both sides.

    A number is also supported if it follows from the evidence in a way a reader can check: rounded (22 for
    21.7), 5% off after a word such as about, in another unit (50% for 0.5, 2 h 30 min for 150 minutes, $49.90
    for 4990 cents, °F for °C), in words (two dozen for 24), the length of a list or the number of its
    entries with an equal value, or of all entries that the words around it describe (3 available blue
    shirts), the total of a field over a list, a product of two fields, a stated percentage of a number or
    its remainder, a sum, difference or product of found numbers that the answer itself states, a sum or
    difference of two numbers of a short text, the years between two years. Near a word such as total,
    difference or refund, so is the sum of an amount over some entries of a short list, and the sum or
    difference of two amounts if there are few. A name is supported in other forms: Turkish for Turkey,
    Western Australia for WA, UN for United Nations, Texas for TX.

    An unsupported fact is contradicted if the evidence gives another value for it: next to the same words,
    under a field that the answer names, of the same things (5 business days for 10 business days, though 10
    appears elsewhere), an identifier of the same pattern, a name that differs in one of two words. The
    explanation lists contradicted facts with the other value, and facts that were found nowhere.

    A date without a year matches any year, an ambiguous one (3/4/2026) in either order. Relative dates,
    list numbering, examples in brackets and the number one are not checked. If a result is running text, in
    which a reader can count things that no number states, a count in words up to twelve is not checked
    unless the texts state another count of the same things. Names need capital letters, and several words
    in German; digits of all scripts count, words for numbers (except thousands and millions) in English
    only. A fact that appears in the evidence in another role (the price of another item) passes: this scorer
    finds inventions, not confusions.

    Range: 0..1, higher is better. Label: `grounded` if every fact is found, else `ungrounded`.
    Formula: facts found / facts stated, each counted once and a contradicted one twice.
    Needs: the answer; tool results or documents, of this turn or an earlier one.
    Not scored: `output_not_recorded`, `output_captured_off`; `tool_results_captured_off` or
    `tool_results_truncated` if a fact is missing and evidence is incomplete, `media_not_shown` if an image
    or a sound may have it; `no_tool_results` if there is nothing to check against; `no_claims` if the
    answer states no such fact.
    Cost: none; about 1 ms for every 1,000 characters of evidence, in a worker thread. At most 200,000
    characters of evidence are read (with more, a run with an unsupported fact is not scored), and the first
    50,000 characters and 1,000 facts of an answer.
    """
    return scorer(id="grounded_in_tools")(_judge)


def _judge(run: Run) -> Score | NotScored:
    absent = missing(run, "output") or _no_evidence(run)
    if absent is not None:
        return absent
    answer = fold((run.output or "")[:_MAX_ANSWER], _MAX_ANSWER)
    stated = _distinct(claims_in(answer))[:_MAX_CLAIMS]
    evidence = _evidence(run)
    claims, wrong = check(stated, answer, evidence, _countable(run, answer)) if stated else ([], [])
    if not claims:
        return NotScored(reason="no_claims", explanation="the answer states no fact that code can check")
    # A missing fact may be in the part of the evidence that was cut off.
    if wrong and (incomplete := _incomplete(run, evidence)):
        return incomplete
    alternatives = Alternatives(answer, evidence)
    instead = {claim: alternatives.to(claim) for claim in wrong[:_MAX_COMPARED]}
    instead |= dict.fromkeys(wrong[_MAX_COMPARED:])
    against = sum(value is not None for value in instead.values())
    return Score(
        value=1 - (len(wrong) + against) / (len(claims) + against),
        label="ungrounded" if wrong else "grounded",
        explanation=_explain(instead, len(claims)),
        steps=(StepRecord(name="analyze", result=[_record(claim, instead) for claim in claims]),),
    )


Instead = Mapping[Claim, str | None]
"""The unsupported claims, each with the contradicting value of the evidence."""


def _record(claim: Claim, instead: Instead) -> dict[str, str | bool]:
    record: dict[str, str | bool] = {
        "kind": claim.kind,
        "text": claim.text,
        "found": claim not in instead,
    }
    value = instead.get(claim)
    return record if value is None else {**record, "instead": value}


def _distinct(claims: Iterable[Claim]) -> list[Claim]:
    # Reversed twice: of equal facts the first one is kept, in its place.
    found = {(claim.kind, claim.text.casefold()): claim for claim in reversed(tuple(claims))}
    return list(found.values())[::-1]


def _countable(run: Run, answer: str) -> set[int]:
    """Return the sizes of the answer's lists and the number of calls of each tool."""
    calls = Counter(call.name for call in run.tool_calls)
    return {*list_items(answer), *calls.values(), len(run.tool_calls)}


def _explain(instead: Instead, total: int) -> str:
    """Return the wrong facts first: a console may cut the rest."""
    facts = counted(total, "fact")
    if not instead:
        are = "is" if total == 1 else "are"
        return f"{total} of {facts} {are} supported by the tool results or the conversation"
    stated = {claim: f'{claim.kind} "{claim.text}"' for claim in instead}
    against = [
        f'{stated[claim]} (evidence: "{value}")' for claim, value in instead.items() if value is not None
    ]
    nowhere = [stated[claim] for claim, value in instead.items() if value is None]
    parts = [f"contradicted (counts twice): {_some(against)}"] if against else []
    parts += [f"found nowhere: {_some(nowhere)}"] if nowhere else []
    parts += [f"{len(instead)} of {facts} {'is' if len(instead) == 1 else 'are'} unsupported"]
    return "; ".join(parts)


def _some(named: Sequence[str]) -> str:
    more = f" and {len(named) - _MAX_NAMED} more" if len(named) > _MAX_NAMED else ""
    return ", ".join(named[:_MAX_NAMED]) + more


# --- evidence ---

_SAID = ("text", "media")
"""Parts whose text someone said."""


def _evidence(run: Run) -> Evidence:
    said = (*run.history, *run.input_messages)
    texts = [run.system_instructions or ""]
    texts += [part.text for message in said for part in message.parts if part.kind in _SAID and part.text]
    results = [result for call in run.tool_calls for result in (call.result, call.error)]
    # The arguments of a failed call may be invented.
    results += [call.arguments for call in run.tool_calls if call.status != "error"]
    results += [told for document in run.documents for told in (document.content, dict(document.metadata))]
    results += [part.data if part.data is not None else part.text for part in _earlier_results(said)]
    return Evidence(results=results, texts=texts, now=run.start_time)


def _earlier_results(messages: Iterable[Message]) -> Iterator[Part]:
    return (part for message in messages for part in message.parts if part.kind == "tool_result")


def _no_evidence(run: Run) -> NotScored | None:
    """Return the reason if there is nothing to check against."""
    recorded = any(call.result is not None or call.error for call in run.tool_calls)
    if recorded or any(d.content for d in run.documents) or any(_earlier_results(run.history)):
        return None
    if run.tool_calls or run.documents:
        return _not_recorded(run)
    return NotScored(
        reason="no_tool_results",
        explanation="no tool was called and no document retrieved: there is nothing to check against",
    )


def _incomplete(run: Run, evidence: Evidence) -> NotScored | None:
    """Return the reason if evidence was cut off or not recorded."""
    state = _availability(run)
    # Media come first: even complete texts may lack the content of an image.
    said = any(message.media for message in (*run.history, *run.input_messages))
    if said or any(call.media for call in run.tool_calls):
        return NotScored(reason="media_not_shown", explanation="a missing fact may be in an image or a sound")
    if Availability.TRUNCATED in state or evidence.truncated:
        return NotScored(reason="tool_results_truncated", explanation="some evidence was cut off")
    if Availability.CAPTURED_OFF in state:
        return _not_recorded(run)
    return None


def _not_recorded(run: Run) -> NotScored:
    off = Availability.CAPTURED_OFF in _availability(run)
    return NotScored(
        reason="tool_results_captured_off" if off else "tool_results_not_recorded",
        explanation=f"tools were called, but their results were not recorded; "
        f"content capture: {content_setting(run.scope_name, run.convention)}",
    )


def _availability(run: Run) -> set[Availability | None]:
    return {run.availability.get("tool_results"), run.availability.get("documents")}
