"""The support agent: pydantic-ai with eight tools, and spans from pydantic-ai's own instrumentation.

This module does not depend on scoring.
"""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

from pydantic_ai import Agent, ModelRetry, RunContext

from otel_evals_monitor._internal.demo.shop import TODAY, Shop

support = Agent(
    name="support",
    deps_type=Shop,
    instructions="You are Mia, support agent of Larch & Stone, an outdoor shop. "
    f"Answer from your tools, in two or three sentences. Today is {TODAY:%A, %d %B %Y}.",
)


@support.tool
def track_shipment(ctx: RunContext[Shop], order_id: str) -> dict[str, Any]:
    """Track a parcel or package: where it is now, its carrier and tracking number, news about its
    delivery, when it arrives or whether it was delivered.
    """
    sql = "SELECT * FROM shipments WHERE order_id = ?"
    shipment = _found(ctx, sql, order_id, f"No shipment for order {order_id}.")
    if not shipment.pop("carrier_online"):
        raise ModelRetry("The carrier's tracking service timed out.")
    return shipment


@support.tool
def get_order(ctx: RunContext[Shop], order_id: str) -> dict[str, Any]:
    """Look up what was bought in an order: items, quantities, total paid, the day it was placed, status."""
    sql = "SELECT * FROM orders WHERE order_id = ?"
    order = _found(ctx, sql, order_id, f"There is no order {order_id}.")
    lines = "SELECT name, quantity, unit_price FROM order_lines JOIN products USING (sku) WHERE order_id = ?"
    return order | {"items": ctx.deps.all(lines, order_id)}


@support.tool
def check_return(ctx: RunContext[Shop], order_id: str) -> dict[str, Any]:
    """Check whether an order can be returned or sent back: until what day, how long, how many days are
    left, the restocking fee.
    """
    sql = (
        "SELECT name AS item, currency, unit_price, estimated_delivery, IFNULL(days, 30) AS days,"
        " IFNULL(fee_percent, 0) AS fee FROM shipments JOIN orders USING (order_id) JOIN order_lines"
        " USING (order_id) JOIN products USING (sku) LEFT JOIN return_rules USING (category)"
        " WHERE order_id = ?"
    )
    found = _found(ctx, sql, order_id, f"Order {order_id} was not shipped yet or does not exist.")
    delivered = date.fromisoformat(found.pop("estimated_delivery"))
    deadline = delivered + timedelta(days=found["days"])
    facts = {"order_id": order_id, "item": found["item"], "price": found["unit_price"]}
    facts |= {"currency": found["currency"], "delivered_on": str(delivered)}
    return facts | {
        "return_window_days": found["days"],
        "return_by": str(deadline),
        "days_left": max((deadline - TODAY).days, 0),
        "restocking_fee_percent": found["fee"],
    }


@support.tool
def refund_status(ctx: RunContext[Shop], order_id: str) -> dict[str, Any]:
    """Say how far the refund for a returned order is: status, amount, the card it goes to, when it is
    paid out.
    """
    sql = "SELECT refunds.*, currency FROM refunds JOIN orders USING (order_id) WHERE order_id = ?"
    return _found(ctx, sql, order_id, f"No refund was opened for order {order_id}.")


@support.tool
def cancel_order(ctx: RunContext[Shop], order_id: str) -> dict[str, Any]:
    """Cancel an order, call it off, stop it before it ships."""
    order = ctx.deps.one("SELECT * FROM orders WHERE order_id = ?", order_id)
    if order is None or order["status"] != "processing":
        raise ModelRetry(f"Order {order_id} cannot be cancelled: it has left the warehouse.")
    ctx.deps.change("UPDATE orders SET status = 'cancelled' WHERE order_id = ?", order_id)
    facts = {"order_id": order_id, "status": "cancelled"}
    return facts | {"refunded": order["total"], "currency": order["currency"]}


@support.tool
def search_products(ctx: RunContext[Shop], name: str) -> list[dict[str, Any]]:
    """Search products: price, how much it is, stock and availability, warranty, rating. To compare what is
    cheaper, search for each.
    """
    found = ctx.deps.all("SELECT * FROM products WHERE name LIKE ?", f"%{name}%")
    if not found:
        raise ModelRetry(f"No product is called {name!r}.")
    return [{**product, "currency": "USD"} for product in found]


@support.tool
def loyalty_balance(ctx: RunContext[Shop], email: str) -> dict[str, Any]:
    """Look up a member's loyalty account: points, balance, tier, when points expire."""
    return _found(ctx, "SELECT * FROM members WHERE email = ?", email, f"No member has the address {email}.")


@support.tool
def find_store(ctx: RunContext[Shop], city: str) -> dict[str, Any]:
    """Find a store or shop in a city: address, phone number, opening hours, until when it is open."""
    return _found(ctx, "SELECT * FROM stores WHERE city = ?", city, f"There is no store in {city}.")


def _found(ctx: RunContext[Shop], sql: str, value: str, problem: str) -> dict[str, Any]:
    row = ctx.deps.one(sql, value)
    if row is None:
        raise ModelRetry(problem)
    return row
