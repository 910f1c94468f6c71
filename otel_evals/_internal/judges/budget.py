"""Budgets: limits on what judges cost in a day, in money and tokens.

The maximum cost of a call is reserved before it is made, and settled afterwards, which keeps concurrent
calls, in any number of processes, within the budget together. If the usage of a call is unknown, its whole
reservation stays spent.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, NamedTuple

import anyio

from otel_evals._internal.judges.judge import Call, Settle
from otel_evals._internal.model import Usage
from otel_evals._internal.util.calls import in_thread
from otel_evals._internal.util.redis_server import RedisServer, is_address, redis_server
from otel_evals._internal.util.sqlite_file import MEMORY, SQLiteFile
from otel_evals.errors import BudgetExceededError, ConfigError, JudgeError, JudgeUnavailableError, StoreError

_log = logging.getLogger(__name__)

# Whole nano-dollars: counters are integers, and their sums do not drift as sums of floats do.
_NANO = 1_000_000_000
# Longer than a day, since a call that begins before midnight is settled after it.
_SECONDS = 2 * 86_400.0
"""Seconds for which a day's sums are kept."""
_SCHEMA = "CREATE TABLE IF NOT EXISTS counters (key TEXT PRIMARY KEY, value INTEGER, ends REAL)"


class Spent(NamedTuple):
    """Spending of a day, with what is reserved."""

    usd: float
    tokens: int
    estimated: bool
    """True if a part is an upper bound: the server of a call did not report its usage, or the call failed."""


