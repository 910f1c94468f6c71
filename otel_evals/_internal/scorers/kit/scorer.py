"""The interface of scorers, and the shortest way to write one: `@scorer`."""

from __future__ import annotations

import asyncio
import inspect
import math
import numbers
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass, field
from decimal import Decimal
from typing import Any, overload

from msgspec import convert, to_builtins
from msgspec.structs import replace

from otel_evals._internal.model import Direction, NotScored, Run, Score, ScorerFailure, StepRecord
from otel_evals._internal.scorers.kit.facts import check_scale
from otel_evals._internal.scorers.kit.fingerprint import fingerprint
from otel_evals._internal.scorers.kit.outcome import (
    KINDS,
    MAX_LABEL,
    MAX_TEXT,
    bounded,
    failure_of,
    problem_of,
    steps_of_error,
)
from otel_evals._internal.util.calls import call, is_async
from otel_evals._internal.util.plain import plain_text, plain_value, type_name
from otel_evals.errors import ConfigError, OtelEvalsError

Judgement = bool | float | Score | NotScored
"""The result of a scoring function; a bool becomes 1.0 or 0.0 with the label `true` or `false`."""


class Scorer(ABC):
    """Computes the score of a run. Stateless: one scorer judges many runs concurrently."""

    id: str
    """Unique among the configured rules; becomes `gen_ai.evaluation.name`."""
    version: str
    """Changes whenever it could judge differently: a fingerprint of its configuration unless given."""
    direction: Direction = Direction.HIGHER
    inline: bool = False
    """True runs it on the engine's own thread: only for code that never waits and takes microseconds."""

    at_once: bool = False
    """True if `score_at_once` is supported."""

    def check(self) -> None:  # noqa: B027  # most scorers are whole once they exist
        """Check that it can score; called when a rule is built.

        Raises:
            ConfigError: something is missing.
        """

    def prepare(self) -> None:  # noqa: B027  # most scorers have nothing to load
        """Load what scoring needs; called on a worker thread at startup, before the first run."""

    @abstractmethod
    async def score(self, run: Run) -> Score | NotScored:
        """Judge a run. An exception becomes a ScorerFailure."""

    def score_at_once(self, run: Run) -> Score | NotScored:
        """Judge a run as `score` does, on the engine's own thread; called if `at_once` is true."""
        raise NotImplementedError


class StepFailure(OtelEvalsError):  # noqa: N818  # a sibling of ScorerFailure
    """A failed step of a scorer; `__cause__` is the exception."""

    def __init__(self, message: str, *, steps: tuple[StepRecord, ...] = ()) -> None:
        super().__init__(message)
        self.steps = steps
        """The steps up to the failed one."""


@dataclass(frozen=True)
class FunctionScorer(Scorer):
    """A scorer made from one function, which can still be called."""

    function: Callable[[Run], Judgement | Awaitable[Judgement]]
    _: KW_ONLY
    id: str
    version: str = ""
    direction: Direction = Direction.HIGHER
    inline: bool = False
    scale: float | None = 1.0
    """Scores are within 0..scale; None accepts every finite number."""
    description: str = field(default="", compare=False)
    _on_loop: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_scale(self.id, self.scale)
        if not self.version:
            version = fingerprint(self.id, self.function, self.direction, self.scale)
            object.__setattr__(self, "version", version)
        waits = is_async(self.function)
        object.__setattr__(self, "at_once", self.inline and not waits)
        object.__setattr__(self, "_on_loop", self.inline or waits)

    def check(self) -> None:
        """Check that the function takes one argument, the run.

        Raises:
            ConfigError: it takes none, or needs more.
        """
        try:
            signature = inspect.signature(self.function)
        except (TypeError, ValueError):  # written in C
            return
        try:
            signature.bind(None)
        except TypeError:
            problem = (
                f"the function takes {signature}: give it one parameter, the run, as in def {self.id}(run)"
            )
            raise ConfigError(f"scorer {self.id}", problem) from None

    def __call__(self, run: Run) -> Judgement | Awaitable[Judgement]:
        return self.function(run)

    async def score(self, run: Run) -> Score | NotScored:
        """Call the function, in a worker thread unless it is async or `inline`, and check its result."""
        if self._on_loop:  # without a call in between, whose coroutine would wait for the judge too
            result: Any = self.function(run)
            result = await result if inspect.isawaitable(result) else result
        else:
            result = await call(self.function, run)
        return to_score(result, scale=self.scale)

    def score_at_once(self, run: Run) -> Score | NotScored:
        """Call the function and check its result."""
        return to_score(self.function(run), scale=self.scale)


@overload
def scorer(function: Callable[[Run], Judgement | Awaitable[Judgement]], /) -> FunctionScorer: ...


@overload
def scorer(
    *,
    id: str | None = None,
    version: str = "",
    direction: Direction = Direction.HIGHER,
    inline: bool = False,
    scale: float | None = 1.0,
) -> Callable[[Callable[[Run], Judgement | Awaitable[Judgement]]], FunctionScorer]: ...


