"""A real Prometheus on loopback, with the shipped rules."""

from __future__ import annotations

import json
import re
import shutil
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.servers import clean_environment, free_ports, served

__all__ = ["RULES", "Prometheus", "prometheus_server"]

RULES = Path(__file__).parents[2] / "examples" / "prometheus"


class Prometheus:
    """Asks a Prometheus over its HTTP API."""

    def __init__(self, url: str) -> None:
        self._url = url

    def value(self, query: str) -> float | None:
        """The value of a query with at most one series; None without any."""
        found = self._get("query", query=query)["result"]
        assert len(found) <= 1, found
        return float(found[0]["value"][1]) if found else None

    def firing(self) -> set[str]:
        """The names of the alerts that fire."""
        return {a["labels"]["alertname"] for a in self._get("alerts")["alerts"] if a["state"] == "firing"}

    def _get(self, what: str, **parameters: str) -> Any:
        address = f"{self._url}/api/v1/{what}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(address, timeout=30) as answer:
            return json.load(answer)["data"]


@contextmanager
def prometheus_server(targets: Sequence[str], floor: float, name: str) -> Iterator[Prometheus]:
    """Run Prometheus with the shipped rules and scrape these targets every half second.

    Args:
        targets: hosts and ports.
        floor: of the scorer.
        name: of the scorer.
    """
    (port,) = free_ports(1)

    def command(folder: Path) -> Sequence[str]:
        rules = (RULES / "otel-evals.rules.yml").read_text()
        rules = rules.replace("vector(0.8)", f"vector({floor})").replace("hallucination", name)
        rules = re.sub(r"\b(interval|for): \d+[mh]\b", r"\1: 1s", rules)  # nobody waits for an hour here
        (folder / "otel-evals.rules.yml").write_text(rules)
        config = {
            "global": {"scrape_interval": "500ms", "evaluation_interval": "1s"},
            "rule_files": ["otel-evals.rules.yml"],
            "scrape_configs": [{"job_name": "app", "static_configs": [{"targets": list(targets)}]}],
        }
        (folder / "prometheus.yml").write_text(json.dumps(config))  # which is YAML too
        return (
            shutil.which("prometheus") or "prometheus",
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
        )

    url = f"http://127.0.0.1:{port}"
    with served(command, lambda _: clean_environment(), f"{url}/-/ready", start_timeout=120):
        yield Prometheus(url)
