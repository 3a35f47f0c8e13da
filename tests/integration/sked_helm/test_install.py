"""Releases on a real API server: admitted, installed, upgraded, taken over and uninstalled."""

import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from lab.cluster import Cluster
from lab.waiting import NotYetError, wait_for
from tests.integration.clusters import wait_until_gone
from tests.integration.sked_deploy.tools import make_token, patch_node, wait_for_node_policy
from tests.integration.sked_helm.tools import (
    CHART,
    CRD,
    EVERYTHING,
    MONITORING,
    NAMESPACE,
    NOTHING,
    RELEASE,
    REPORTS,
    ROOT,
    Helm,
    Object,
    render_stream,
)

RESTRICTED: Object = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {
        "name": NAMESPACE,
        "labels": {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")},
    },
}
SCHEDEXT: Object = {
    "apiVersion": "sked.schedkit.io/v1",
    "kind": "SchedExt",
    "metadata": {"name": "kept", "namespace": "default"},
    "spec": {"sched": "registry.example.com/scx:v1"},
}
IMAGE = ("--set", "image.repository=registry.example.com/sked", "--set", "image.tag=v1")
ONLY_SLOT = "sked may change only its labels and annotations of a node"
# All kinds that the chart makes on a plain cluster but the definition of the resource, which may stay.
KINDS = (
    "deployment,daemonset,service,serviceaccount,role,rolebinding,clusterrole,clusterrolebinding,networkpolicy,"
    "validatingadmissionpolicy,validatingadmissionpolicybinding"
)


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster with the namespace, which takes restricted pods only, and nothing of ours left in it afterwards."""
    cluster.kubectl("apply", "-f", "-", input=json.dumps(RESTRICTED))
    yield cluster
    cluster.kubectl("delete", "secrets", "-n", NAMESPACE, "-l", "owner=helm")  # releases that a failed test left
    cluster.kubectl("delete", "crd", CRD, REPORTS, "--ignore-not-found", "--wait=false")
    wait_until_gone(cluster, CRD, REPORTS)
    for kind, name in fetch_ours(cluster):
        cluster.kubectl("delete", kind, name, "-n", NAMESPACE)
    wait_for("pods to go", lambda: not fetch_pods(cluster), 30)


def fetch_ours(cluster: Cluster) -> set[tuple[str, str]]:
    """Kinds and names of what there is with our prefix."""
    listed = json.loads(cluster.kubectl("get", KINDS, "-n", NAMESPACE, "-o", "json").stdout)["items"]
    return {
        (thing["kind"], thing["metadata"]["name"]) for thing in listed if thing["metadata"]["name"].startswith("sked-")
    }


def fetch(cluster: Cluster, kind: str, name: str) -> Object:
    found: Object = json.loads(cluster.kubectl("get", kind, name, "-n", NAMESPACE, "-o", "json").stdout)
    return found


def fetch_manager(cluster: Cluster) -> Object:
    return fetch(cluster, "deployment", "sked-controller-manager")


def is_observed(thing: Object) -> bool:
    return bool(thing["status"].get("observedGeneration") == thing["metadata"]["generation"])


def fetch_pods(cluster: Cluster) -> list[Object]:
    pods: list[Object] = json.loads(cluster.kubectl("get", "pods", "-n", NAMESPACE, "-o", "json").stdout)["items"]
    return pods


def wait_for_pod(cluster: Cluster) -> Object:
    """The manager's only pod, which no node runs here."""

    def find() -> Object:
        pods = fetch_pods(cluster)
        if not pods:
            raise NotYetError(cluster.kubectl("get", "events", "-n", NAMESPACE).stdout)
        (pod,) = pods
        return pod

    return wait_for("the manager's pod to be created", find, 30)


def list_definitions(cluster: Cluster) -> list[str]:
    return cluster.kubectl("get", "crd", CRD, REPORTS, "--ignore-not-found", "-o", "name").stdout.split()


def has_definition(cluster: Cluster) -> bool:
    """Both or none."""
    found = list_definitions(cluster)
    assert len(found) in (0, 2)
    return bool(found)


def install(helm: Helm, *words: str) -> str:
    return helm.run("install", RELEASE, CHART, "--namespace", NAMESPACE, *IMAGE, *words).stdout


def upgrade(helm: Helm, *words: str) -> None:
    helm.run("upgrade", RELEASE, CHART, "--namespace", NAMESPACE, *IMAGE, *words)


