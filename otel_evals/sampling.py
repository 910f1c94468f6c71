"""Samplers and their algebra: which runs are scored, and how likely each was to be picked.

A sampler answers one question: how likely should a run like this one be picked? Whether it is picked then
follows from the trace id alone, so the decision is the same in every process, repeatable and explainable,
and a lower rate always picks a subset of what a higher rate picks:

    picked = randomness(trace id) >= (1 - probability) * 2**56

This is OpenTelemetry's consistent probability sampling (rejection thresholds on 56 random bits). Where the
trace carries `ot=th:...` in its tracestate, a head sampler has already rejected everything below that
threshold: rates then apply to what it kept, and the recorded probability is the product of both.

    >>> sampler = ratio(0.05) | errors()
    >>> str(sampler)
    'ratio(0.05) | errors()'
"""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from otel_evals.errors import ConfigError
from otel_evals.model import Run

__all__ = [
    "Chance",
    "Sampler",
    "always",
    "errors",
    "never",
    "parse",
    "picks",
    "randomness",
    "ratio",
    "recorded_probability",
    "slower_than",
    "threshold",
    "when",
]

_RANGE = 1 << 56
_MASK_128 = (1 << 128) - 1
# 2**128 divided by the golden ratio, made odd: consecutive multiples fall evenly over the range.
_GOLDEN = 0x9E3779B97F4A7C15F39CC0605CEDC835


@dataclass(frozen=True, slots=True)
class Chance:
    """How likely a run is to be picked."""

    probability: float
    known: bool = True
    """False where a hand-written predicate had its say: the number then decides, but is no estimate."""


class Sampler(ABC):
    """Says how likely a run is to be picked. Combine with `|` (either picks it) and `&` (both pick it)."""

    ceiling: float = 1.0
    """The highest probability this sampler can give any run, known before the run is."""

    @abstractmethod
    def chance(self, run: Run) -> Chance:
        """The chance of a finished run."""

    @abstractmethod
    def __str__(self) -> str: ...

    def __or__(self, other: Sampler) -> Sampler:
        return _Either(self, other)

    def __and__(self, other: Sampler) -> Sampler:
        return _Both(self, other)


class _Ratio(Sampler):
    def __init__(self, probability: float, words: str) -> None:
        self.ceiling = probability
        self._chance = Chance(probability)
        self._words = words

    def chance(self, run: Run) -> Chance:
        return self._chance

    def __str__(self) -> str:
        return self._words


class _Condition(Sampler):
    def __init__(self, test: Callable[[Run], bool], words: str, *, known: bool = True) -> None:
        self._test = test
        self._words = words
        self._yes = Chance(1.0, known)
        self._no = Chance(0.0, known)

    def chance(self, run: Run) -> Chance:
        return self._yes if self._test(run) else self._no

    def __str__(self) -> str:
        return self._words


class _Either(Sampler):
    """All samplers share one randomness, so the likelier of two contains the other."""

    def __init__(self, left: Sampler, right: Sampler) -> None:
        self._left, self._right = left, right
        self.ceiling = max(left.ceiling, right.ceiling)

    def chance(self, run: Run) -> Chance:
        return max(self._left.chance(run), self._right.chance(run), key=lambda c: (c.probability, c.known))

    def __str__(self) -> str:
        return f"{self._left} | {self._right}"


class _Both(Sampler):
    def __init__(self, left: Sampler, right: Sampler) -> None:
        self._left, self._right = left, right
        self.ceiling = min(left.ceiling, right.ceiling)

    def chance(self, run: Run) -> Chance:
        left, right = self._left.chance(run), self._right.chance(run)
        return Chance(min(left.probability, right.probability), left.known and right.known)

    def __str__(self) -> str:
        return " & ".join(f"({s})" if isinstance(s, _Either) else str(s) for s in (self._left, self._right))


def ratio(probability: float) -> Sampler:
    """Pick this share of all runs.

    Args:
        probability: between 0 and 1.

    Raises:
        ConfigError: the probability is not a number between 0 and 1.
    """
    if isinstance(probability, bool) or not isinstance(probability, int | float) or not 0 <= probability <= 1:
        raise ConfigError("sample", f"ratio({probability!r}): the rate must be a number between 0 and 1")
    return _Ratio(float(probability), f"ratio({probability:g})")


def always() -> Sampler:
    """Pick every run."""
    return _Ratio(1.0, "always()")


def never() -> Sampler:
    """Pick no run."""
    return _Ratio(0.0, "never()")


def errors() -> Sampler:
    """Pick every run that failed or in which a tool failed."""
    return _Condition(_has_error, "errors()")


