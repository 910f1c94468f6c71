"""Resolvers: the evidence a judge is shown in addition to a run's input and output.

A resolver is any callable, sync or async, that takes Params and returns texts. It is called before
`analyze` and again before `generate_reason`; one marked `pure` is called once and its context serves both.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from msgspec.structs import replace

from otel_evals._internal.model import Availability, Context, ContextSeen, Run, ToolCall
from otel_evals._internal.model.convention import content_setting
from otel_evals._internal.model.runs import attributes_of
from otel_evals._internal.util.calls import call
from otel_evals._internal.util.plain import MAX_JSON, as_text, read_json
from otel_evals.errors import ConfigError

StepName = Literal["preprocess", "analyze", "generate_score", "generate_reason"]

_P = TypeVar("_P", covariant=True)
_A = TypeVar("_A", covariant=True)


@dataclass(frozen=True)
class Results(Generic[_P, _A]):
    """The results of earlier steps; None if there is no such step."""

    preprocess: _P
    analyze: _A


@dataclass(frozen=True, kw_only=True)
class Params(Generic[_P, _A]):
    """The arguments of a step or a resolver."""

    run: Run
    results: Results[_P, _A]
    step: StepName
    """The next step."""
    context: Context | None = None
    """The resolved context; None if the scorer has no resolver, and in the resolver itself."""
    score: float | None = None
    """The score; only in `generate_reason`."""


Found = Context | Sequence[str] | str | None
Resolver = Callable[[Params[Any, Any]], Found | Awaitable[Found]]
"""Returns the context of a run."""


def seen(context: Context) -> ContextSeen:
    """Return the record of a context: digest, count, and the texts, truncated if very long."""
    digest = hashlib.sha256()
    for piece in context.pieces:  # with its length: no two lists of pieces share a digest
        data = piece.encode("utf-8", "surrogatepass")
        digest.update(b"%d:" % len(data) + data)
    return ContextSeen(
        digest=digest.hexdigest(),
        pieces=len(context.pieces),
        truncated=context.truncated,
        text=limit(context.pieces, MAX_JSON).pieces,
    )


async def resolve(resolver: Resolver, params: Params[Any, Any]) -> Context:
    """Call a resolver and check its result.

    Raises:
        TypeError: it returned something other than texts.
    """
    found = await call(resolver, params)
    if isinstance(found, Context):
        return found
    if found is None or isinstance(found, str):
        return Context((found,) if found else ())
    if not isinstance(found, Iterable) or isinstance(found, bytes | Mapping):
        raise TypeError(f"get_context must return a list of texts, not {type(found).__name__}")
    pieces = tuple(found)
    if wrong := next((piece for piece in pieces if not isinstance(piece, str)), None):
        raise TypeError(f"get_context must return a list of texts, not of {type(wrong).__name__}")
    return Context(pieces)


def is_pure(resolver: Resolver) -> bool:
    return bool(getattr(resolver, "pure", False))


# --- ready-made resolvers: values, which compare and count in a scorer's version ---


@dataclass(frozen=True)
class _Pure:
    function: Callable[..., Any]
    options: tuple[Any, ...] = ()
    pure = True

    def __call__(self, params: Params[Any, Any]) -> Found | Awaitable[Found]:
        found: Found | Awaitable[Found] = self.function(params, *self.options)
        return found


def pure(resolver: Resolver) -> Resolver:
    """Declare that a resolver depends on the run alone: it is called once for both steps."""
    return _Pure(resolver)


def tool_results(
    tools: Iterable[str] | None = None,
    *,
    include_errors: bool = True,
    order: Literal["oldest", "newest"] = "oldest",
    max_chars: int | None = None,
) -> Resolver:
    """Resolve to the run's tool calls, one piece per call: name, arguments and result.

    Args:
        tools: names of the tools to show; all by default.
        include_errors: show failed calls, with their error.
        order: the results that come first, and are kept if there are too many.
        max_chars: limit over all pieces; by default only the judge's limit applies.
    """
    if order not in ("oldest", "newest"):
        raise ConfigError("tool_results.order", f"must be 'oldest' or 'newest', not {order!r}")
    names = None if tools is None else frozenset([tools] if isinstance(tools, str) else tools)
    return _Pure(_tool_results, (names, include_errors, order, _checked("tool_results", max_chars)))


def _tool_results(
    params: Params[Any, Any],
    tools: frozenset[str] | None,
    include_errors: bool,
    order: str,
    max_chars: int | None,
) -> Context:
    calls = [c for c in params.run.tool_calls if tools is None or c.name in tools]
    pieces = [text for c in calls if (text := _outcome(c, include_errors)) is not None]
    context = limit(pieces if order == "oldest" else pieces[::-1], max_chars)
    return context if pieces else replace(context, note=_why_no_results(params.run, len(calls)))


def _outcome(tool_call: ToolCall, include_errors: bool) -> str | None:
    arguments = "" if tool_call.arguments is None else as_text(tool_call.arguments)
    if tool_call.error is not None or tool_call.status == "error":
        error = tool_call.error or tool_call.error_type or as_text(tool_call.result or "no reason recorded")
        return f"{tool_call.name}({arguments}) failed: {error}" if include_errors else None
    if tool_call.result is None:
        return None
    return f"{tool_call.name}({arguments}) returned:\n{as_text(tool_call.result)}"


def evidence() -> Resolver:
    """Resolve to everything that tools and retrievers brought: all tool calls, then the documents.

    A call whose result was not recorded is one of the pieces too.
    """
    return _Pure(_evidence)


def _evidence(params: Params[Any, Any]) -> Context:
    calls = [
        _outcome(c, True) or f"{c.name}({as_text(c.arguments or '')}): its result was not recorded"
        for c in params.run.tool_calls
    ]
    return Context((*calls, *(d.content for d in params.run.documents if d.content)))


def _why_no_results(run: Run, calls: int) -> str:
    if run.availability.get("tool_results") is Availability.CAPTURED_OFF:
        setting = content_setting(run.scope_name, run.convention)
        return f"tool results were left out; content capture: {setting}"
    return f"{calls} tool calls match, none with a recorded result" if calls else "no tool call matches"


def documents(*, top: int | None = None, max_chars: int | None = None) -> Resolver:
    """Resolve to the run's retrieved documents, one piece per document, at most `top` of them."""
    return _Pure(_documents, (top, _checked("documents", max_chars)))


