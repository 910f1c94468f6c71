"""Manifests of examples/gateway and of the docs by the schemas of Kubernetes; chart by Helm; workflows."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.components import component
from tests.support.servers import interop_program
from tests.unit.docs.test_deployment import GATEWAY, MANIFESTS, check

pytestmark = pytest.mark.interop

CHART = GATEWAY / "helm" / "otel-evals-gateway"
KAFKA = ("--set-json", 'config.gateway.kafka={"brokers": ["kafka:9092"]}', "--set", "replicas=3")
KUBERNETES = "1.31"
VALIDATE = f"""
import sys, yaml, kubernetes_validate
for manifest in filter(None, yaml.safe_load_all(sys.stdin)):
    kubernetes_validate.validate(manifest, "{KUBERNETES}", strict=True)
"""


def validate(manifests: str) -> None:
    """Check manifests by the schemas of Kubernetes."""
    python = interop_program("python", "-sdks")
    if python is None:
        pytest.skip("run tests/interop/setup.sh first: it installs the schemas of Kubernetes")
    done = subprocess.run(
        [python, "-c", VALIDATE], input=manifests, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_a_manifest_is_valid(path: Path) -> None:
    validate(path.read_text(encoding="utf-8"))


def test_the_pods_on_the_page_of_platforms_are_valid() -> None:
    page = (GATEWAY.parents[1] / "docs" / "deploy.md").read_text(encoding="utf-8")
    pods = [block for block in re.findall(r"```yaml\n(.+?)```", page, re.S) if "containers:" in block]
    assert len(pods) == 2
    for pod in pods:
        named = {"apiVersion": "v1", "kind": "Pod"} | yaml.safe_load(pod)
        validate(yaml.safe_dump(named | {"metadata": {"name": "app"} | named.get("metadata", {})}))


def test_what_is_not_valid_is_refused() -> None:
    with pytest.raises(AssertionError, match="replicas"):
        validate("{apiVersion: apps/v1, kind: Deployment, metadata: {name: x}, spec: {replicas: many}}")


@pytest.mark.parametrize(
    ("values", "kinds"),
    [
        ((), "ConfigMap NetworkPolicy Secret Service StatefulSet"),
        (("--set", "persistence.enabled=false"), "ConfigMap NetworkPolicy Secret Service StatefulSet"),
        (("--set", "insecure=true,networkPolicy.enabled=false"), "ConfigMap Service StatefulSet"),
        (KAFKA, "ConfigMap Deployment NetworkPolicy PodDisruptionBudget Secret Service"),
        (
            (*KAFKA, "--set", "autoscaling.enabled=true,tokens.existingSecret=mine"),
            "ConfigMap Deployment HorizontalPodAutoscaler NetworkPolicy PodDisruptionBudget Service",
        ),
    ],
)
def test_the_chart_renders_valid_manifests(values: Sequence[str], kinds: str, tmp_path: Path) -> None:
    helm("lint", "--strict", str(CHART), *values)
    rendered = helm("template", "evals", str(CHART), *values)
    validate(rendered)
    found = check(rendered, tmp_path)
    assert " ".join(sorted(each["kind"] for each in found)) == kinds
    (workload,) = (each for each in found if each["kind"] in ("Deployment", "StatefulSet"))
    labels = workload["spec"]["template"]["metadata"]["labels"]
    for selector in selectors(found):
        assert selector.items() <= labels.items()
    stored = workload["kind"] == "StatefulSet" and "persistence.enabled=false" not in values
    assert ("journal:" in rendered, "volumeClaimTemplates" in workload["spec"]) == (stored, stored)
    pod = workload["spec"]["template"]["spec"]
    names = {each["secret"]["secretName"] for each in pod["volumes"] if "secret" in each}
    (config,) = (each["data"]["gateway.yaml"] for each in found if each["kind"] == "ConfigMap")
    if "insecure" in str(values):
        assert not names
        assert "tokens:" not in config
    else:
        assert names == {"mine" if "existingSecret" in str(values) else "evals-otel-evals-gateway"}
        assert "tokens: /etc/otel-evals-tokens/tokens" in config


@pytest.mark.parametrize("values", ["replicas=2", "autoscaling.enabled=true"])
def test_the_chart_refuses_what_would_split_traces(values: str) -> None:
    done = run_helm("template", "evals", str(CHART), "--set", values)
    assert done.returncode != 0
    assert "config.gateway.kafka" in done.stderr


def test_the_workflows_pass_actionlint() -> None:
    program = shutil.which("actionlint") or component("bin/actionlint")
    done = subprocess.run([program], cwd=GATEWAY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def selectors(manifests: Sequence[dict[str, Any]]) -> Iterator[dict[str, str]]:
    for each in manifests:
        selector = each.get("spec", {}).get("selector")
        if selector:
            yield selector.get("matchLabels", selector)
        if each["kind"] == "NetworkPolicy":
            yield each["spec"]["podSelector"]["matchLabels"]


def run_helm(*args: str) -> subprocess.CompletedProcess[str]:
    """Run Helm for one version of Kubernetes: the one it takes by itself depends on how it was built."""
    program = shutil.which("helm") or component("bin/helm")
    command = [program, *args, "--kube-version", KUBERNETES]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def helm(*args: str) -> str:
    done = run_helm(*args)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