class Budget:
    """Limits what judges cost per day (UTC). Share one object, or one store, to share the budget.

    Args:
        usd: US dollars per day.
        tokens: tokens per day, in and out.
        per: each `scorer` or each `model` has this budget for itself, or `all` share it.
        store: path of a SQLite file that shares the budget among the processes of one machine, or address
            `redis://HOST:PORT/NUMBER` of a server that shares it among machines; in memory by default.
        name: distinguishes budgets in one store.
        now: seconds since the epoch.

    Raises:
        ConfigError: `usd` and `tokens` are missing or not positive, or the address is invalid.
        StoreError: the file cannot be used, or is not private to this user.
    """

    def __init__(
        self,
        *,
        usd: float | None = None,
        tokens: int | None = None,
        per: Literal["all", "scorer", "model"] = "all",
        store: str | Path | None = None,
        name: str = "budget",
        now: Callable[[], float] = time.time,
    ) -> None:
        given = [limit for limit in (usd, tokens) if limit is not None]
        if not given or min(given) <= 0:
            raise ConfigError("budget", f"needs usd, tokens or both above 0, not usd={usd}, tokens={tokens}")
        if per not in ("all", "scorer", "model"):
            raise ConfigError("budget.per", f"must be 'all', 'scorer' or 'model', not {per!r}")
        self._usd, self._tokens, self._per, self._name, self._now = usd, tokens, per, name, now
        shared = is_address(store, "budget.store")
        # With a server, no sum is below what this process added itself, whatever the server answers.
        self._counters: list[RedisServer | FileCounters] = [redis_server(str(store))] if shared else []
        self._counters.append(FileCounters(MEMORY if store is None or shared else store))
        self._most = {"usd": math.inf if usd is None else round(usd * _NANO), "tokens": tokens or math.inf}

    def spent(self, what: str = "") -> Spent:
        """Return the dollars and tokens spent or reserved today, for one scorer or model if per those."""
        key = self._key(what)
        names = [f"budget:{key}:{part}" for part in ("usd", "tokens", "estimated")]
        usd, tokens, estimated = (max(each.value(name) for each in self._counters) for name in names)
        return Spent(usd / _NANO, tokens, estimated > 0)

    @asynccontextmanager
    async def around(self, call: Call) -> AsyncIterator[Settle]:
        """Reserve before the call, settle after it.

        Raises:
            BudgetExceededError: the rest of the budget is less than the maximum cost of the call.
            JudgeUnavailableError: the budget's file or server cannot be used now.
            JudgeError: the price is unknown, or the answer's length unlimited.
        """
        usd, tokens = self._maximum(call)
        # Taken once: a call across midnight is given back to the day that has reserved it.
        key = self._key({"scorer": call.scorer_id, "model": call.model}.get(self._per, ""))
        await self._reserve(call, key, usd, tokens)
        settled: list[tuple[Usage | None, float | None]] = []
        try:
            yield lambda usage, cost: settled.append((usage, cost))
        except JudgeError as error:
            # Refused before any work. After 408, a timeout, the provider may bill the call.
            if error.status is not None and 400 <= error.status < 500 and error.status != 408:
                settled.append((Usage(), 0.0))
            raise
        finally:
            # without an answer the call may still be billed: the reservation stays spent
            usage, cost = settled[0] if settled else (None, None)
            known = cost is not None and math.isfinite(cost) and cost >= 0.0
            back = {
                "usd": round((usd - (cost or 0.0)) * _NANO) if known else 0,
                "tokens": 0 if usage is None else tokens - max(usage.total_tokens, 0),
                # Giving back -1 adds one: an upper bound is a part of the day's sums from here on.
                "estimated": -1 if usage is None or (usd > 0.0 and not known) else 0,
            }
            # Shielded: a cancelled call would keep its reservation for the rest of the day.
            with anyio.CancelScope(shield=True):
                await in_thread(self._give_back, key, back)

    async def _reserve(self, call: Call, key: str, usd: float, tokens: int) -> None:
        try:
            fits = await in_thread(self._take, key, {"usd": round(usd * _NANO), "tokens": tokens})
        except StoreError as error:
            raise JudgeUnavailableError(f"a budget cannot be reserved: {error}") from error
        if not fits:
            limits = [f"${self._usd:g}"] if self._usd else []
            limits += [f"{self._tokens} tokens"] if self._tokens else []
            left = f"of {' and '.join(limits)} for {key.rpartition(' ')[0]} today"
            raise BudgetExceededError(
                f"{call.model}: up to ${usd:.4f} and {tokens} tokens exceed the rest of the budget {left}"
            )

    def _take(self, key: str, amounts: dict[str, int]) -> bool:
        """Add to a key's sums, unless one would exceed its limit; return True if added."""
        # Add, then compare: processes that compare before they add could exceed the limit together.
        added: dict[str, int] = {}
        for what, amount in amounts.items():
            # Noted first: the amount that exceeds its limit is taken back too.
            added[what] = -amount
            if self._add(key, what, amount) > self._most[what]:
                for taken, back in added.items():
                    self._add(key, taken, back)
                return False
        return True

    def _give_back(self, key: str, back: dict[str, int]) -> None:
        try:
            for what, amount in back.items():
                if amount:
                    self._add(key, what, -amount)
        except StoreError as error:
            _log.warning("a budget keeps a whole reservation as spent: %s", error)

    def _add(self, key: str, what: str, amount: int) -> int:
        return max(each.add(f"budget:{key}:{what}", amount, _SECONDS) for each in self._counters)

    def _maximum(self, call: Call) -> tuple[float, int]:
        """Return the maximum dollars and tokens of a call."""
        if self._usd is not None and call.max_cost is None:
            raise JudgeError(
                f"{call.model}: its price is unknown, so a budget in dollars cannot be kept; fix: set the "
                "judge's input_price and output_price (dollars per million tokens), or use a budget in tokens"
            )
        if call.max_output_tokens is None:
            raise JudgeError(f"{call.model}: give the judge max_tokens, which a budget needs")
        return call.max_cost or 0.0, call.max_input_tokens + call.max_output_tokens

    def _key(self, what: str) -> str:
        day = datetime.fromtimestamp(self._now(), UTC).date()
        return f"{self._name}/{what or 'all'} {day}"


class FileCounters:
    """Counters in SQLite. Raises StoreError if the file cannot be used."""

    def __init__(self, path: str | Path) -> None:
        self._file = SQLiteFile(path, _SCHEMA)

    def add(self, key: str, amount: int, seconds: float) -> int:
        now = time.time()
        with self._file.transaction() as db:
            # Past days are deleted here only: without this, the file would grow with every day.
            db.execute("DELETE FROM counters WHERE ends < ?", (now,))
            row = db.execute(
                "INSERT INTO counters VALUES (?, ?, ?) "
                "ON CONFLICT (key) DO UPDATE SET value = value + excluded.value RETURNING value",
                (key, amount, now + seconds),
            ).fetchone()
        return int(row[0])

    def value(self, key: str) -> int:
        with self._file.transaction() as db:
            row = db.execute("SELECT value FROM counters WHERE key = ?", (key,)).fetchone()
        return int(row[0]) if row else 0
