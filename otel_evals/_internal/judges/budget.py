"""Budgets: limits on what judges cost in a day, in money and tokens.

The maximum cost of a call is reserved before it is made, and settled afterwards, which keeps concurrent
calls, in any number of processes, within the budget together.
"""

from __future__ import annotations

import logging
import math
import sqlite3
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from otel_evals._internal.judges.judge import Call, Settle
from otel_evals._internal.judges.shared_limits import SharedBudgetLedger
from otel_evals._internal.model import Usage
from otel_evals._internal.redis_server import is_address, redis_server
from otel_evals._internal.util.calls import in_thread
from otel_evals._internal.util.sqlite_file import MEMORY, SQLiteFile
from otel_evals.errors import BudgetExceededError, ConfigError, JudgeError, JudgeUnavailableError, StoreError

_log = logging.getLogger(__name__)

_SCHEMA = """
CREATE TABLE IF NOT EXISTS judge_budget (key TEXT PRIMARY KEY, usd REAL NOT NULL, tokens INTEGER NOT NULL)
"""


class Budget:
    """Limits what judges cost per day (UTC). Share one object, or one store, to share the budget.

    Args:
        usd: US dollars per day.
        tokens: tokens per day, in and out.
        per: each `scorer` or each `model` has this budget for itself, or `all` share it.
        store: path of a SQLite file that shares the budget among the processes of one machine, or address
            `redis://HOST:PORT/NUMBER` of a server that shares it among machines; in memory by default.
        unknown_price: under a budget in dollars, refuse a model without a known price, or count it as free.
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
        unknown_price: Literal["refuse", "allow"] = "refuse",
        name: str = "budget",
        now: Callable[[], float] = time.time,
    ) -> None:
        if usd is None and tokens is None:
            raise ConfigError("budget", "needs usd, tokens, or both")
        if (usd is not None and usd <= 0) or (tokens is not None and tokens <= 0):
            raise ConfigError("budget", f"must be positive, not usd={usd}, tokens={tokens}")
        if per not in ("all", "scorer", "model"):
            raise ConfigError("budget.per", f"must be 'all', 'scorer' or 'model', not {per!r}")
        self._usd, self._tokens, self._per, self._name, self._now = usd, tokens, per, name, now
        self._refuses_unknown = unknown_price == "refuse"
        self._ledger = _ledger(store)

    def spent(self, what: str = "") -> tuple[float, int]:
        """Return the dollars and tokens spent or reserved today, for one scorer or model if per those."""
        return self._ledger.read(self._key(what))

    @asynccontextmanager
    async def around(self, call: Call) -> AsyncIterator[Settle]:
        """Reserve before the call, settle after it.

        Raises:
            BudgetExceededError: the rest of the budget is less than the maximum cost of the call.
            JudgeUnavailableError: the budget's file or server cannot be used now.
            JudgeError: the price is unknown, or the answer's length unlimited.
        """
        usd, tokens = self._most(call)
        key = self._key({"scorer": call.scorer_id, "model": call.model}.get(self._per, ""))
        if not await self._reserve(key, usd, tokens):
            left = f"of {self._limit()} for {key.rpartition(' ')[0]} today"
            raise BudgetExceededError(
                f"{call.model}: up to ${usd:.4f} and {tokens} tokens exceed the rest of the budget {left}"
            )
        settled: list[tuple[Usage, float | None]] = []
        try:
            yield lambda usage, cost: settled.append((usage, cost))
        except JudgeError as error:
            if _unbilled(error):
                settled.append((Usage(), 0.0))
            raise
        finally:
            # without an answer the call may still be billed: the reservation stays spent
            if settled:
                usage, cost = settled[0]
                known = cost is not None and math.isfinite(cost)
                back_usd = usd - max(cost or 0.0, 0.0) if known else 0.0  # never more than was reserved
                back_tokens = tokens - max(usage.total_tokens, 0)
                await in_thread(self._give_back, key, back_usd, back_tokens, abandon_on_cancel=False)

    async def _reserve(self, key: str, usd: float, tokens: int) -> bool:
        try:
            return await in_thread(self._ledger.reserve, key, usd, tokens, self._usd, self._tokens)
        except StoreError as error:
            raise JudgeUnavailableError(f"a budget cannot be reserved: {error}") from error

    def _give_back(self, key: str, usd: float, tokens: int) -> None:
        try:
            self._ledger.give_back(key, usd, tokens)
        except StoreError as error:
            _log.warning("a budget keeps a whole reservation as spent: %s", error)

    def _most(self, call: Call) -> tuple[float, int]:
        """Return the maximum dollars and tokens of a call."""
        if self._usd is not None and call.max_cost is None and self._refuses_unknown:
            raise JudgeError(
                f"{call.model}: its price is unknown, so a budget in dollars cannot be kept: give the judge "
                "input_price, output_price and max_tokens, budget tokens instead, or allow unknown prices"
            )
        if call.max_output_tokens is None:
            raise JudgeError(f"{call.model}: give the judge max_tokens, which a budget needs")
        return call.max_cost or 0.0, call.max_input_tokens + call.max_output_tokens

    def _key(self, what: str) -> str:
        day = datetime.fromtimestamp(self._now(), UTC).date()
        return f"{self._name}/{what or 'all'} {day}"

    def _limit(self) -> str:
        parts = [
            f"${self._usd:g}" if self._usd is not None else "",
            f"{self._tokens} tokens" if self._tokens else "",
        ]
        return " and ".join(part for part in parts if part)


def _ledger(store: str | Path | None) -> BudgetLedger | SharedBudgetLedger:
    if is_address(store, "budget.store"):
        return SharedBudgetLedger(redis_server(str(store)))
    return BudgetLedger(str(store) if store is not None else MEMORY)


def _unbilled(error: JudgeError) -> bool:
    """Return True if the provider refused the call before doing any work."""
    return error.status is not None and 400 <= error.status < 500 and error.status != 408


class BudgetLedger:
    """Sums by key in SQLite; each change is one transaction. Raises StoreError if the file cannot be used."""

    def __init__(self, path: str) -> None:
        self._file = SQLiteFile(path, _SCHEMA)

    def reserve(
        self, key: str, usd: float, tokens: int, most_usd: float | None, most_tokens: int | None
    ) -> bool:
        """Add to a key's sums, unless one would exceed its limit; return True if added."""
        with self._file.transaction() as db:
            spent_usd, spent_tokens = _sums(db, key)
            if most_usd is not None and spent_usd + usd > most_usd + 1e-12:
                return False
            if most_tokens is not None and spent_tokens + tokens > most_tokens:
                return False
            _add(db, key, usd, tokens)
        return True

    def give_back(self, key: str, usd: float, tokens: int) -> None:
        with self._file.transaction() as db:
            _add(db, key, -usd, -tokens)

    def read(self, key: str) -> tuple[float, int]:
        with self._file.transaction() as db:
            return _sums(db, key)


def _sums(db: sqlite3.Connection, key: str) -> tuple[float, int]:
    row = db.execute("SELECT usd, tokens FROM judge_budget WHERE key = ?", (key,)).fetchone()
    return (row[0], row[1]) if row else (0.0, 0)


def _add(db: sqlite3.Connection, key: str, usd: float, tokens: int) -> None:
    db.execute(
        "INSERT INTO judge_budget VALUES (?, ?, ?) "
        "ON CONFLICT (key) DO UPDATE SET usd = usd + excluded.usd, tokens = tokens + excluded.tokens",
        (key, usd, tokens),
    )
