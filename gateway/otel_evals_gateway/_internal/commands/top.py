"""`otel-evals top`: a running gateway, live on a terminal."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import typer

from otel_evals.errors import ConfigError
from otel_evals.sdk.commands import echo, visible

_ANSWER_SECONDS = 10.0
_ENDS = ("received", "rejected", "to_judge", "forwarded", "refused", "lost")

Stats = Mapping[str, Any]


def top(
    gateway: str = typer.Argument("http://127.0.0.1:4318", help="Base URL of the gateway's HTTP port."),
    interval: float = typer.Option(2.0, min=0.1, help="Seconds between two updates."),
    once: bool = typer.Option(False, "--once", help="Print one update as plain text, and exit."),
    token: str | None = typer.Option(
        None, envvar="OTEL_EVALS_TOKEN", help="Bearer token, if the gateway requires one."
    ),
) -> None:
    """Show the rates, scores, costs and losses of a running gateway.

    Exits with 1 if the gateway does not answer.
    """
    from rich.console import Console

    console = Console()
    try:
        before = _read(gateway, token)
        while True:
            time.sleep(interval)
            now = _read(gateway, token)
            if once:
                echo("\n".join(_lines(before, now)))
                return
            title = f"{gateway}, every {interval:g} s; Ctrl-C ends\n"
            console.clear()
            console.print("\n".join([title, *_lines(before, now)]), markup=False, highlight=False)
            # Rates are differences of two updates, so they need no state in the gateway.
            before = now
    except ConfigError as error:
        echo(f"otel-evals top: {error}", err=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        raise typer.Exit(0) from None


def _counts(stats: Stats) -> dict[str, int]:
    scored = sum(int(rule["scored"]) for rule in stats["rules"].values())
    items = {f"{signal}.{end}": n for signal, ends in stats["items"].items() for end, n in ends.items()}
    return {"runs": stats["runs"]["seen"], "scored": scored, **items}


def _read(gateway: str, token: str | None) -> Stats:
    try:
        request = urllib.request.Request(f"{gateway.rstrip('/')}/stats")
        if token:  # redirects must not get the token
            request.add_unredirected_header("Authorization", f"Bearer {token}")
        with urllib.request.urlopen(request, timeout=_ANSWER_SECONDS) as response:
            stats: Stats = json.load(response)
        if "runs" in stats:
            return stats
        raise ValueError("not the counters of a gateway")
    except (OSError, ValueError) as error:
        if isinstance(error, urllib.error.HTTPError) and error.code == 401:
            problem = "refuses this bearer token" if token else "requires a bearer token"
            raise ConfigError(gateway, f"{problem}: give --token or set OTEL_EVALS_TOKEN") from error
        raise ConfigError(gateway, f"no gateway answers there: {getattr(error, 'reason', error)}") from error


def _lines(before: Stats, now: Stats) -> Iterator[str]:
    seconds, earlier = max(now["time"] - before["time"], 1e-3), _counts(before)
    # A lower count means a restart.
    found = {name: max(0, n - earlier.get(name, 0)) / seconds for name, n in _counts(now).items()}
    yield f"health     {now['health']}"
    for signal in now["items"]:
        parts = [f"{found[key]:,.0f} {end}" for end in _ENDS if (key := f"{signal}.{end}") in found]
        yield f"{signal:10} {', '.join(parts)} per second"
    yield "runs       {runs:,.1f} seen and {scored:,.1f} scores per second".format_map(found)
    yield "waiting    {queue:,} in the queue, {open_traces:,} open traces".format_map(now)
    if kafka := now.get("kafka"):
        yield "kafka      {lag:,} messages of lag, {assigned} partitions assigned".format_map(kafka)
    yield ""
    yield from _table([_HEAD, *(_rule(name, rule, now) for name, rule in now["rules"].items())])
    losses = Counter({**now["losses"], **{f"runs ({k})": n for k, n in now["runs"]["ignored"].items()}})
    yield "\nlost or ignored" if losses else "\nnothing lost or ignored"
    yield from (f"  {count:>10,}  {visible(reason)}" for reason, count in losses.most_common())
    for name, counts in now["destinations"].items():
        lost = counts["failed"] + counts["dropped"]
        yield f"{visible(name)}: {counts['exported']:,} delivered, {lost:,} lost"


_HEAD = ("scorer", "mean", "of", "scored", "not scored", "failed", "dropped", "pending", "USD", "tokens")


def _rule(name: str, rule: Stats, now: Stats) -> tuple[str, ...]:
    recent = {"mean": None, "of": 0, "cost": 0, "tokens": 0, **now["scorers"].get(name, {})}
    mean = "-" if recent["mean"] is None else f"{recent['mean']:.3f}"
    others = [sum(rule[end].values()) for end in ("not_scored", "failed", "dropped")]
    counts = [f"{count:,}" for count in (rule["scored"], *others, rule["pending"])]
    return visible(name), mean, str(recent["of"]), *counts, f"{recent['cost']:.4f}", f"{recent['tokens']:,}"


def _table(rows: list[tuple[str, ...]]) -> Iterator[str]:
    """Align rows: the first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *rest in rows:
        cells = [cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True)]
        yield "  ".join([first.ljust(widths[0]), *cells])
