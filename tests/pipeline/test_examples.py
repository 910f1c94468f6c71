"""Every example runs as it stands, scores its traffic, and is listed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from otel_evals import load_config
from otel_evals._internal.config.loader import build_config

EXAMPLES = Path(__file__).parents[2] / "examples"
SAYS = {
    "handwritten_agent.py": [
        "contradicted (counts twice): number",
        "scored: {'is_short': 3, 'grounded_in_tools': 3, 'tool_call_accuracy': 3}",
    ],
    "own_providers.py": ["invoke_agent greeter {'otel_evals.score.says_hello': 1.0"],
    "streaming_agent.py": ["answered  Returns are free for 30 days.", "scored: {'quotes_a_policy': 10}"],
}
"""What each prints, among other things."""


def run(*command: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run an example in a folder of its own, without any setting of this machine's."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{kept.get('PATH', '')}"
    return subprocess.run(
        command, cwd=folder, env={**kept, "PATH": path}, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
@pytest.mark.parametrize("example", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_every_script_runs_and_scores(example: str, tmp_path: Path) -> None:
    done = run(sys.executable, EXAMPLES / example, folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert [text for text in SAYS[example] if text not in done.stdout] == []


@pytest.mark.slow
def test_an_application_is_scored_without_touching_its_code(tmp_path: Path) -> None:
    done = run("sh", EXAMPLES / "no_code" / "run.sh", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert '"otel_evals.score.includes": 1.0' in done.stdout
    (line,) = (tmp_path / "scores.jsonl").read_text().splitlines()
    scored = json.loads(line)
    assert scored["output"] == "We are open from 9 to 5."
    assert {e["scorer"]: e["value"] for e in scored["evaluations"]} == {"answered": 1.0, "includes": 1.0}


def test_every_example_is_listed() -> None:
    listed = set(re.findall(r"\]\(([^)./]+(?:\.py)?)\)", (EXAMPLES / "README.md").read_text()))
    there = {path.name for path in EXAMPLES.iterdir()} - {"README.md", "__pycache__"}
    assert listed == there


def test_the_gateways_configurations_are_valid(tmp_path: Path) -> None:
    """The file for containers, the same inside the Kubernetes manifest, and what goes with them."""
    folder = EXAMPLES / "gateway"
    here = tmp_path / "gateway.yaml"  # the folder of the journal is made by the container, not here
    here.write_text((folder / "gateway.yaml").read_text().replace("/var/lib/otel-evals", str(tmp_path)))
    config = load_config(here)
    assert config.sections["gateway"] is not None
    manifests = list(yaml.safe_load_all((folder / "kubernetes" / "gateway.yaml").read_text()))
    assert [m["kind"] for m in manifests] == ["ConfigMap", "StatefulSet", "Service"]
    inside = yaml.safe_load(manifests[0]["data"]["gateway.yaml"]) | {"journal": tmp_path / "journal"}
    assert inside["gateway"].pop("tokens"), "a service in a cluster is open to all of it"
    assert build_config(**inside).sections == config.sections
    pod = manifests[1]["spec"]["template"]["spec"]
    compose = yaml.safe_load((folder / "compose.yaml").read_text())
    assert pod["terminationGracePeriodSeconds"] >= 2 * config.shutdown_timeout
    assert compose["services"]["gateway"]["stop_grace_period"] == f"{pod['terminationGracePeriodSeconds']}s"
    unit = (folder / "otel-evals-gateway.service").read_text()
    assert f"TimeoutStopSec={pod['terminationGracePeriodSeconds']}\n" in unit
    pipelines = yaml.safe_load((folder / "collector.yaml").read_text())["service"]["pipelines"]
    assert "otlp_http/gateway" in pipelines["traces"]["exporters"]
    assert all(
        "otlp_http/gateway" not in p["exporters"] for n, p in pipelines.items() if n.endswith("scores")
    )