def scorer(
    function: Callable[[Run], Any] | None = None,
    /,
    *,
    id: str | None = None,
    version: str = "",
    direction: Direction = Direction.HIGHER,
    inline: bool = False,
    scale: float | None = 1.0,
) -> Any:
    """Create a scorer from a function, sync or async, that takes a run and returns a Judgement.

    By default, the function's name is the id and its docstring the description. A sync function runs in a
    worker thread, or on the engine's thread with `inline=True`, for functions that take microseconds.

    Raises:
        ConfigError: `scale` is not a positive number.
    """

    def make(function: Callable[[Run], Any]) -> FunctionScorer:
        return FunctionScorer(
            function,
            id=id or str(getattr(function, "__name__", type(function).__name__)),
            version=version,
            direction=Direction(direction),
            inline=inline,
            scale=scale,
            description=inspect.getdoc(function) or "",
        )

    return make if function is None else make(function)


_ROUNDING = 1e-6
"""A score this close to its bound is the bound: sums of shares and cosines miss it by less."""


def to_score(value: Any, *, scale: float | None = 1.0) -> Score | NotScored:
    """Check the result of a scoring function and convert it to a score.

    Raises:
        TypeError: it is neither a number nor a Score nor a NotScored.
        ValueError: the number is not finite, or not within 0..scale.
    """
    if isinstance(value, NotScored):
        return value
    if isinstance(value, Score):
        known = _score_of(value.value, scale)
        return replace(value, value=known.value, label=value.label or known.label)
    return _score_of(value, scale)


def _score_of(value: Any, scale: float | None) -> Score:
    plain = _unboxed(value)
    # Before the numbers, since a bool is one of them in Python.
    if isinstance(plain, bool):
        return Score(value=_number(plain * (scale or 1.0), scale), label="true" if plain else "false")
    return Score(value=_number(plain, scale))


def _unboxed(value: Any) -> Any:
    """Return the Python value in a scalar of NumPy or PyTorch, or in an array without dimensions."""
    is_scalar = getattr(value, "shape", None) == () and callable(getattr(value, "item", None))
    return value.item() if is_scalar else value


def _number(value: Any, scale: float | None) -> float:
    if not isinstance(value, numbers.Real | Decimal):
        kind = type(value).__name__
        raise TypeError(
            f"a score must be a number, a bool, a Score or a NotScored, not {kind}: {value!r:.100}"
        )
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"a score must be finite, not {number}")
    for bound in (0.0, scale) if scale is not None else ():
        if abs(number - bound) <= _ROUNDING:
            return float(bound)
    if scale is not None and not 0.0 <= number <= scale:
        raise ValueError(f"a score must lie within 0..{scale:g}, not {number!r}")
    return number + 0.0  # no negative zero


# --- an attempt of a scorer, and its outcome ---

Result = Score | NotScored | ScorerFailure | BaseException
"""Of an attempt: exceptions are values."""


async def attempted(scorer: Scorer, run: Run) -> Result:
    """Return the result of an attempt; SystemExit would end the loop."""
    try:
        return to_outcome(await scorer.score(run))
    except asyncio.CancelledError as error:
        # After a timeout, the steps so far are kept; otherwise the scorer cancelled itself.
        return ended_early(steps_of_error(error))
    except BaseException as error:
        return error


def attempted_at_once(scorer: Scorer, run: Run) -> Result:
    """Return the result of a scorer that never waits."""
    try:
        return to_outcome(scorer.score_at_once(run))
    except BaseException as error:
        return error


def ended_early(steps: tuple[StepRecord, ...] = ()) -> StepFailure:
    """Return the failure of a scorer that was cancelled after these steps."""
    failure = StepFailure("the scorer cancelled itself", steps=steps)
    failure.__cause__ = asyncio.CancelledError("the scorer cancelled itself")
    return failure


def to_outcome(value: object) -> Score | NotScored | ScorerFailure:
    """Convert an answer or an exception to an outcome."""
    if type(value) is Score and _is_plain(value):  # most are: the rest costs ten times as much
        return value
    try:
        if isinstance(value, BaseException):
            return failure_of(value)
        kind = next((kind for kind in KINDS if isinstance(value, kind)), None)
        problem = f"a {type_name(value)}"
        if kind is not None:
            # There and back: msgspec checks the types of fields when it converts, not when a struct is made.
            outcome: Any = convert(to_builtins(value, enc_hook=plain_value), kind)
            problem = problem_of(outcome)
            if not problem:
                whole: Score | NotScored | ScorerFailure = bounded(outcome)
                return whole
    except Exception as error:
        problem = f"a {type_name(value)} that cannot be used ({plain_text(error, 300)})"
    said = f"the scorer returned {problem}, not a Score with a finite value or a NotScored with a reason"
    return ScorerFailure(error_type=TypeError.__name__, message=said)


def _is_plain(score: Score) -> bool:
    """Return True if a Score has no steps, and only short values of the declared types."""
    return (
        type(score.value) is float
        and math.isfinite(score.value)
        and score.steps == ()
        and score.agreement is None
        and score.span_id is None
        and _is_plain_text(score.label, MAX_LABEL)
        and _is_plain_text(score.explanation, MAX_TEXT)
    )


def _is_plain_text(text: object, limit: int) -> bool:
    # ASCII has no halves of surrogate pairs, which have no UTF-8 form.
    return text is None or (type(text) is str and len(text) <= limit and text.isascii())
