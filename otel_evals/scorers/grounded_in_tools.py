"""Whether the facts an answer states stand in what the agent was told. Code only, no judge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from otel_evals.model import Availability, Message, NotScored, Part, Run, Score, StepRecord
from otel_evals.scorer import FunctionScorer, missing, scorer
from otel_evals.text.claims import Claim, claims_in, list_items
from otel_evals.text.evidence import Evidence
from otel_evals.text.lookup import ungrounded

__all__ = ["grounded_in_tools"]

_MAX_NAMED = 8


def grounded_in_tools() -> FunctionScorer:
    """The share of an answer's checkable facts that stand in what the agent was told.

    Facts are the numbers, dates, times, identifiers (order numbers, e-mail addresses, links, phone numbers)
    and names of several words that the answer states. Evidence is what tools returned, what they were
    successfully called with, retrieved documents, the system instructions, and what was said before, by the
    user now or by either side in earlier turns.

    A number also counts as found when it follows from the evidence in a way a reader can check: rounded
    (22 for 21.7), 5% off where the text says about, in another unit (50% for 0.5, 2 hours for 120 minutes,
    $49.90 for 4990 cents, °F for °C), a length of a list or the number of its entries with an equal value,
    the total of a field over a list, a product of two fields, a stated percentage of a number or what it
    leaves, or a sum, difference or product of found numbers that the answer itself states.

    A date without a year matches any year, an ambiguous one (3/4/2026) in either order. Relative dates, list
    numbering, examples in brackets and the number one are not checked. Names need capital letters, and
    several words in German; digits of all scripts count, words for numbers in English only. A fact that
    stands in the evidence in another role (the price of another item) passes: this finds what was made up,
    not what was mixed up.

    Range: 0..1, higher is better. Label: `grounded` when every fact is found, else `ungrounded`.
    Formula: facts found / facts stated, each counted once. Ours, not taken from elsewhere.
    Needs: the answer; tool results or documents, of this turn or an earlier one.
    Not scored: `output_not_recorded`, `output_captured_off`; `tool_results_captured_off` or
    `tool_results_truncated` when a fact is missing but evidence is incomplete; `no_tool_results` when there
    is nothing to check against; `no_claims` when the answer states no such fact.
    Cost: none; about 1 ms for every 1,000 characters of evidence, in a worker thread. At most 200,000
    characters of evidence are read; a fact that is not found among them is then not scored.
    """
    return scorer(id="grounded_in_tools")(_judge)


def _judge(run: Run) -> Score | NotScored:
    """Share of the answer's facts that stand in the tool results or the conversation."""
    absent = missing(run, "output") or _no_evidence(run)
    if absent is not None:
        return absent
    answer = run.output or ""
    claims = _distinct(claims_in(answer))
    if not claims:
        return NotScored(reason="no_claims", explanation="the answer states no fact that code can check")
    evidence = _evidence(run)
    wrong = ungrounded(claims, evidence, _countable(run, answer))
    if wrong and (incomplete := _incomplete(run, evidence)):
        return incomplete
    step = StepRecord(name="analyze", result=[_record(claim, claim not in wrong) for claim in claims])
    return Score(
        value=1 - len(wrong) / len(claims),
        label="ungrounded" if wrong else "grounded",
        explanation=_explain(len(claims), wrong),
        steps=(step,),
    )


def _distinct(claims: Iterable[Claim]) -> list[Claim]:
    return list({(claim.kind, claim.text.casefold()): claim for claim in reversed(tuple(claims))}.values())[
        ::-1
    ]


def _countable(run: Run, answer: str) -> set[int]:
    """How many there are of what the answer lists, and of the calls of each tool."""
    calls = Counter(call.name for call in run.tool_calls)
    return {*list_items(answer), *calls.values(), len(run.tool_calls)}


def _record(claim: Claim, found: bool) -> dict[str, str | bool]:
    return {"kind": claim.kind, "text": claim.text, "found": found}


def _explain(stated: int, wrong: Sequence[Claim]) -> str:
    if not wrong:
        return f"{stated} of {stated} facts stand in the tool results or the conversation"
    named = ", ".join(f'{claim.kind} "{claim.text}"' for claim in wrong[:_MAX_NAMED])
    more = f" and {len(wrong) - _MAX_NAMED} more" if len(wrong) > _MAX_NAMED else ""
    found = "found neither in the tool results nor in the conversation"
    return f"{len(wrong)} of {stated} facts {found}: {named}{more}"


# --- evidence ---


def _evidence(run: Run) -> Evidence:
    said = (*run.history, *run.input_messages)
    texts = [run.system_instructions or "", *(d.content or "" for d in run.documents)]
    texts += [part.text for message in said for part in message.parts if part.kind == "text" and part.text]
    results = [result for call in run.tool_calls for result in (call.result, call.error)]
    results += [call.arguments for call in run.tool_calls if call.status != "error"]
    results += [dict(document.metadata) for document in run.documents]
    results += [part.data if part.data is not None else part.text for part in _earlier_results(said)]
    return Evidence(results=results, texts=texts, now=run.start_time)


def _earlier_results(messages: Iterable[Message]) -> Iterator[Part]:
    return (part for message in messages for part in message.parts if part.kind == "tool_result")


def _no_evidence(run: Run) -> NotScored | None:
    """Say why there is nothing to check against, where there is nothing."""
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
    """A fact that is not found may stand in what was cut off or not recorded."""
    state = {run.availability.get("tool_results"), run.availability.get("documents")}
    if Availability.TRUNCATED in state or evidence.truncated:
        return NotScored(reason="tool_results_truncated", explanation="some evidence was cut off")
    if Availability.CAPTURED_OFF in state:
        return _not_recorded(run)
    return None


def _not_recorded(run: Run) -> NotScored:
    """The reason that the instrumentation gives for results it left out."""
    off = Availability.CAPTURED_OFF in (
        run.availability.get("tool_results"),
        run.availability.get("documents"),
    )
    return NotScored(
        reason="tool_results_captured_off" if off else "tool_results_not_recorded",
        explanation="tools were called, but what they returned was not recorded: turn on content capture in "
        "the instrumentation that wrote these spans",
    )
