"""The deployment's key: signatures, proofs and keyed randomness are made and checked here."""

from __future__ import annotations

import hmac
import os
import secrets
import time
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path

TRUST_KEY = "OTEL_EVALS_TRUST_KEY"
"""The environment variable with the key that all services of a deployment share."""
SECONDS = 3_600
"""Seconds for which a signature is created; those of the previous and the next hour are valid too."""
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def signature() -> str:
    """Return the mark's value in baggage and tracestate during this hour."""
    return _signature_of(int(time.time()) // SECONDS)


def is_signature(value: object) -> bool:
    """Return True for a signature of this hour or an adjacent one: clocks differ and scorers take time."""
    if not isinstance(value, str):
        return False
    given, hour = value.encode(errors="replace"), int(time.time()) // SECONDS
    # In constant time: its duration must not help a sender to guess a signature.
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
    # A copy: the cached state must stay without a name.
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
