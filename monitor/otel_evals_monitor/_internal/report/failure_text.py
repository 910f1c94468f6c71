"""Groups failing runs by their explanations, failed tools and errors, as templates without values.

Scorers written in code produce the same template again and again. Judges phrase every explanation anew;
their texts are grouped by the words that failing runs use and passing runs do not.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from otel_evals_monitor._internal.report.words import one_line
from otel_evals_monitor._internal.store.rows import Record, objects

_LONGEST = 2_000
_NAME = 160
_WORDS = 4
_COMMON = 0.5
"""Share of a group's texts that contain each of its telling words."""
# The lookbehinds keep it linear: a match can begin only where a word does.
_VALUES = re.compile(
    r'"[^"]*"|“[^“”]*”|`[^`]*`|(?<!\w)\'[^\']*\'(?!\w)'  # quotations
    r"|\b\w+://\S+|(?<![\w.+-])[\w.+-]++@[\w-]+\.[\w.]+"  # addresses
    r"|(?:[$€£]|(?<![\w+#.,:/-]))[\w+#.,:/-]*\d[\w.,:/%+-]*(?<![.,:])"  # numbers, dates, identifiers
)
_GAP = "…"
_GAPS = re.compile(rf"{_GAP}(?:[ ,]*{_GAP})+")
_SINGULAR = {"are": "is", "were": "was", "have": "has"}
_PLURAL = re.compile(r"\b(?:are|were|have|\w{2,}[^\Ws]s)\b", re.IGNORECASE)
_LISTED = re.compile(rf": (?:\w+ )?{_GAP}(?:, (?:\w+ )?{_GAP})*(?=;|$)")
_WORD = re.compile(r"[^\W\d]{3,}(?:_\w+)*")
_ENDING = re.compile(r"(?<=\w{3})(?:ies|(?<!s)es|(?<!s)s|ed|ing|ly)$")
_STOP = frozenset(
    _WORD.findall(
        """
    about again against all already also although and another answer answered answers any are assistant
    because been before but can cannot claim claimed claims contain contains correct could customer did
    does doing done each either expected fact facts for found from given had has have having here how
    however input instead into its itself just later made make may means mention mentioned mentions
    might model more most must nor not only other our out output over question questions rather reply
    response result results said same say says should since some state stated states statement such tell
    tells than that the their them then there therefore these they this those though thus too tool tools
    user users very was were what when where which while who whole why will with within without would
    yet you your
"""
    )
)


@dataclass(frozen=True, slots=True)
class FailureText:
    """What is said about a failing run."""

    template: str
    """The explanation without its values, in the singular."""
    tools: tuple[str, ...] = ()
    """Each failed tool with its error's template, and the run's error."""
    said: str = field(default="", compare=False)
    """The explanation in its own words, without its values."""


@dataclass(frozen=True, slots=True)
class TextGroup:
    template: str
    """The most frequent explanation without its values; empty if texts have only words in common."""
    tools: tuple[str, ...]
    words: tuple[str, ...]
    """The most telling words of texts without a common template."""


def failure_text(explanation: str | None, run: Record, error: str | None = None) -> FailureText:
    """Return the template of a run: `explanation` by the scorer, `run` as recorded, `error` of the run."""
    calls = objects(run.get("tool_calls"))
    failed = [each for each in calls if each.get("error") or each.get("status") == "error"]
    tools = {
        f"{each.get('name') or 'tool'} failed: {template_of(_first(each))}".rstrip(":. ") for each in failed
    }
    ended = {f"run ended in {error}"} if error else set()
    text, causes = explanation or "", tuple(sorted(tools | ended))
    template = template_of(text)
    if causes:  # what a scorer lists differs from run to run, while the failed tool is the same
        template = _LISTED.sub(f": {_GAP}", template)
    said = "; ".join(map(_without_repeats, without_values(text).split("; ")))
    return FailureText(template, causes, said)


