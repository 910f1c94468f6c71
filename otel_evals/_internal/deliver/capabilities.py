"""What some destinations can do besides taking scored runs; those that cannot are not asked."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any

import anyio
from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY, attach, detach, set_value

from otel_evals._internal.deliver.destination import Destination
from otel_evals._internal.util.cancellation import is_cancelled
from otel_evals._internal.util.error_log import tell
from otel_evals.errors import ConfigError

_log = logging.getLogger(__name__)
_SECONDS = 10.0
_FAILED: Any = object()


async def holds(destination: Destination, evaluation_ids: Collection[str], revision: int) -> bool:
    """Whether the destination already has all of these evaluations, as far as it can tell."""
    ask = getattr(destination, "holds", None)
    if ask is None:
        return False
    return await _asked(destination, lambda: ask(evaluation_ids, revision), "tell which it has") is True


async def keeps_picks(destination: Destination, rows: Sequence[Any]) -> bool:
    """Whether the destination keeps what rules picked, or has no use for it; within ten seconds."""
    keep = getattr(destination, "keep_picks", None)
    if keep is None:
        return True
    with anyio.move_on_after(_SECONDS):
        return await _asked(destination, lambda: keep(rows), "keep what rules picked") is not _FAILED
    return False


def link_traces(destinations: Sequence[Any]) -> None:
    """Have destinations that show runs show where the others have their traces."""
    links = [each.trace_url for each in destinations if hasattr(each, "trace_url")]
    for each in destinations:
        if (link_to := getattr(each, "link_to", None)) is not None:
            link_to(links)


def show_traces_at(destination: Any, address: Any, field: str) -> None:
    """Have a destination tell this address of traces, with ids for `{trace_id}` and `{span_id}`.

    Raises:
        ConfigError: it is no such address.
    """
    text = str(address)
    places = set(re.findall(r"\{(.*?)\}", text))
    if not re.match(r"https?://\S+$", text) or "trace_id" not in places or places - {"trace_id", "span_id"}:
        raise ConfigError(field, f"{text!r} is no http address with {{trace_id}}, which may have {{span_id}}")

    def trace_url(trace_id: str, span_id: str) -> str:
        return text.replace("{trace_id}", trace_id).replace("{span_id}", span_id)

    destination.trace_url = trace_url


async def _asked(destination: Destination, ask: Callable[[], Awaitable[Any]], what: str) -> Any:
    """The answer, without spans of the destination's own client; `_FAILED` where there is none."""
    token = attach(set_value(_SUPPRESS_INSTRUMENTATION_KEY, True))
    try:
        return await ask()
    except BaseException as error:
        if is_cancelled(error):
            raise
        name = destination.name
        tell(_log, "Destination %s failed to %s", name, what, error=error, level=logging.WARNING)
        return _FAILED
    finally:
        detach(token)