def uninstall(helm: Helm) -> None:
    helm.run("uninstall", RELEASE, "--namespace", NAMESPACE, "--wait")


@pytest.mark.parametrize("values", [{}, EVERYTHING, NOTHING], ids=["default", "everything", "nothing"])
def test_objects_pass_strict_validation_without_a_warning(
    helm: Helm, cluster: Cluster, values: Mapping[str, Any]
) -> None:
    cluster.kubectl("apply", "-f", "-", input=json.dumps(RESTRICTED))
    # The definitions of these belong to the Prometheus operator, which is not here.
    objects = [thing for (kind, _), thing in helm.template(values=values).items() if kind not in MONITORING]
    told = cluster.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", input=render_stream(objects))
    assert told.stderr == ""
    assert len(told.stdout.splitlines()) == len(objects)


def test_release_lives_and_leaves_the_resources(cluster_helm: Helm, namespace: Cluster) -> None:
    rendered = cluster_helm.template(*IMAGE)
    told = install(cluster_helm)
    assert f"kubectl -n {NAMESPACE} rollout status deployment/sked-controller-manager" in told
    assert wait_for_pod(namespace)["spec"]["serviceAccountName"] == "sked-controller-manager"
    # It is admitted where pods are restricted, and this namespace does refuse what is not.
    loose = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "loose", "namespace": NAMESPACE}}
    spec = {"containers": [{"name": "main", "image": "none"}]}
    refused = namespace.kubectl("create", "-f", "-", input=json.dumps(loose | {"spec": spec}), check=False)
    assert 'violates PodSecurity "restricted' in refused.stderr
    assert "placeholder" not in told
    assert fetch_ours(namespace) == {key for key in rendered if key[1] not in (CRD, REPORTS)}
    namespace.kubectl("wait", "--for=condition=Established", f"crd/{CRD}", "--timeout=30s")
    namespace.kubectl("apply", "-f", "-", input=json.dumps(SCHEDEXT))

    upgrade(cluster_helm, "--set", "replicas=2", "--set", "networkPolicy.enabled=true")
    assert fetch_manager(namespace)["spec"]["replicas"] == 2
    assert ("NetworkPolicy", "sked-allow-metrics-traffic") in fetch_ours(namespace)
    upgrade(cluster_helm, "--set", "metrics.enabled=false")
    assert not [name for _, name in fetch_ours(namespace) if "metrics" in name]
    history = json.loads(cluster_helm.run("history", RELEASE, "-n", NAMESPACE, "-o", "json").stdout)
    assert [entry["status"] for entry in history] == ["superseded", "superseded", "deployed"]

    cluster_helm.run("rollback", RELEASE, "1", "--namespace", NAMESPACE)
    assert fetch_ours(namespace) == {key for key in rendered if key[1] not in (CRD, REPORTS)}
    upgrade(cluster_helm, "--set", "crds.install=false")
    assert has_definition(namespace), "it stays when an upgrade no longer installs it"

    uninstall(cluster_helm)
    assert fetch_ours(namespace) == set()
    kept = json.loads(namespace.kubectl("get", "schedext", "kept", "-o", "json").stdout)
    assert kept["spec"] == SCHEDEXT["spec"]
    install(cluster_helm)  # finds what it left and goes on with it
    assert fetch_manager(namespace)["spec"]["replicas"] == 1
    uninstall(cluster_helm)
    assert has_definition(namespace), "it stays when the release that installs it goes"


def test_account_that_the_values_name_may_label_nodes_and_nothing_more(cluster_helm: Helm, namespace: Cluster) -> None:
    """As the account `operator`; what is refused in which words is in sked_deploy/test_node_policy."""
    account = ("--set", "serviceAccount.name=operator")
    install(cluster_helm, *account)
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "judged"}}
    namespace.kubectl("create", "-f", "-", input=json.dumps(node))
    slot = {"metadata": {"labels": {"sked.schedkit.io/slot": "default.a"}}}
    try:
        token = make_token(namespace, "operator")
        wait_for_node_policy(namespace, token, "judged")
        assert patch_node(namespace, token, "judged", slot) == (200, "")
        assert ONLY_SLOT in patch_node(namespace, token, "judged", {"spec": {"unschedulable": True}})[1]

        upgrade(cluster_helm, *account, "--set", "nodes.label=false")
        assert "sked-node-slot" not in {name for _, name in fetch_ours(namespace)}
        denied = 'cannot patch resource "nodes"'
        wait_for("the right to go", lambda: denied in patch_node(namespace, token, "judged", slot)[1], 30)
    finally:
        namespace.kubectl("delete", "node", "judged")
    uninstall(cluster_helm)