def template_of(text: str) -> str:
    """Return a text without its values, in the singular, and repeated kinds of values once."""
    line = _PLURAL.sub(
        lambda match: _SINGULAR.get(match[0].lower(), match[0].rstrip("s")), without_values(text)
    )
    return "; ".join(_without_repeats(clause, sorted) for clause in line.split("; "))


def without_values(text: str) -> str:
    """Return a text with its values replaced by dots."""
    return _GAPS.sub(_GAP, _VALUES.sub(_GAP, " ".join(text[:_LONGEST].split())))


def _without_repeats(clause: str, order: Callable[[Iterable[str]], Iterable[str]] = list) -> str:
    """Return a clause with each kind of a list's values once: `name …, date …, name …`."""
    head, colon, rest = clause.rpartition(": ")
    items = rest.split(", ")
    if len(items) > 1 and all(_GAP in item for item in items):
        rest = ", ".join(order(dict.fromkeys(items)))
    return head + colon + rest


def _first(call: Record) -> str:
    said = call.get("error") if isinstance(call.get("error"), str) else call.get("result")
    return next((line for line in str(said or "").splitlines() if line.strip()), "")[:_NAME]


def group_texts(texts: Sequence[FailureText], passing: Iterable[str]) -> list[TextGroup | None]:
    """Return the group of each text, None for texts like no other; `passing` explains runs that passed.

    A template that occurs twice is a group. The rest is grouped by telling words, the most frequent first.
    """
    counts = Counter(each for each in texts if each.template or each.tools)
    found = {each: TextGroup(each.template, each.tools, ()) for each, n in counts.items() if n > 1}
    rare = {each: _words(each.template) for each, n in counts.items() if n == 1}
    found |= _by_words(rare, [_words(template_of(text)) for text in passing])
    return [found.get(each) for each in texts]


def _by_words(
    texts: Mapping[FailureText, frozenset[str]], passing: Sequence[frozenset[str]]
) -> dict[FailureText, TextGroup]:
    """Group texts by their most frequent word, as far as texts of passing runs do not use it as well."""
    usual = Counter(word for words in passing for word in words)
    left = dict(texts)
    found: dict[FailureText, TextGroup] = {}
    while left:
        counts = Counter(word for words in left.values() for word in words)
        telling = {w: n - len(left) * usual[w] / max(len(passing), 1) for w, n in counts.items() if n > 1}
        # The word itself breaks ties, so the same runs always give the same groups.
        best = max(telling, key=lambda word: (telling[word], word), default=None)
        if best is None or telling[best] <= 0.0:
            break
        inside = {each: words for each, words in left.items() if best in words}
        shared = Counter(word for words in inside.values() for word in words)
        others = (w for w, n in shared.most_common() if w in telling and n >= _COMMON * len(inside))
        words = [_spelled(stem, inside) for stem in dict.fromkeys([best, *others])]
        tools = set.intersection(*(set(each.tools) for each in inside))
        found |= dict.fromkeys(inside, TextGroup("", tuple(sorted(tools)), tuple(words[:_WORDS])))
        left = {each: words for each, words in left.items() if each not in inside}
    return found


def _spelled(stem: str, texts: Iterable[FailureText]) -> str:
    words: list[str] = [word for text in texts for word in _WORD.findall(text.template.lower())]
    return Counter(word for word in words if _ENDING.sub("", word) == stem).most_common(1)[0][0]


def name_of(group: TextGroup, texts: Iterable[FailureText]) -> str:
    """Return a name: the failed tools, and the most frequent explanation, shortest first, or its words.

    Empty if it would have no letters.
    """
    said = Counter(text.said for text in texts if text.template == group.template)
    usual = min(said, key=lambda text: (-said[text], len(text)), default="")
    name = "; ".join(part for part in (*group.tools, usual, ", ".join(group.words)) if part)
    return one_line(name, _NAME) if any(map(str.isalpha, name)) else ""


def _words(text: str) -> frozenset[str]:
    """Return the words of a text that may tell failures apart, without their endings."""
    return frozenset(_ENDING.sub("", word) for word in _WORD.findall(text.lower()) if word not in _STOP)
