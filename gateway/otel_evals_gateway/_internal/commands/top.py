"""`otel-evals top`: a running gateway, live on a terminal."""

from __future__ import annotations

import functools
import json
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import typer

from otel_evals.errors import ConfigError
from otel_evals.sdk.commands import echo, visible

_SECONDS = 10.0
"""Timeout of a request to the gateway."""
_ENDS = ("received", "rejected", "to_judge", "forwarded", "refused", "lost")

Stats = Mapping[str, Any]


def top(
    gateway: str = typer.Argument("http://127.0.0.1:4318", help="Base URL of the gateway's HTTP port."),
    interval: float = typer.Option(2.0, min=0.1, help="Seconds between two updates."),
    once: bool = typer.Option(False, "--once", help="Print one update as plain text, and exit."),
    as_json: bool = typer.Option(False, "--json", help="Print one update as JSON, and exit."),
    cafile: str | None = typer.Option(None, help="PEM file with the authority of the gateway's certificate."),
    token: str | None = typer.Option(
        None, envvar="OTEL_EVALS_TOKEN", help="Bearer token, if the gateway requires one."
    ),
) -> None:
    """Show the rates, scores, costs and losses of a running gateway.

    Exits with 1 if the gateway does not answer.
    """
    read = functools.partial(_read, gateway, cafile, token)
    try:
        before = read()
        if once or as_json:
            time.sleep(interval)
            now = read()
            found = {**now, "rates": rates(before, now)}
            echo(json.dumps(found) if as_json else "\n".join(_lines(before, now)))
        else:
            _live(gateway, read, interval, before)
    except ConfigError as error:
        echo(f"otel-evals top: {error}", err=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        raise typer.Exit(0) from None


def rates(before: Stats, now: Stats) -> dict[str, float]:
    """Return rates per second between two updates: spans and log records by outcome, runs, scores."""
    seconds = max(now["time"] - before["time"], 1e-3)

    def rate(count: int, earlier: int) -> float:
        return float(max(0, count - earlier) / seconds)  # a lower count means a restart

    found = {
        f"{signal}.{end}": rate(ends[end], before["items"].get(signal, {}).get(end, 0))
        for signal, ends in now["items"].items()
        for end in _ENDS
        if end in ends
    }
    found["runs"] = rate(now["runs"]["seen"], before["runs"]["seen"])
    found["scored"] = rate(_scored(now), _scored(before))
    return found


def _scored(stats: Stats) -> int:
    return sum(int(rule["scored"]) for rule in stats["rules"].values())


def _read(gateway: str, cafile: str | None, token: str | None) -> Stats:
    import ssl

    try:
        request = urllib.request.Request(f"{gateway.rstrip('/')}/stats")
        if token:  # redirects must not get the token
            request.add_unredirected_header("Authorization", f"Bearer {token}")
        tls = ssl.create_default_context(cafile=cafile) if gateway.startswith("https:") else None
        with urllib.request.urlopen(request, timeout=_SECONDS, context=tls) as response:
            stats: Stats = json.load(response)
            if "rules" in stats and "runs" in stats:
                return stats
            raise ValueError("not the counters of a gateway")
    except (OSError, ValueError, urllib.error.URLError) as error:
        if isinstance(error, urllib.error.HTTPError) and error.code == 401:
            problem = "refuses this bearer token" if token else "requires a bearer token"
            raise ConfigError(gateway, f"{problem}: give --token or set OTEL_EVALS_TOKEN") from error
        reason = getattr(error, "reason", None) or error
        raise ConfigError(gateway, f"no gateway answers there: {reason}") from error


def _live(gateway: str, read: Callable[[], Stats], interval: float, before: Stats) -> None:
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    with Live(screen=True, auto_refresh=False) as screen:
        shown = Text("")
        while True:
            try:
                now = read()
                shown = Text("\n".join(_lines(before, now)), no_wrap=True)
                before, problem = now, Text(f"{gateway}, every {interval:g} s; Ctrl-C ends")
            except ConfigError as error:
                problem = Text(str(error), style="bold red")
            screen.update(Group(problem, Text(""), shown), refresh=True)
            time.sleep(interval)


def _lines(before: Stats, now: Stats) -> Iterator[str]:
    found = rates(before, now)
    yield f"health     {now['health']}"
    for signal in now["items"]:
        parts = [f"{found[key]:,.0f} {end}" for end in _ENDS if (key := f"{signal}.{end}") in found]
        yield f"{signal:10} {', '.join(parts)} per second"
    yield f"runs       {found['runs']:,.1f} seen and {found['scored']:,.1f} scores per second"
    yield f"waiting    {now['queue']:,} in the queue, {now['open_traces']:,} open traces"
    if kafka := now.get("kafka"):
        age = kafka["oldest_uncommitted_seconds"]
        yield f"kafka      {kafka['lag']:,} messages of lag, {kafka['assigned']} partitions assigned"
        yield f"           {kafka['uncommitted']:,} messages not committed, the oldest for {age:.0f} s"
    yield ""
    yield from _table(_rules(now))
    losses = {**now["losses"], **{f"runs ({k})": n for k, n in now["runs"]["ignored"].items()}}
    yield ""
    yield "lost or ignored" if losses else "nothing lost or ignored"
    yield from (f"  {count:>10,}  {visible(reason)}" for reason, count in Counter(losses).most_common())
    for name, counts in now["destinations"].items():
        lost = counts["failed"] + counts["dropped"]
        yield f"{visible(name)}: {counts['exported']:,} delivered" + (f", {lost:,} lost" if lost else "")
    if now["worst"]:
        yield ""
        yield "worst of the latest runs"
        yield from _table(_worst(now))


def _rules(now: Stats) -> Iterator[list[str]]:
    yield ["scorer", "mean", "of", "scored", "not scored", "failed", "dropped", "pending", "USD", "tokens"]
    for name, rule in now["rules"].items():
        recent = now["scorers"].get(name, {})
        mean = recent.get("mean")
        yield [
            visible(name),
            "-" if mean is None else f"{mean:.3f}",
            str(recent.get("of", 0)),
            f"{rule['scored']:,}",
            *(f"{sum(rule[end].values()):,}" for end in ("not_scored", "failed", "dropped")),
            f"{rule['pending']:,}",
            f"{recent.get('cost', 0):.4f}",
            f"{recent.get('tokens', 0):,}",
        ]


def _worst(now: Stats) -> Iterator[list[str]]:
    yield ["scorer", "score", "agent", "trace", "ago"]
    for row in now["worst"]:
        ago = max(0, int(now["time"] - row["time"]))
        agent = visible(row["agent"] or "-")[:24]
        yield [visible(row["scorer"]), f"{row['score']:g}", agent, row["trace_id"], f"{ago} s"]


def _table(rows: Iterator[list[str]]) -> Iterator[str]:
    """Align rows: the first column to the left, the others to the right."""
    listed = list(rows)
    widths = [max(map(len, column)) for column in zip(*listed, strict=True)]
    for first, *rest in listed:
        cells = [cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True)]
        yield "  ".join([first.ljust(widths[0]), *cells])
