"""An outdoor shop as an SQLite database in memory, which the demo agent's tools query."""

from __future__ import annotations

import random
import sqlite3
import threading
from collections.abc import Iterator
from datetime import date, timedelta
from typing import Any

TODAY = date(2026, 3, 20)
CARRIERS = ("DHL", "UPS", "FedEx", "GLS", "Royal Mail", "DPD")
TIERS = ("Bronze", "Silver", "Gold")
METHODS = ("Visa card", "PayPal account", "Mastercard", "bank account")
CUSTOMERS = (
    *("Ada Okafor", "Bruno Keller", "Chloe Martin", "Dmitri Volkov", "Elif Demir", "Farah Haddad"),
    *("Gustav Lindqvist", "Hana Sato", "Ines Moreira", "Jonas Weber", "Katya Novak", "Liam Byrne"),
    *("Mei Chen", "Nils Aaberg", "Olga Petrova", "Priya Raman", "Quentin Roux", "Rosa Jimenez"),
)
PRODUCTS = (
    ("TNT-210", "Fjell 2 tent", "tents", 349.0, 24),
    ("TNT-340", "Fjell 3 tent", "tents", 429.5, 24),
    ("TNT-480", "Basecamp 4 tent", "tents", 1249.0, 36),
    ("BAG-045", "Ridge 45 backpack", "backpacks", 159.9, 60),
    ("BAG-065", "Ridge 65 backpack", "backpacks", 199.0, 60),
    ("SLP-005", "Tundra -5 sleeping bag", "sleeping bags", 229.0, 12),
    ("SLP-010", "Tundra -10 sleeping bag", "sleeping bags", 279.95, 12),
    ("STV-100", "Ember stove", "stoves", 64.9, 24),
    ("STV-200", "Ember Duo stove", "stoves", 94.5, 24),
    ("LMP-400", "Polaris 400 headlamp", "lamps", 49.99, 36),
    ("LMP-800", "Polaris 800 headlamp", "lamps", 89.0, 36),
    ("BTL-075", "Brook bottle", "bottles", 24.5, 12),
    ("MAT-320", "Moss 320 mat", "mats", 119.0, 24),
    ("BOT-710", "Granite GTX boots", "boots", 219.0, 18),
    ("JKT-900", "Squall jacket", "jackets", 259.0, 24),
    ("POL-120", "Larch trekking poles", "poles", 79.0, 36),
)
RETURN_RULES = (("boots", 60, 0), ("sleeping bags", 14, 15), ("stoves", 30, 10), ("tents", 45, 5))
STORES = (
    ("Oslo", "Storgata 18", "09:00", "20:00", "+47 22 41 07 83"),
    ("Hamburg", "Spitalerstrasse 12", "10:00", "19:30", "+49 40 3095 4417"),
    ("Edinburgh", "Princes Street 94", "09:30", "18:30", "+44 131 496 0218"),
    ("Denver", "Blake Street 1615", "08:00", "21:00", "+1 303 555 0164"),
    ("Lyon", "Rue Victor Hugo 37", "10:00", "19:00", "+33 4 72 55 01 96"),
)
SCHEMA = """
CREATE TABLE products (sku TEXT PRIMARY KEY, name, category, price REAL, warranty_months INT, in_stock INT,
                       rating REAL);
CREATE TABLE return_rules (category TEXT PRIMARY KEY, days INT, fee_percent INT);
CREATE TABLE orders (order_id TEXT PRIMARY KEY, customer, currency, placed_on, status, total REAL);
CREATE TABLE order_lines (order_id, sku, quantity INT, unit_price REAL);
CREATE TABLE shipments (order_id TEXT PRIMARY KEY, carrier, tracking_number, shipped_on, estimated_delivery,
                        last_seen_in, carrier_online INT);
CREATE TABLE refunds (refund_id, order_id TEXT PRIMARY KEY, amount REAL, requested_on, expected_by, method);
CREATE TABLE members (email TEXT PRIMARY KEY, member, tier, points INT, points_expiring INT, expire_on);
CREATE TABLE stores (city TEXT PRIMARY KEY, address, opens, closes, phone);
"""