def slower_than(seconds: float) -> Sampler:
    """Pick every run that took longer.

    Raises:
        ConfigError: the duration is not a positive number.
    """
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0:
        raise ConfigError(
            "sample", f"slower_than({seconds!r}): the duration must be a positive number of seconds"
        )
    return _Condition(lambda run: (run.duration or 0.0) > seconds, f"slower_than({seconds:g})")


def when(predicate: Callable[[Run], bool]) -> Sampler:
    """Pick every run for which the predicate is true.

    What a predicate depends on cannot be known, so runs that owe their chance to it carry no inclusion
    probability. To limit a rule to some runs and keep the probability, use the rule's own `when`.

    Raises:
        ConfigError: the predicate cannot be called.
    """
    if not callable(predicate):
        raise ConfigError("sample", f"when({predicate!r}): give a function of the run")
    name = getattr(predicate, "__name__", type(predicate).__name__)
    return _Condition(lambda run: bool(predicate(run)), f"when({name})", known=False)


def _has_error(run: Run) -> bool:
    return (
        run.error is not None
        or run.error_type is not None
        or any(c.status == "error" for c in run.tool_calls)
    )


# --- from chance to decision ---


def threshold(probability: float, trace_state: str = "") -> int:
    """The rejection threshold of a probability, on top of the head sampler's: randomness below it rejects."""
    entry = _ot_entry(trace_state) if trace_state and "ot=" in trace_state else None
    return _RANGE - round(probability * (_RANGE - (entry[0] if entry else 0)))


def randomness(trace_id: int, trace_state: str = "") -> int:
    """56 random bits that belong to a trace, the same wherever they are asked for.

    With an `ot` entry in its tracestate the trace follows OpenTelemetry's consistent sampling, and the bits
    are those of `rv`, or else the trace id's own (W3C trace context level 2). Without one they are mixed
    from the whole id: ids need not be random then, and a head sampler that looked at some of the id's bits
    does not skew ours.
    """
    if trace_state and "ot=" in trace_state:
        entry = _ot_entry(trace_state)
        if entry is not None:
            return entry[1] if entry[1] is not None else trace_id & (_RANGE - 1)
    return ((trace_id * _GOLDEN) & _MASK_128) >> 72


def picks(probability: float, trace_id: int, trace_state: str = "") -> bool:
    """Whether a run of this trace is picked at this probability."""
    return randomness(trace_id, trace_state) >= threshold(probability, trace_state)


def recorded_probability(chance: Chance, trace_state: str = "") -> float | None:
    """The probability that goes on record: head sampling included; None where it cannot be known."""
    if not chance.known:
        return None
    return (_RANGE - threshold(chance.probability, trace_state)) / _RANGE


@lru_cache(maxsize=1024)
def _ot_entry(trace_state: str) -> tuple[int, int | None] | None:
    """Head threshold and explicit randomness of a tracestate's `ot` entry; None without `th` and `rv`."""
    for member in trace_state.split(","):
        key, _, value = member.strip().partition("=")
        if key == "ot":
            fields = dict(f.split(":", 1) for f in value.split(";") if ":" in f)
            th, rv = _hex(fields.get("th", "")), _hex(fields.get("rv", ""), exact=True)
            return None if th is None and rv is None else (th or 0, rv)
    return None


def _hex(digits: str, *, exact: bool = False) -> int | None:
    if not 1 <= len(digits) <= 14 or (exact and len(digits) != 14):
        return None
    try:
        return int(digits.ljust(14, "0"), 16)
    except ValueError:
        return None


# --- from words ---

_WORDS: dict[str, Callable[..., Sampler]] = {
    "always": always,
    "errors": errors,
    "never": never,
    "ratio": ratio,
    "slower_than": slower_than,
}


def parse(text: str) -> Sampler:
    """A sampler from its own words, as configuration files write it.

    >>> str(parse("ratio(0.1) & (errors() | slower_than(5))"))
    'ratio(0.1) & (errors() | slower_than(5))'

    Raises:
        ConfigError: the text is no sampler, or names one that does not exist.
    """
    try:
        return _build(ast.parse(text.strip(), mode="eval").body)
    except SyntaxError:
        raise ConfigError(
            "sample", f"{text!r} is no sampler; write for example 'ratio(0.05) | errors()'"
        ) from None


def _build(node: ast.expr) -> Sampler:
    match node:
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _build(left) | _build(right)
        case ast.BinOp(left=left, op=ast.BitAnd(), right=right):
            return _build(left) & _build(right)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _WORDS:
            values = [a.value if isinstance(a, ast.Constant) else ast.unparse(a) for a in args]
            try:
                return _WORDS[name](*values)
            except TypeError:
                raise ConfigError("sample", f"{ast.unparse(node)}: wrong number of arguments") from None
    known = ", ".join(f"{name}()" for name in _WORDS)
    raise ConfigError("sample", f"{ast.unparse(node)!r} is no sampler; known are {known}, joined by | and &")