def _documents(params: Params[Any, Any], top: int | None, max_chars: int | None) -> Context:
    contents = [d.content for d in params.run.documents if d.content][:top]
    found = limit(contents, max_chars)
    return found if contents else replace(found, note="no retrieved document with its content recorded")


def static(*pieces: str) -> Resolver:
    """Resolve to the same texts for every run."""
    return _Pure(_static, pieces)


def _static(params: Params[Any, Any], *pieces: str) -> Context:
    return Context(pieces)


def attribute(key: str, *, max_chars: int | None = None) -> Resolver:
    """Resolve to a span attribute, of the root or else of the first span that has it.

    A list gives one piece per item; so does a text that is a JSON list.
    """
    return _Pure(_attribute, (key, _checked("attribute", max_chars)))


def _attribute(params: Params[Any, Any], key: str, max_chars: int | None) -> Context:
    values = [place[key] for place in attributes_of(params.run)[:-1] if key in place][:1]
    found = limit([text for value in values for text in _texts(value)], max_chars)
    return found if found.pieces else replace(found, note=f"no span of the run has {key}")


def _texts(value: Any) -> list[str]:
    if isinstance(value, str) and len(value) <= MAX_JSON and value.lstrip().startswith("["):
        with contextlib.suppress(ValueError):
            value = read_json(value)
    items = value if isinstance(value, list | tuple) else [value]
    return [as_text(item) for item in items if item not in (None, "")]


def conversation(*, last: int = 10, max_chars: int | None = None) -> Resolver:
    """Resolve to the last messages before this turn, one piece each, oldest first."""
    return _Pure(_conversation, (last, _checked("conversation", max_chars)))


def _conversation(params: Params[Any, Any], last: int, max_chars: int | None) -> Context:
    said = [f"{m.role}: {m.text}" for m in params.run.history if m.role != "system" and m.text]
    found = limit(said[-last:], max_chars)
    return found if said else replace(found, note="nothing was said before this turn")


@dataclass(frozen=True)
class _Combined:
    resolvers: tuple[Resolver, ...]

    @property
    def pure(self) -> bool:
        return all(is_pure(resolver) for resolver in self.resolvers)

    async def __call__(self, params: Params[Any, Any]) -> Context:
        found = [await resolve(resolver, params) for resolver in self.resolvers]
        return Context(
            tuple(piece for context in found for piece in context.pieces),
            truncated=any(context.truncated for context in found),
            note="; ".join(context.note for context in found if context.note) or None,
        )


def combine(*resolvers: Resolver) -> Resolver:
    """Resolve to the pieces of several resolvers, in this order."""
    return _Combined(resolvers)


def limit(pieces: Sequence[str], max_chars: int | None) -> Context:
    """Keep the pieces that fit into `max_chars` (None: all), in order, and note a cut in the text."""
    if max_chars is None:
        return Context(tuple(pieces))
    kept: list[str] = []
    capacity = max_chars
    for index, piece in enumerate(pieces):
        if len(piece) > capacity:
            more = f", and {rest} more pieces" if (rest := len(pieces) - index - 1) else ""
            cut = f"{piece[:capacity]}[{len(piece) - capacity} characters left out{more}]"
            return Context((*kept, cut), truncated=True)
        kept.append(piece)
        capacity -= len(piece)
    return Context(tuple(kept))


def _checked(name: str, max_chars: int | None) -> int | None:
    if max_chars is not None and max_chars < 1:
        raise ConfigError(f"{name}.max_chars", f"must be at least 1, not {max_chars}")
    return max_chars
