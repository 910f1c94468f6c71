"""The queries of docs/attachment.md and of the dashboard ask for what there is."""

from __future__ import annotations

import json
import re
from pathlib import Path

from otel_evals import semconv

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "attachment.md").read_text(encoding="utf-8")
DASHBOARD = json.loads((ROOT / "examples" / "grafana" / "dashboard.json").read_text(encoding="utf-8"))
RULES = (ROOT / "examples" / "prometheus" / "otel-evals.rules.yml").read_text(encoding="utf-8")


def queries() -> list[str]:
    targets = [target for panel in DASHBOARD["panels"] for target in panel["targets"]]
    asked = [target["expr"] for target in targets if target["datasource"]["type"] == "prometheus"]
    return asked + re.findall(r"```promql\n(.+?)```", PAGE, re.DOTALL)[-1].splitlines()


def test_every_series_is_recorded_by_the_rules_or_an_instrument() -> None:
    recorded = set(re.findall(r"record: (\S+)", RULES))
    counters = {f"{v.replace('.', '_')}_total" for k, v in vars(semconv).items() if k.startswith("METRIC_")}
    asked = {name for query in queries() for name in re.findall(r"otel_evals[:_][a-z0-9_:]+", query)}
    labels = {semconv.OUTCOME.replace(".", "_")}
    assert len(queries()) == 10
    assert asked - labels - recorded - counters == set()


def test_the_dashboard_can_be_imported_anywhere() -> None:
    """It names no data source of its own: they are chosen."""
    sources = {t["datasource"]["uid"] for panel in DASHBOARD["panels"] for t in panel["targets"]}
    chosen = {f"${{{each['name']}}}" for each in DASHBOARD["templating"]["list"]}
    assert sources == chosen
    assert all(panel["datasource"]["uid"] in chosen for panel in DASHBOARD["panels"])
    assert all(each["type"] == "datasource" for each in DASHBOARD["templating"]["list"])
    assert DASHBOARD["schemaVersion"] >= 36, "data sources as objects are of Grafana 8.5 and later"
    assert {panel["type"] for panel in DASHBOARD["panels"]} == {"timeseries", "logs"}
