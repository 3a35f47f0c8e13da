"""config/ against a real API server: exactly the described objects, valid to the letter, within restricted security."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.cluster import Cluster
from lab.waiting import wait_for
from schedkit.sked.cli import agent
from tests.integration.clusters import read_objects
from tests.integration.sked_deploy.tools import AGENT, CRD, IMAGE, NAMESPACE, REPORTS, ROOT

DEPLOYMENT = "sked-controller-manager"
RENDERED = {
    ("Namespace", NAMESPACE, None),
    ("CustomResourceDefinition", CRD, None),
    ("CustomResourceDefinition", REPORTS, None),
    ("ServiceAccount", DEPLOYMENT, NAMESPACE),
    ("ServiceAccount", AGENT, NAMESPACE),
    ("Role", "sked-leader-election-role", NAMESPACE),
    ("RoleBinding", "sked-leader-election-rolebinding", NAMESPACE),
    ("ClusterRole", "sked-agent-role", None),
    ("ClusterRole", "sked-manager-role", None),
    ("ClusterRole", "sked-metrics-auth-role", None),
    ("ClusterRole", "sked-metrics-reader", None),
    ("ClusterRole", "sked-schedext-editor-role", None),
    ("ClusterRole", "sked-schedext-viewer-role", None),
    ("ClusterRoleBinding", "sked-agent-rolebinding", None),
    ("ClusterRoleBinding", "sked-manager-rolebinding", None),
    ("ClusterRoleBinding", "sked-metrics-auth-rolebinding", None),
    ("Service", "sked-controller-manager-metrics-service", NAMESPACE),
    ("Deployment", DEPLOYMENT, NAMESPACE),
    ("DaemonSet", AGENT, NAMESPACE),
    ("ValidatingAdmissionPolicy", "sked-node-slot", None),
    ("ValidatingAdmissionPolicyBinding", "sked-node-slot", None),
    ("ValidatingAdmissionPolicy", "sked-node-report", None),
    ("ValidatingAdmissionPolicyBinding", "sked-node-report", None),
}
LABELS = {
    "control-plane": "controller-manager",
    "app.kubernetes.io/name": "sked",
    "app.kubernetes.io/managed-by": "kustomize",
}
AGENT_LABELS = {
    "control-plane": "agent",
    "app.kubernetes.io/name": "sked",
    "app.kubernetes.io/component": "agent",
}
Json = dict[str, Any]


def render(cluster: Cluster, folder: str) -> list[Json]:
    return list(yaml.safe_load_all(cluster.kubectl("kustomize", str(ROOT / "config" / folder)).stdout))


def find(objects: list[Json], kind: str) -> Json:
    (found,) = (document for document in objects if document["kind"] == kind)
    return found


def identify(document: Json) -> tuple[str, str, str | None]:
    return document["kind"], document["metadata"]["name"], document["metadata"].get("namespace")


def test_default_renders_the_described_objects_and_no_other(cluster: Cluster) -> None:
    objects = render(cluster, "default")
    assert len(objects) == len(RENDERED)
    assert {identify(document) for document in objects} == RENDERED
    assert find(objects, "Namespace")["metadata"]["labels"].items() >= LABELS.items()
    assert find(objects, "Deployment")["metadata"]["labels"] == LABELS


def test_manager_is_deployed_as_described(cluster: Cluster) -> None:
    spec = find(render(cluster, "default"), "Deployment")["spec"]
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    assert spec["replicas"] == 1
    assert (pod["serviceAccountName"], pod["terminationGracePeriodSeconds"]) == (DEPLOYMENT, 10)
    assert (container["name"], container["image"], container["command"]) == (
        "manager",
        "controller:latest",
        ["/manager"],
    )
    assert container["args"] == [
        "--metrics-bind-address=:8443",
        "--leader-elect",
        "--health-probe-bind-address=:8081",
    ]
    assert container["resources"] == {
        "limits": {"cpu": "500m", "memory": "128Mi"},
        "requests": {"cpu": "10m", "memory": "64Mi"},
    }
    probes = [container[name] for name in ("livenessProbe", "readinessProbe")]
    assert [(probe["httpGet"]["path"], probe["httpGet"]["port"]) for probe in probes] == [
        ("/healthz", 8081),
        ("/readyz", 8081),
    ]
    assert [(probe["initialDelaySeconds"], probe["periodSeconds"]) for probe in probes] == [(15, 20), (5, 10)]
    startup = container["startupProbe"]
    assert startup["httpGet"]["path"] == "/healthz"
    assert startup["periodSeconds"] * startup["failureThreshold"] == 300, "a slow start is not cut short"


def test_agent_is_deployed_on_every_node_without_any_privilege(cluster: Cluster) -> None:
    daemonset = find(render(cluster, "default"), "DaemonSet")
    pod = daemonset["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert daemonset["metadata"]["labels"].items() >= AGENT_LABELS.items()
    assert daemonset["spec"]["template"]["metadata"]["labels"] == AGENT_LABELS
    assert daemonset["spec"]["selector"]["matchLabels"].items() <= AGENT_LABELS.items()
    assert (container["image"], container["command"]) == ("controller:latest", ["/usr/bin/sked", "agent"])
    assert (pod["serviceAccountName"], pod["priorityClassName"]) == (AGENT, "system-node-critical")
    assert pod["tolerations"] == [{"operator": "Exists"}]
    assert pod["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "runAsGroup": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not pod.keys() & {"hostNetwork", "hostPID", "hostIPC", "volumes"}
    assert container["env"] == [{"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]
    agent.make_context("sked agent", container["args"] + ["--node-name=a"])  # and it takes all of them


def test_metrics_service_leads_to_the_manager(cluster: Cluster) -> None:
    objects = render(cluster, "default")
    service = find(objects, "Service")["spec"]
    assert service["ports"] == [{"name": "https", "port": 8443, "protocol": "TCP", "targetPort": 8443}]
    labels = find(objects, "Deployment")["spec"]["template"]["metadata"]["labels"]
    assert service["selector"].items() <= labels.items()


def test_monitor_selects_the_metrics_service(cluster: Cluster) -> None:
    monitor = find(render(cluster, "prometheus"), "ServiceMonitor")
    service = find(render(cluster, "default"), "Service")
    assert monitor["metadata"]["namespace"] == service["metadata"]["namespace"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert [endpoint["port"] for endpoint in monitor["spec"]["endpoints"]] == [service["spec"]["ports"][0]["name"]]


def test_agents_with_metrics_are_found_by_their_monitor(cluster: Cluster, tmp_path: Path) -> None:
    base, monitors, metrics = (
        os.path.relpath(ROOT / "config" / name, tmp_path) for name in ("default", "prometheus", "agent-metrics")
    )
    overlay = {"resources": [base, monitors], "components": [metrics]}
    (tmp_path / "kustomization.yaml").write_text(json.dumps(overlay))
    objects = render(cluster, str(tmp_path))
    agents = find(objects, "DaemonSet")
    template = agents["spec"]["template"]
    (container,) = template["spec"]["containers"]
    agent.make_context("sked agent", container["args"] + ["--node-name=a"])
    (port,) = container["ports"]
    assert f"--metrics-bind-address=:{port['containerPort']}" in container["args"]
    monitor = find(objects, "PodMonitor")
    assert monitor["metadata"]["namespace"] == agents["metadata"]["namespace"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    assert [endpoint["port"] for endpoint in monitor["spec"]["podMetricsEndpoints"]] == [port["name"]]
    policies = [found for found in render(cluster, "network-policy") if "agent" in found["metadata"]["name"]]
    assert [rule["ports"][0]["port"] for found in policies for rule in found["spec"]["ingress"]] == [
        port["containerPort"]
    ]


@pytest.mark.parametrize(
    "folder", ["agent", "crd", "default", "manager", "network-policy", "policy", "rbac", "samples"]
)
def test_folder_passes_strict_validation(deployed: Cluster, folder: str) -> None:
    words = ("apply", "--dry-run=server", "--validate=strict", "-k", str(ROOT / "config" / folder))
    assert deployed.kubectl(*words).stdout


@pytest.mark.parametrize("sample", sorted((ROOT / "config/samples").glob("sked_*.yaml")), ids=lambda path: path.stem)
def test_sample_passes_strict_validation(deployed: Cluster, sample: Path) -> None:
    words = ("apply", "--dry-run=server", "--validate=strict", "-f", str(sample))
    assert "created (server dry run)" in deployed.kubectl(*words).stdout


def test_restricted_pod_security_admits_the_manager_and_nothing_worse(deployed: Cluster) -> None:
    namespace = json.loads(deployed.kubectl("get", "namespace", NAMESPACE, "-o", "json").stdout)
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"

    def list_pods() -> list[Json]:
        return read_objects(deployed, "pod", NAMESPACE)

    (pod,) = wait_for("the manager's pod to be admitted", list_pods, 30)
    assert [container["image"] for container in pod["spec"]["containers"]] == [IMAGE]

    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "other", "namespace": NAMESPACE}}
    pod["spec"] = {"containers": [{"name": "other", "image": IMAGE, "securityContext": {"privileged": True}}]}
    refused = deployed.kubectl("apply", "--dry-run=server", "-f", "-", input=json.dumps(pod), check=False)
    assert 'violates PodSecurity "restricted' in refused.stderr


def test_admission_policy_of_the_security_page_leaves_privileged_daemonsets_to_sked(deployed: Cluster) -> None:
    page = (ROOT / "docs/security.md").read_text()
    (policy,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    deployed.kubectl("create", "namespace", "schedulers")
    deployed.kubectl("apply", "--validate=strict", "-f", "-", input=policy)

    def create(name: str, privileged: bool) -> tuple[int, str]:
        container = {"name": "it", "image": "example.com/it", "securityContext": {"privileged": privileged}}
        template = {"metadata": {"labels": {"name": name}}, "spec": {"containers": [container]}}
        spec = {"selector": {"matchLabels": {"name": name}}, "template": template}
        metadata = {"name": name, "namespace": "schedulers"}
        body = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata, "spec": spec}
        done = deployed.kubectl("create", "--dry-run=server", "-f", "-", input=json.dumps(body), check=False)
        return done.code, done.stderr

    wait_for("the policy to be in force", lambda: create("evil", True)[0] != 0, 30)
    assert "privileged DaemonSets in this namespace are made by sked, from a SchedExt" in create("evil", True)[1]
    assert create("harmless", False)[0] == 0
    deployed.kubectl("delete", "-f", "-", input=policy)
    deployed.kubectl("delete", "namespace", "schedulers", "--wait=false")
