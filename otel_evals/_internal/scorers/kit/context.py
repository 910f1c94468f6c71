"""Resolvers: the evidence a judge is shown in addition to a run's input and output.

A resolver is any callable, sync or async, that takes Params and returns texts. It is called once, before
`analyze`; its context serves all later steps.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from otel_evals._internal.model import Availability, Context, ContextSeen, Run, ToolCall
from otel_evals._internal.model.convention import content_setting
from otel_evals._internal.model.runs import attributes_of
from otel_evals._internal.util.calls import call
from otel_evals._internal.util.plain import MAX_JSON, as_text, read_json

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


AnyParams = Params[Any, Any]
Found = Context | Sequence[str] | str | None
Resolver = Callable[[AnyParams], Found | Awaitable[Found]]
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
        text=_shortened(context.pieces, MAX_JSON),
    )


async def resolve(resolver: Resolver, params: Params[Any, Any]) -> Context:
    """Call a resolver and check its result.

    Raises:
        TypeError: it returned something other than texts.
    """
    found = await call(resolver, params)
    if isinstance(found, Context):
        return found
    # Before the check for an iterable: a text would be split into its characters.
    if found is None or isinstance(found, str):
        return Context((found,) if found else ())
    if not isinstance(found, Iterable) or isinstance(found, bytes | Mapping):
        raise TypeError(f"get_context must return a list of texts, not {type(found).__name__}")
    pieces = tuple(found)
    wrong = [type(piece).__name__ for piece in pieces if not isinstance(piece, str)]
    if wrong:
        raise TypeError(f"get_context must return a list of texts, not of {wrong[0]}")
    return Context(pieces)


# --- ready-made resolvers: values, which compare and count in a scorer's version ---


@dataclass(frozen=True)
class _Resolver:
    function: Callable[..., Any]
    options: tuple[Any, ...] = ()

    def __call__(self, params: AnyParams) -> Found | Awaitable[Found]:
        found: Found | Awaitable[Found] = self.function(params, *self.options)
        return found


def tool_results(tools: Iterable[str] | None = None) -> Resolver:
    """Resolve to the run's tool calls with a result or an error, one piece per call, oldest first.

    Args:
        tools: names of the tools to show; all by default.
    """
    # A single name is no iterable here: its letters would be the names.
    names = None if tools is None else frozenset([tools] if isinstance(tools, str) else tools)
    return _Resolver(_tool_results, (names,))


def _tool_results(params: AnyParams, tools: frozenset[str] | None) -> Context:
    calls = [c for c in params.run.tool_calls if tools is None or c.name in tools]
    pieces = tuple(filter(None, map(_outcome, calls)))
    return Context(pieces, note=None if pieces else _why_no_results(params.run, len(calls)))


def _outcome(tool_call: ToolCall) -> str | None:
    arguments = "" if tool_call.arguments is None else as_text(tool_call.arguments)
    if tool_call.error is not None or tool_call.status == "error":
        error = tool_call.error or tool_call.error_type or as_text(tool_call.result or "no reason recorded")
        return f"{tool_call.name}({arguments}) failed: {error}"
    if tool_call.result is None:
        return None
    return f"{tool_call.name}({arguments}) returned:\n{as_text(tool_call.result)}"


def _why_no_results(run: Run, calls: int) -> str:
    if run.availability.get("tool_results") is Availability.CAPTURED_OFF:
        setting = content_setting(run.scope_name, run.convention)
        return f"tool results were left out; content capture: {setting}"
    return f"{calls} tool calls match, none with a recorded result" if calls else "no tool call matches"


def evidence() -> Resolver:
    """Resolve to everything that tools and retrievers brought: all tool calls, then the documents.

    A call whose result was not recorded is one of the pieces too.
    """
    return _Resolver(_evidence)


def _evidence(params: AnyParams) -> Context:
    calls = [
        _outcome(c) or f"{c.name}({as_text(c.arguments or '')}): its result was not recorded"
        for c in params.run.tool_calls
    ]
    return Context((*calls, *_contents(params.run)))


def documents(*, top: int | None = None) -> Resolver:
    """Resolve to the run's retrieved documents, one piece per document, at most `top` of them."""
    return _Resolver(_documents, (top,))


def _documents(params: AnyParams, top: int | None) -> Context:
    contents = tuple(_contents(params.run)[:top])
    return Context(contents, note=None if contents else "no retrieved document with its content recorded")


def _contents(run: Run) -> list[str]:
    return [document.content for document in run.documents if document.content]


def static(*pieces: str) -> Resolver:
    """Resolve to the same texts for every run."""
    return _Resolver(_static, pieces)


def _static(params: AnyParams, *pieces: str) -> Context:
    return Context(pieces)


def attribute(key: str) -> Resolver:
    """Resolve to a span attribute, of the root or else of the first span that has it.

    A list gives one piece per item; so does a text that is a JSON list.
    """
    return _Resolver(_attribute, (key,))


# The last attributes of a run are its resource's, which belong to no span.
def _attribute(params: AnyParams, key: str) -> Context:
    places = [place for place in attributes_of(params.run)[:-1] if key in place]
    pieces = tuple(_texts(places[0][key])) if places else ()
    return Context(pieces, note=None if pieces else f"no span of the run has {key}")


def _texts(value: Any) -> list[str]:
    if isinstance(value, str) and len(value) <= MAX_JSON and value.lstrip().startswith("["):
        with contextlib.suppress(ValueError):
            value = read_json(value)
    items = value if isinstance(value, list | tuple) else [value]
    return [as_text(item) for item in items if item not in (None, "")]


def conversation(*, last: int = 10) -> Resolver:
    """Resolve to the last messages before this turn, one piece each, oldest first."""
    return _Resolver(_conversation, (last,))


def _conversation(params: AnyParams, last: int) -> Context:
    said = said_before(params.run)
    # A slice from -0 would be everything.
    return Context(
        tuple(said[-last:] if last else ()), note=None if said else "nothing was said before this turn"
    )


def said_before(run: Run) -> list[str]:
    """Return the messages before a run, with their roles."""
    return [f"{m.role}: {m.text}" for m in run.history if m.role != "system" and m.text]


def combine(*resolvers: Resolver) -> Resolver:
    """Resolve to the pieces of several resolvers, in this order."""
    return _Resolver(_combined, resolvers)


async def _combined(params: AnyParams, *resolvers: Resolver) -> Context:
    found = [await resolve(resolver, params) for resolver in resolvers]
    return Context(
        tuple(piece for context in found for piece in context.pieces),
        truncated=any(context.truncated for context in found),
        note="; ".join(context.note for context in found if context.note) or None,
    )


def _shortened(pieces: Sequence[str], max_chars: int) -> tuple[str, ...]:
    """Keep the pieces that fit into `max_chars`, in order, and note a cut in the text."""
    kept: list[str] = []
    capacity = max_chars
    for index, piece in enumerate(pieces, 1):
        if len(piece) > capacity:
            more = f", and {len(pieces) - index} more pieces" if index < len(pieces) else ""
            return (*kept, f"{piece[:capacity]}[{len(piece) - capacity} characters left out{more}]")
        kept.append(piece)
        capacity -= len(piece)
    return tuple(kept)
