"""The files of examples/gateway: configurations that load, and time to drain."""

from __future__ import annotations

import configparser
from pathlib import Path
from typing import Any

import pytest
import yaml

from otel_evals import load_config

GATEWAY = Path(__file__).parents[3] / "examples" / "gateway"
MANIFESTS = sorted(GATEWAY.glob("kubernetes/*.yaml"))
PAUSE = 5
"""Seconds between the order to leave and the end of listening, for endpoints to be told."""


def check(text: str, folder: Path) -> list[dict[str, Any]]:
    """Check the pods in a text of manifests, and the configuration; returns the manifests."""
    found = [each for each in yaml.safe_load_all(text) if each]
    (config,) = (each for each in found if each["kind"] == "ConfigMap")
    (workload,) = (each for each in found if each["kind"] in ("Deployment", "StatefulSet"))
    path = folder / "gateway.yaml"
    path.write_text(config["data"]["gateway.yaml"].replace("/var/lib/otel-evals", str(folder)))
    loaded = load_config(path)
    check_pod(workload["spec"]["template"]["spec"], loaded.shutdown_timeout)
    return found


def check_pod(pod: dict[str, Any], shutdown_timeout: float) -> None:
    (container,) = pod["containers"]
    assert pod["terminationGracePeriodSeconds"] >= PAUSE + 2 * shutdown_timeout
    assert container["lifecycle"]["preStop"]["exec"]["command"] == ["sleep", str(PAUSE)]
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    mounted = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    assert {"/etc/otel-evals", "/tmp"} <= set(mounted)
    assert "subPath" not in str(container["volumeMounts"]), "a changed ConfigMap would not reach the pod"


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_a_manifest_s_configuration_loads(path: Path, tmp_path: Path) -> None:
    pytest.importorskip("confluent_kafka")
    check(path.read_text(encoding="utf-8"), tmp_path)


def test_workers_are_scaled_by_lag_and_leave_one_at_a_time() -> None:
    text = (GATEWAY / "kubernetes" / "kafka-workers.yaml").read_text(encoding="utf-8")
    by_kind = {each["kind"]: each["spec"] for each in yaml.safe_load_all(text) if "spec" in each}
    scaler = by_kind["HorizontalPodAutoscaler"]
    assert scaler["scaleTargetRef"]["name"] == "otel-evals-workers"
    assert scaler["metrics"][0]["external"]["metric"]["name"] == "otel_evals_gateway_kafka_lag"
    assert by_kind["PodDisruptionBudget"]["maxUnavailable"] == 1
    assert "replicas" not in by_kind["Deployment"], "applying it again would undo the autoscaler's number"


def test_the_unit_reloads_and_has_time_to_drain(tmp_path: Path) -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(GATEWAY / "otel-evals-gateway.service")
    service = unit["Service"]
    assert service["ExecReload"] == "/bin/kill -HUP $MAINPID"
    path = tmp_path / "gateway.yaml"
    text = (GATEWAY / "gateway.yaml").read_text(encoding="utf-8")
    path.write_text(text.replace("/var/lib/otel-evals", str(tmp_path)))
    assert float(service["TimeoutStopSec"]) >= 2 * load_config(path).shutdown_timeout


def test_the_compose_file_mounts_what_is_there_and_has_time_to_drain() -> None:
    compose = yaml.safe_load((GATEWAY / "compose.yaml").read_text(encoding="utf-8"))
    assert set(compose["services"]) == {"collector", "gateway", "phoenix"}
    for service in compose["services"].values():
        for mount in service.get("volumes", ()):
            source = mount.split(":")[0]
            assert (GATEWAY / source).exists() if source.startswith(".") else source in compose["volumes"]
    assert int(compose["services"]["gateway"]["stop_grace_period"].removesuffix("s")) >= 40
