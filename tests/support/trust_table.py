"""Trust in values from outside: one answer for each channel and decision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, get_args

Channel = Literal[
    "HTTP header",
    "baggage",
    "tracestate",
    "traceparent",
    "span attribute",
    "resource attribute",
    "OTLP body",
    "Kafka key",
    "file",
    "web form",
    "plug-in return value",
]
"""The origin of an untrusted value."""
Decision = Literal["ignore", "sample", "weigh", "join", "name", "price", "overwrite", "log", "render"]
"""Ignore a run, sample it, weigh it in estimates, join it to another, name it, price its scoring, overwrite a
score, write a log line, appear on a terminal or page."""

_ANSWERS: Final[Mapping[str, str]] = {
    "-": "cannot",
    "s": "only if signed",
    "w": "yes: one warning per process, without the value",
    "q": "yes: where an error quotes it; commands escape it, your own log handlers may not",
    "e": "yes: as text, escaped",
    "u": "yes: your own sampler may obey its unsampled flag",
    "t": "yes: requests with one trace id share a trace; each stays a run",
    "r": "yes: only for rules whose `when` or `sample` reads it",
    "c": "yes: a conversation id joins runs of one service and user",
    "v": "yes: conversations are joined within one `service.name`",
    "i": "yes: trace, span and conversation ids; who may send is up to addresses and tokens",
    "n": "yes: agents, models and tools; metrics keep the first 100 names",
    "m": "yes: the service",
    "o": "yes: its own spans, by the scope `otel_evals`; the gateway counts them; a mark only if signed",
    "h": "yes: a head sampler's probability of at least 2^-20",
    "f": "yes: trace ids; score a file whole if others wrote it",
    "l": "yes: people's labels, with the page's token",
    "x": "yes: a rule's `when`",
    "p": "yes: a probability from 0 to 1, which is recorded",
    "b": "yes: labels and reasons of up to 256 characters, the first 100 in counters",
    "d": "yes: the finite cost of its own steps",
}
_TRUST: Final[Mapping[Channel, str]] = {  # one letter for each decision
    "HTTP header": "---------",
    "baggage": "s------w-",
    "tracestate": "s------w-",
    "traceparent": "u--t-----",
    "span attribute": "sr-cn--qe",
    "resource attribute": "-r-vm----",
    "OTLP body": "orhin--qe",
    "Kafka key": "---------",
    "file": "ofhin--qe",
    "web form": "------l-e",
    "plug-in return value": "xpp-bd-qe",
}


def answer(channel: Channel, decision: Decision) -> str:
    """Return `cannot`, `only if signed`, or `yes: ` and how it is bounded."""
    return _ANSWERS[_TRUST[channel][get_args(Decision).index(decision)]]


def table() -> str:
    """Return all answers as a table in Markdown."""
    columns = get_args(Decision)
    rows = [[channel, *(answer(channel, each) for each in columns)] for channel in get_args(Channel)]
    lines = [["channel", *columns], ["---"] * (1 + len(columns)), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