def test_definition_goes_with_the_release_when_it_is_not_kept(cluster_helm: Helm, namespace: Cluster) -> None:
    install(cluster_helm, "--set", "crds.keep=false")
    assert has_definition(namespace)
    # Not with --wait: the server may forget a definition that it has just been given, see wait_until_gone.
    cluster_helm.run("uninstall", RELEASE, "--namespace", NAMESPACE)
    wait_until_gone(namespace, CRD, REPORTS)
    assert fetch_ours(namespace) == set()


def test_documented_commands_clean_the_nodes(cluster: Cluster, tmp_path: Path) -> None:
    """They remove what sked wrote, and leave what people wrote."""
    (block,) = re.findall(r"```console\n([^`]*sked.schedkit.io/slot-\n)```", (ROOT / "docs/sked/helm.md").read_text())
    script = re.sub(r"^\$ ", "", block, flags=re.MULTILINE)
    slot = "sked.schedkit.io/slot"
    nodes = {"by-sked": ("default.a", "default.a"), "by-a-person": ("a", "default.b"), "by-nobody": ("", "")}
    for name, (label, annotation) in nodes.items():
        cluster.kubectl(
            "create", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
        )
        if label:
            cluster.kubectl("label", "node", name, f"{slot}={label}")
            cluster.kubectl("annotate", "node", name, f"{slot}={annotation}", "sked.schedkit.io/quarantine={}")
    (tmp_path / "kubectl").symlink_to(cluster.plane.binaries.kubectl)
    environment = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "KUBECONFIG": str(cluster.admin_kubeconfig),
    }
    try:
        subprocess.run(["bash", "-euo", "pipefail", "-c", script], env=environment, capture_output=True, check=True)
        found = json.loads(cluster.kubectl("get", "nodes", *nodes, "-o", "json").stdout)["items"]
        metadata = [node["metadata"] for node in found]
        assert {it["name"]: it.get("labels", {}).get(slot) for it in metadata} == dict.fromkeys(nodes) | {
            "by-a-person": "a"
        }
        assert not [it["name"] for it in metadata for key in it.get("annotations", {}) if "schedkit" in key]
    finally:
        cluster.kubectl("delete", "nodes", *nodes)


def test_upgrade_brings_the_definition_up_to_date(cluster_helm: Helm, namespace: Cluster) -> None:
    install(cluster_helm)
    categories = {"spec": {"names": {"categories": ["old"]}}}
    namespace.kubectl("patch", "crd", CRD, "--type=merge", "--patch", json.dumps(categories))
    refused = cluster_helm.run("upgrade", RELEASE, CHART, "-n", NAMESPACE, *IMAGE, check=False)
    assert 'conflict with "kubectl-patch"' in refused.stderr
    upgrade(cluster_helm, "--force-conflicts")
    assert fetch(namespace, "crd", CRD)["spec"]["names"]["categories"] == ["schedkit"]
    uninstall(cluster_helm)


def test_release_takes_over_from_kustomize_and_restarts_nothing(cluster_helm: Helm, namespace: Cluster) -> None:
    namespace.kubectl("apply", "-k", str(ROOT / "config/default"))
    before, pod = fetch_manager(namespace), wait_for_pod(namespace)
    command = ("install", RELEASE, CHART, "--namespace", NAMESPACE)
    refused = cluster_helm.run(*command, check=False)
    assert "exists and cannot be imported into the current release" in refused.stderr
    told = cluster_helm.run(*command, "--take-ownership", "--force-conflicts")
    assert "controller:latest is a placeholder" in told.stdout
    after = fetch_manager(namespace)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["spec"] == before["spec"]
    assert after["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "Helm"
    wait_for("the Deployment to be looked at", lambda: is_observed(fetch_manager(namespace)), 30)
    assert wait_for_pod(namespace)["metadata"]["uid"] == pod["metadata"]["uid"]
    uninstall(cluster_helm)
    assert fetch_ours(namespace) == set()


def test_nothing_is_installed_with_a_wrong_value(cluster_helm: Helm, namespace: Cluster) -> None:
    told = cluster_helm.run("install", RELEASE, CHART, "-n", NAMESPACE, "--set", "replica=2", check=False)
    assert told.code == 1
    assert "additional properties 'replica' not allowed" in told.stderr
    assert fetch_ours(namespace) == set()
    assert not has_definition(namespace)