class Shop:
    """The database. Every lookup answers rows as dictionaries; sharing one between threads is safe."""

    def __init__(self, seed: int = 0, orders: int = 400) -> None:
        # SQLite serialises threads, but Python keeps compiled statements, which two must not use at once.
        self._lock = threading.Lock()
        self._db = sqlite3.connect(":memory:", check_same_thread=False)
        self._db.row_factory = sqlite3.Row
        self._db.executescript(SCHEMA)
        _fill(self._db, random.Random(seed), orders)

    def one(self, sql: str, *values: object) -> dict[str, Any] | None:
        """The first row, or None."""
        return next(iter(self.all(sql, *values)), None)

    def all(self, sql: str, *values: object) -> list[dict[str, Any]]:
        """All rows."""
        with self._lock:
            return [dict(row) for row in self._db.execute(sql, values)]

    def change(self, sql: str, *values: object) -> None:
        """Execute a statement that writes."""
        with self._lock:
            self._db.execute(sql, values)

    def close(self) -> None:
        """Close the database."""
        self._db.close()


def _fill(db: sqlite3.Connection, rng: random.Random, orders: int) -> None:
    stock = [(*product, rng.randint(0, 60), rng.randint(34, 50) / 10) for product in PRODUCTS]
    db.executemany("INSERT INTO products VALUES (?, ?, ?, ?, ?, ?, ?)", stock)
    db.executemany("INSERT INTO return_rules VALUES (?, ?, ?)", RETURN_RULES)
    db.executemany("INSERT INTO stores VALUES (?, ?, ?, ?, ?)", STORES)
    db.executemany("INSERT INTO members VALUES (?, ?, ?, ?, ?, ?)", _members(rng))
    for number in rng.sample(range(10_000, 99_999), orders):
        _add_order(db, rng, f"SO-{number}")


def _members(rng: random.Random) -> Iterator[tuple[object, ...]]:
    for name in CUSTOMERS:
        email = name.lower().replace(" ", ".") + "@example.com"
        expire_on = (TODAY + timedelta(days=rng.randint(12, 200))).isoformat()
        yield email, name, rng.choice(TIERS), rng.randint(300, 9_900), rng.randint(20, 290), expire_on


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
    order = (
        order_id,
        rng.choice(CUSTOMERS),
        rng.choice(("USD", "EUR", "GBP")),
        placed.isoformat(),
        status,
        total,
    )
    db.execute("INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?)", order)
    db.executemany("INSERT INTO order_lines VALUES (?, ?, ?, ?)", lines)
    if status != "processing":
        place = rng.choice(("Rotterdam", "Leipzig", "Louisville", "Birmingham", "Lille", "Gothenburg"))
        tracking = f"{rng.choice('JRZ')}{rng.choice('DGX')}{rng.randint(10**9, 10**10 - 1)}"
        online = rng.random() > 0.15
        shipment = (
            order_id,
            rng.choice(CARRIERS),
            tracking,
            shipped.isoformat(),
            due.isoformat(),
            place,
            online,
        )
        db.execute("INSERT INTO shipments VALUES (?, ?, ?, ?, ?, ?, ?)", shipment)
    if status == "delivered" and rng.random() < 0.5:
        asked = min(due + timedelta(days=rng.randint(1, 6)), TODAY)
        expected = (asked + timedelta(days=rng.randint(5, 14))).isoformat()
        amount = lines[0][2] * lines[0][3]
        refund = (
            f"RF-{rng.randint(10**6, 10**7 - 1)}",
            order_id,
            round(amount, 2),
            asked.isoformat(),
            expected,
        )
        db.execute("INSERT INTO refunds VALUES (?, ?, ?, ?, ?, ?)", (*refund, rng.choice(METHODS)))
