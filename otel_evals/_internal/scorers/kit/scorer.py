"""The interface of scorers, and the shortest way to write one: `@scorer`."""

from __future__ import annotations

import inspect
import math
import numbers
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple, overload

from msgspec.structs import replace

from otel_evals._internal.model import Availability, Direction, NotScored, Run, Score, StepRecord
from otel_evals._internal.model.convention import content_setting
from otel_evals._internal.scorers.kit.fingerprint import fingerprint
from otel_evals._internal.util.calls import call, is_async
from otel_evals._internal.util.plain import plain_text, type_name
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


class ScorerFacts(NamedTuple):
    """A scorer's properties, read once: they are users' code, and may raise later or change."""

    id: str
    version: str
    direction: Direction
    scale: float | None
    at_once: bool


_KINDS = {"id": str, "version": str, "direction": Direction, "at_once": bool}


def facts_of(scorer: Scorer) -> ScorerFacts:
    """Read a scorer's properties.

    Raises:
        ConfigError: one is missing, raises an exception or has a wrong type.
    """
    try:
        scale = getattr(scorer, "scale", None)
        facts = ScorerFacts(scorer.id, scorer.version, scorer.direction, scale, scorer.at_once)
    except Exception as error:
        fix = f"set {', '.join(ScorerFacts._fields)} when it is created"
        problem = f"cannot be read ({type_name(error)}: {plain_text(error, 200)}): {fix}"
        raise ConfigError("scorer", problem) from None
    for name, kind in _KINDS.items():
        value = getattr(facts, name)
        if not isinstance(value, kind) or value == "":
            problem = f"must be a {kind.__name__}, not {plain_text(value, 100)!r}"
            raise ConfigError(f"scorer.{name}", problem)
    check_scale(facts.id, facts.scale)
    return facts


class StepFailure(OtelEvalsError):  # noqa: N818  # a sibling of ScorerFailure
    """A failed step of a scorer; `__cause__` is the exception."""

    def __init__(self, message: str, *, steps: tuple[StepRecord, ...] = ()) -> None:
        super().__init__(message)
        self.steps = steps
        """The steps up to the failed one."""

    @property
    def error_type(self) -> str:
        """Name of the exception that made the step fail."""
        return type(self.__cause__ or self).__name__


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


def check_scale(scorer_id: str, scale: float | None) -> None:
    if scale is not None and not (isinstance(scale, int | float) and math.isfinite(scale) and scale > 0):
        raise ConfigError(f"{scorer_id}.scale", f"must be a positive number, not {scale!r}")


def missing(run: Run, *fields: str) -> NotScored | None:
    """Return a NotScored for the first of these fields that is missing; None if the run has all.

    Fields: `input`, `output`, `system_instructions`, `ground_truth`. An image without words is an input or
    an output. The reason is `run_waiting` for the output of a run that waits, or else `<field>_empty`,
    `<field>_refused`, `<field>_truncated`, `<field>_captured_off` or `<field>_not_recorded`.
    """
    for name in fields:
        value = getattr(run, name)
        if name == "output" and run.waiting:
            return NotScored(reason="run_waiting", explanation="the run waits for an approval or a result")
        if value == "" and any(m.media for m in getattr(run, f"{name}_messages", ())):
            continue
        if value is None or (isinstance(value, str) and not value.strip()):
            return _without(run, name, recorded=value is not None)
    return None


def _without(run: Run, name: str, *, recorded: bool) -> NotScored:
    """Return why a field has no content."""
    match run.availability.get("system" if name == "system_instructions" else name):
        case Availability.CAPTURED_OFF:
            setting = content_setting(run.scope_name, run.convention)
            explanation = f"{name} was left out; content capture: {setting}"
            return NotScored(reason=f"{name}_captured_off", explanation=explanation)
        case Availability.TRUNCATED:
            explanation = f"{name} was cut off; fix: raise {limit_of(run)}"
            return NotScored(reason=f"{name}_truncated", explanation=explanation)
        case Availability.REFUSED:
            return NotScored(reason=f"{name}_refused", explanation="the answer was refused or blocked")
        case Availability.EMPTY:
            recorded = True
    if recorded:
        return NotScored(reason=f"{name}_empty", explanation=f"{name} is empty")
    return NotScored(reason=f"{name}_not_recorded", explanation=f"the run has no {name}")


def limit_of(run: Run) -> str:
    """Return the setting of the limit that removed content of a run."""
    spans = [operation.span for operation in run.operations]
    if any(span.dropped_attributes for span in spans):
        return "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT"
    if any(event.dropped_attributes for span in spans for event in span.logs):
        return "OTEL_LOGRECORD_ATTRIBUTE_COUNT_LIMIT"
    if any(event.dropped_attributes for span in spans for event in span.events):
        return "OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT"
    if any(span.spans_dropped for span in spans):
        return "`max_spans_per_trace`"
    # Shortened values are not counted anywhere: this limit is the only one left.
    return "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT"
