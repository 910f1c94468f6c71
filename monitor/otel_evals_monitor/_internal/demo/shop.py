"""An outdoor shop as an in-memory SQLite database, for the tools of the demo's agent."""

from __future__ import annotations

import random
import sqlite3
import threading
from collections.abc import Iterator
from datetime import date, timedelta
from importlib.resources import files
from typing import Any

import yaml

_SHOP: dict[str, Any] = yaml.safe_load(files(__package__).joinpath("shop.yaml").read_text("utf-8"))

TODAY: date = _SHOP["today"]
CARRIERS: list[str] = _SHOP["carriers"]
METHODS: list[str] = _SHOP["methods"]
CUSTOMERS: list[str] = _SHOP["customers"]
PRODUCTS: list[list[Any]] = _SHOP["products"]
STORES: list[list[str]] = _SHOP["stores"]


class Shop:
    """The shop's database. Lookups return rows as dictionaries; thread-safe."""

    def __init__(self, seed: int = 0, orders: int = 400) -> None:
        # SQLite serialises threads, but Python caches compiled statements, which threads must not share.
        self._lock = threading.Lock()
        self._db = sqlite3.connect(":memory:", check_same_thread=False)
        self._db.row_factory = sqlite3.Row
        self._db.executescript(_SHOP["schema"])
        _fill(self._db, random.Random(seed), orders)

    def one(self, sql: str, *values: object) -> dict[str, Any] | None:
        return next(iter(self.all(sql, *values)), None)

    def all(self, sql: str, *values: object) -> list[dict[str, Any]]:
        with self._lock:
            return [dict(row) for row in self._db.execute(sql, values)]

    def change(self, sql: str, *values: object) -> None:
        with self._lock:
            self._db.execute(sql, values)


def _fill(db: sqlite3.Connection, rng: random.Random, orders: int) -> None:
    stock = [(*product, rng.randint(0, 60), rng.randint(34, 50) / 10) for product in PRODUCTS]
    db.executemany("INSERT INTO products VALUES (?, ?, ?, ?, ?, ?, ?)", stock)
    db.executemany("INSERT INTO return_rules VALUES (?, ?, ?)", _SHOP["return_rules"])
    db.executemany("INSERT INTO stores VALUES (?, ?, ?, ?, ?)", STORES)
    db.executemany("INSERT INTO members VALUES (?, ?, ?, ?, ?, ?)", _members(rng))
    for number in rng.sample(range(10_000, 99_999), orders):
        _add_order(db, rng, f"SO-{number}")


def _members(rng: random.Random) -> Iterator[tuple[object, ...]]:
    for name in CUSTOMERS:
        email = name.lower().replace(" ", ".") + "@example.com"
        expire_on = (TODAY + timedelta(days=rng.randint(12, 200))).isoformat()
        tier = rng.choice(_SHOP["tiers"])
        yield email, name, tier, rng.randint(300, 9_900), rng.randint(20, 290), expire_on


def _add_order(db: sqlite3.Connection, rng: random.Random, order_id: str) -> None:
    waiting = rng.random() < 0.25
    placed = TODAY - timedelta(days=rng.randint(0, 2) if waiting else rng.randint(4, 28))
    shipped = placed + timedelta(days=rng.randint(1, 3))
    due = shipped + timedelta(days=rng.randint(2, 9))
    status = "processing" if waiting else "shipped" if due > TODAY else "delivered"
    lines = [
        (order_id, sku, rng.choice((1, 1, 1, 2, 3)), price)
        for sku, _, _, price, _ in rng.sample(PRODUCTS, rng.choice((1, 1, 2)))
    ]
    total = round(sum(quantity * price for _, _, quantity, price in lines), 2)
    customer, currency = rng.choice(CUSTOMERS), rng.choice(("USD", "EUR", "GBP"))
    order = (order_id, customer, currency, placed.isoformat(), status, total)
    db.execute("INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?)", order)
    db.executemany("INSERT INTO order_lines VALUES (?, ?, ?, ?)", lines)
    if status != "processing":
        place = rng.choice(("Rotterdam", "Leipzig", "Louisville", "Birmingham", "Lille", "Gothenburg"))
        tracking = f"{rng.choice('JRZ')}{rng.choice('DGX')}{rng.randint(10**9, 10**10 - 1)}"
        online = rng.random() > 0.15
        sent = (order_id, rng.choice(CARRIERS), tracking, str(shipped), str(due), place, online)
        db.execute("INSERT INTO shipments VALUES (?, ?, ?, ?, ?, ?, ?)", sent)
    if status == "delivered" and rng.random() < 0.5:
        asked = min(due + timedelta(days=rng.randint(1, 6)), TODAY)
        expected = str(asked + timedelta(days=rng.randint(5, 14)))
        amount, id = round(lines[0][2] * lines[0][3], 2), f"RF-{rng.randint(10**6, 10**7 - 1)}"
        refund = (id, order_id, amount, str(asked), expected, rng.choice(METHODS))
        db.execute("INSERT INTO refunds VALUES (?, ?, ?, ?, ?, ?)", refund)
