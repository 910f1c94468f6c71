"""Trust in values from outside: one answer for each channel and decision, and the deployment's key.

Signatures, proofs and keyed randomness are made and checked here.
"""

from __future__ import annotations

import hmac
import os
import secrets
import time
from collections.abc import Mapping
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Final, Literal, get_args

TRUST_KEY = "OTEL_EVALS_TRUST_KEY"
"""The environment variable with the key that all services of a deployment share."""
SECONDS = 3_600
"""Seconds for which a signature is created; those of the previous and the next hour are valid too."""
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

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
    "u": "yes: your own sampler may obey its unsampled flag; counted",
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


# --- the key ---


def signature() -> str:
    """Return the mark's value in baggage and tracestate during this hour."""
    return _signature_of(int(time.time()) // SECONDS)


def is_signature(value: object) -> bool:
    """Return True for a signature of this hour or an adjacent one: clocks differ and scorers take time."""
    if not isinstance(value, str):
        return False
    given, hour = value.encode(errors="replace"), int(time.time()) // SECONDS
    return any(hmac.compare_digest(_signature_of(h).encode(), given) for h in (hour, hour - 1, hour + 1))


def proof_of(trace_id: str, span_id: str) -> str:
    """Return the proof that this very span was marked by a process with the key; ids in hex."""
    return _signed(f"{trace_id} {span_id}")


def is_proof(value: object, trace_id: str, span_id: str) -> bool:
    """Return True for the proof of this span."""
    given = value.encode(errors="replace") if isinstance(value, str) else b""
    return hmac.compare_digest(proof_of(trace_id, span_id).encode(), given)


def keyed_number(kind: bytes, name: bytes) -> int:
    """Return 128 bits for a name that nobody can predict without the key; `kind` has at most 16 bytes."""
    keyed = _keyed(kind).copy()
    keyed.update(name)
    return int.from_bytes(keyed.digest())


@lru_cache(maxsize=8)
def _signature_of(hour: int) -> str:
    return _signed(f"{hour}")


def _signed(text: str) -> str:
    return f"{keyed_number(b'signature', text.encode('utf-8', 'surrogatepass')):032x}"


@lru_cache(maxsize=8)
def _keyed(kind: bytes) -> blake2b:
    """Return keyed BLAKE2b (RFC 7693) for one kind of names.

    It takes a quarter of the time of HMAC with SHA-256, and the root of each unsampled trace pays for it.
    """
    return blake2b(key=_key(), person=kind, digest_size=16)


@lru_cache(maxsize=1)
def _key() -> bytes:
    """Return the key from the environment, or else one that this machine's processes share until a reboot.

    The kernel's boot id is random and visible to local processes only, including containers. On other systems
    each process, with its forks, has a key of its own.
    """
    given = os.fsencode(os.environ.get(TRUST_KEY, "").strip())
    if given:
        return given if len(given) <= blake2b.MAX_KEY_SIZE else blake2b(given).digest()
    try:
        return _BOOT_ID.read_bytes()
    except OSError:
        return secrets.token_bytes(32)
