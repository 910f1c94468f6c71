"""`otel-evals labels pull`: people's feedback in a backend, as labels and feedback in a results store."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec.structs import replace

from otel_evals.errors import ConfigError, DestinationError
from otel_evals.sdk.commands import AsJson, done, echo, exit_on
from otel_evals_monitor._internal.commands.shared_options import Store

if TYPE_CHECKING:
    from otel_evals.model import Feedback
    from otel_evals_monitor._internal.store.database import Database
    from otel_evals_monitor._internal.store.feedback_import import PullRules

labels = typer.Typer(help="Import people's feedback from a backend.", no_args_is_help=True)

_AT_ONCE = 500


@labels.callback()
def _commands() -> None:
    """Keep Typer from merging `pull` into `labels`."""


@labels.command()
def pull(
    place: Annotated[str, typer.Argument(help="NAME, or NAME=URL; see `destinations list`.")],
    store: Store,
    name: Annotated[
        list[str] | None,
        typer.Option(help="Only this name, from programs too; NAME=SCORER if the scorer's name differs."),
    ] = None,
    value: Annotated[list[str] | None, typer.Option(help="Value of a category: good=1.")] = None,
    window: Annotated[str, typer.Option(help="Last recorded period only: 24h, 30d.")] = "30d",
    most: Annotated[int, typer.Option(min=1, help="Maximum number of items to read.")] = 100_000,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds for the whole import.")] = 300.0,
    content: Annotated[bool, typer.Option(help="Keep the comments.")] = True,
    as_json: AsJson = False,
) -> None:
    """Import feedback from a backend, as labels of recorded scores or as feedback on traces."""
    import anyio

    with exit_on(OSError, command="labels pull", extra="results"):
        from otel_evals.sdk.commands import backend
        from otel_evals_monitor._internal.store.database import Database
        from otel_evals_monitor._internal.store.feedback_import import PullRules

        numbers = {k: _number(v) for k, v in _pairs("--value", value).items()}
        rules = PullRules(backend=place.partition("=")[0], names=_pairs("--name", name), values=numbers)
        source = backend(place)
        with closing(Database(store, create=False)) as database:
            pulling = _Import(source, database, rules, content)
            anyio.run(pulling.run, window, most, timeout)
    _print_counts(pulling, rules, as_json)


class _Import:
    """One import; items read before a failure are kept."""

    def __init__(self, source: Any, database: Database, rules: PullRules, content: bool) -> None:
        self.read = 0
        self.done: Counter[str] = Counter()
        self.problem: str | None = None
        self._source, self._database, self._rules, self._content = source, database, rules, content
        self._waiting: list[Feedback] = []

    async def run(self, window: str, most: int, seconds: float) -> None:
        import anyio

        try:
            with anyio.fail_after(seconds):
                await self._read(self._asked(window), most)
        except TimeoutError:
            self.problem = f"not finished within {seconds:g} s; give a shorter --window, or more --timeout"
        except DestinationError as error:
            self.problem = str(error)
        finally:
            self._keep()
            await self._source.shutdown()

    def _asked(self, window: str) -> AsyncIterator[Feedback | None]:
        from otel_evals.sources import FeedbackQuery
        from otel_evals_monitor._internal.report.inputs import window_of
        from otel_evals_monitor._internal.store.feedback_import import judged_spans

        since = (window_of(self._database, None, None, window).since or 0) * 1_000_000_000
        with self._database.reading() as connection:
            judged = tuple(judged_spans(connection, since))
        query = FeedbackQuery(since=since, names=tuple(self._rules.names), judged=judged)
        read = getattr(self._source, "read_feedback", lambda _: None)
        if (found := read(query)) is None:
            raise ConfigError(self._rules.backend, "has no API that feedback can be read from")
        return found  # type: ignore[no-any-return]

    async def _read(self, found: AsyncIterator[Feedback | None], most: int) -> None:
        async for each in found:
            if self.read == most:
                self.problem = f"there is more than {most}: give a shorter --window, or more --most"
                return
            self.read += 1
            if each is None:
                self.done["of another form"] += 1
            else:
                self._waiting.append(each)
            if len(self._waiting) >= _AT_ONCE:
                self._keep()

    def _keep(self) -> None:
        from otel_evals.sdk.util import redact
        from otel_evals_monitor._internal.store.feedback_import import keep_feedback

        said = [
            replace(each, comment=redact(each.comment) if each.comment and self._content else None)
            for each in self._waiting
        ]
        self._waiting = []
        self.done += keep_feedback(self._database, said, self._rules)


def _print_counts(pulling: _Import, rules: PullRules, as_json: bool) -> None:
    counts, kept = pulling.done, ("labels", "feedback", "known")
    left_out = {reason: count for reason, count in counts.most_common() if reason not in kept}
    lines = [f"left out: {count} {reason}{_ADVICE.get(reason, '')}" for reason, count in left_out.items()]
    text = f"{counts['labels']} labels and {counts['feedback']} feedback written, {counts['known']} known"
    done("\n".join([text, *lines]), as_json, **{each: counts[each] for each in kept}, left_out=left_out)
    if pulling.problem is not None:
        echo(f"otel-evals labels pull: {rules.backend}: {pulling.problem}", err=True)
        raise typer.Exit(1)


_ADVICE = {
    "without a number": " (--value CATEGORY=NUMBER sets the number of a category)",
    "not by a person": " (--name NAME imports feedback that your programs sent under a name)",
}


def _pairs(field: str, given: list[str] | None) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for each in given or ():
        key, _, value = each.partition("=")
        if not key:
            raise ConfigError(field, f"{each!r} has no name")
        pairs[key] = value or ("" if field == "--value" else key)
    return pairs


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ConfigError("--value", f"must be CATEGORY=NUMBER, not {text!r}")
    return number
