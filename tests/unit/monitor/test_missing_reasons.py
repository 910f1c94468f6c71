"""Reasons of missing scores: the store, the Prometheus rules and the docs use one list."""

from __future__ import annotations

import re
from pathlib import Path

from otel_evals.model import is_missing
from otel_evals_monitor._internal.store.rows import rows_of
from tests.support.result_records import record

ROOT = Path(__file__).parents[3]
FIELDS = ("input", "output", "ground_truth", "tool_results")


def documented() -> set[str]:
    """All reasons of docs/accounting.md, with fields in place of `<field>`."""
    found = set(re.findall(r"^\| `([\w<>]+)` \|", (ROOT / "docs/accounting.md").read_text(), re.M))
    return {reason.replace("<field>", field) for reason in found for field in FIELDS}


def test_store_and_prometheus_agree_on_every_documented_reason() -> None:
    rules = (ROOT / "examples/prometheus/otel-evals.rules.yml").read_text()
    yes = re.search(r'otel_evals_reason=~"([^"]+)"', rules)
    no = re.search(r'otel_evals_reason!~"([^"]+)"', rules)
    assert yes
    assert no
    found = set()
    for reason in documented():
        (row,) = rows_of(record(1, None, status="not_scored", reason=reason)).evaluations
        missing = is_missing("not_scored", reason)
        by_rule = re.fullmatch(yes[1], reason) is not None and re.fullmatch(no[1], reason) is None
        assert (row["missing"], by_rule) == (missing, missing), reason
        if missing:
            found.add(reason)
    assert {"no_verdicts", "output_too_long", "too_many_criteria", "ground_truth_too_long"} <= found
    assert not {"ground_truth_not_recorded", "ground_truth_captured_off", "no_claims"} & found


def test_the_docs_list_the_kinds_of_missing_scores() -> None:
    page = (ROOT / "docs/statistics.md").read_text()
    (text,) = re.findall(r"\*\*Missing scores\.\*\*(.*?)\n- ", page, re.S)
    before, _, after = text.partition("are not missing")
    for named, expected in ((before.partition("Runs that")[0], True), (after, False)):
        reasons = re.findall(r"`([\w.]+)`", named.replace("with missing", ""))
        assert reasons
        assert all(is_missing("not_scored", each.replace("...", "x")) is expected for each in reasons)
