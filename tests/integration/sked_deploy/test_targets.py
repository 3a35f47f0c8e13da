"""The make targets against a real API server: what they install, what they leave, and what they say."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from lab import kube, kwok
from lab.cluster import Cluster
from lab.store import Store
from lab.waiting import wait_for
from tests.integration.clusters import read_api, read_objects
from tests.integration.sked_controller.operator import (
    Json,
    Operator,
    apply,
    fetch,
    make_schedext,
    wait_object,
)
from tests.integration.sked_deploy.tools import AGENT, CRD, IMAGE, NAMESPACE, REPORTS, Clone

POLICIES = "validatingadmissionpolicies,validatingadmissionpolicybindings"
SLOT, QUARANTINE = "sked.schedkit.io/slot", "sked.schedkit.io/quarantine"


@pytest.fixture(scope="module", autouse=True)
def empty(cluster: Cluster, clone: Clone) -> None:
    """Nothing is left of what other tests deployed."""
    clone.make(cluster, "undeploy", "ignore-not-found=true")


@pytest.fixture(scope="module")
def operator(cluster: Cluster) -> Iterator[Operator]:
    operator = Operator(cluster)
    yield operator
    operator.stop()


def fetch_images(cluster: Cluster) -> str:
    """The image of the manager and the agents, which is one."""
    path = "jsonpath={.items[*].spec.template.spec.containers[0].image}"
    programs = ("deployment/sked-controller-manager", f"daemonset/{AGENT}")
    manager, agent = cluster.kubectl("get", *programs, "-n", NAMESPACE, "-o", path).stdout.split()
    assert manager == agent
    return manager


def make_daemonset(cluster: Cluster, clone: Clone, operator: Operator) -> Json:
    """Deploy, and have an operator make the DaemonSet of the resource `kept`."""
    clone.make(cluster, "deploy", f"IMG={IMAGE}")
    cluster.kubectl("wait", "--for=condition=Established", f"crd/{CRD}", "--timeout=30s")
    operator.start()
    apply(cluster, make_schedext("kept", sched="example.com/scx_a:1"))
    made = wait_object(cluster, "daemonset", "kept", lambda _: True)
    operator.stop()
    return made


def test_install_brings_the_resource_definition_alone(cluster: Cluster, clone: Clone) -> None:
    clone.make(cluster, "install")
    clone.make(cluster, "install")
    assert fetch(cluster, "crd", CRD)
    assert fetch(cluster, "crd", REPORTS)
    assert fetch(cluster, "namespace", NAMESPACE) is None

    clone.make(cluster, "uninstall")
    assert fetch(cluster, "crd", CRD) is None
    assert fetch(cluster, "crd", REPORTS) is None
    again = clone.make(cluster, "uninstall", check=False)
    assert again.code != 0
    assert "NotFound" in again.stderr
    clone.make(cluster, "uninstall", "ignore-not-found=true")


def test_deploy_replaces_the_image_and_edits_no_file(cluster: Cluster, clone: Clone) -> None:
    before = {path: path.read_bytes() for path in clone.folder.rglob("*") if path.is_file()}
    image = f"registry.example.com/sked@sha256:{'0' * 64}"
    clone.make(cluster, "deploy", f"IMG={image}")
    assert fetch_images(cluster) == image
    assert {path: path.read_bytes() for path in clone.folder.rglob("*") if path.is_file()} == before

    said = clone.make(cluster, "deploy").stderr
    assert "controller:latest is a placeholder" in said
    assert fetch_images(cluster) == "controller:latest"


def test_without_manager_and_rights_the_resources_stay(cluster: Cluster, clone: Clone, operator: Operator) -> None:
    made = make_daemonset(cluster, clone, operator)
    for folder in ("manager", "agent", "rbac", "policy"):
        cluster.kubectl("delete", "-k", str(clone.folder / "config" / folder), "--ignore-not-found")
    for kind in ("clusterroles", "clusterrolebindings", POLICIES):
        assert "sked-" not in cluster.kubectl("get", kind, "-o", "name").stdout
    assert fetch(cluster, "namespace", NAMESPACE) is None
    assert fetch(cluster, "crd", CRD)
    assert fetch(cluster, "schedext", "kept")
    kept = fetch(cluster, "daemonset", "kept")
    assert kept
    assert kept["metadata"]["uid"] == made["metadata"]["uid"]

    clone.make(cluster, "deploy", f"IMG={IMAGE}")
    operator.start()
    apply(cluster, make_schedext("kept", sched="example.com/scx_a:2"))
    wait_object(cluster, "daemonset", "kept", lambda found: found["metadata"]["generation"] > 1)
    operator.stop()


def test_installer_is_the_overlay_in_one_file(cluster: Cluster, clone: Clone) -> None:
    installer = clone.folder / "dist/install.yaml"
    expected = cluster.kubectl("kustomize", str(clone.folder / "config/default")).stdout
    assert expected.count("image: controller:latest\n") == 2
    for image in ("sked", IMAGE):
        clone.make(cluster, "build-installer", f"IMG={image}")
        wanted: list[Json] = list(yaml.safe_load_all(expected.replace("controller:latest", image)))
        assert list(yaml.safe_load_all(installer.read_text())) == wanted
        assert [path.name for path in installer.parent.iterdir()] == ["install.yaml"]

    cluster.kubectl("apply", "-f", str(installer))
    assert fetch_images(cluster) == IMAGE


def test_undeploy_takes_everything_along(cluster: Cluster, clone: Clone, operator: Operator) -> None:
    make_daemonset(cluster, clone, operator)
    clone.make(cluster, "undeploy")
    assert fetch(cluster, "daemonset", "kept") is None
    for kind in ("crds", "clusterroles", "clusterrolebindings", "namespaces", POLICIES):
        assert "sked" not in cluster.kubectl("get", kind, "-o", "name").stdout
    assert clone.make(cluster, "undeploy", check=False).code != 0
    clone.make(cluster, "undeploy", "ignore-not-found=true")


@pytest.fixture
def dead_node(cluster: Cluster, store: Store) -> Iterator[Callable[[], None]]:
    """A node that is ready until it is told to be dead: from then on its pods never end."""
    store.ensure(kube.KWOK)
    kubelet = kwok.Kwok.start(cluster, store.path(kube.KWOK))
    (name,) = kwok.add_nodes(cluster, 1)
    yield kubelet.stop
    kubelet.stop()
    cluster.kubectl("delete", "node", name)
    cluster.kubectl("delete", "pods", "--all", "-A", "--force", "--grace-period=0")


def test_undeploy_ends_with_a_node_that_does_not_respond(
    cluster: Cluster, clone: Clone, operator: Operator, dead_node: Callable[[], None]
) -> None:
    make_daemonset(cluster, clone, operator)
    (pod,) = wait_for("the scheduler", lambda: read_objects(cluster, "pod", "default", "name=kept"), 60)
    manager = wait_for("the manager", lambda: read_objects(cluster, "pod", NAMESPACE), 60)
    for running in (pod, *manager):
        name, namespace = running["metadata"]["name"], running["metadata"]["namespace"]
        wait_object(cluster, "pod", name, lambda found: found["status"]["phase"] == "Running", namespace)
    dead_node()

    told = clone.make(cluster, "undeploy", "PATIENCE=5", check=False)
    assert told.code != 0
    name = pod["metadata"]["name"]
    assert (
        f"hint: 1 pods have not ended within 5 s, first {name} on node kwok-0000: does the node respond?" in told.stderr
    )
    assert f"error: still being deleted after 5 s: namespace/{NAMESPACE} crd/{CRD} crd/{REPORTS}" in told.stderr
    assert fetch(cluster, "crd", CRD) is None
    assert fetch(cluster, "daemonset", "kept") is None
    left = fetch(cluster, "pod", name)
    assert left
    assert left["metadata"]["deletionTimestamp"]

    for running in manager:
        words = ("pod", running["metadata"]["name"], "-n", NAMESPACE, "--force", "--grace-period=0")
        cluster.kubectl("delete", *words)
    clone.make(cluster, "undeploy", "ignore-not-found=true")
    assert fetch(cluster, "namespace", NAMESPACE) is None


def test_uninstall_ends_with_a_resource_that_somebody_holds(cluster: Cluster, clone: Clone) -> None:
    clone.make(cluster, "install")
    cluster.kubectl("wait", "--for=condition=Established", f"crd/{CRD}", "--timeout=30s")
    held = make_schedext("held", sched="example.com/scx_a:1")
    held["metadata"]["finalizers"] = ["example.com/held"]
    apply(cluster, held)
    told = clone.make(cluster, "uninstall", "PATIENCE=3", check=False)
    assert told.code != 0
    assert f"error: still being deleted after 3 s: crd/{CRD} crd/{REPORTS}\nhint: " in told.stderr
    cluster.kubectl("patch", "schedext", "held", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    clone.make(cluster, "uninstall", "ignore-not-found=true")
    assert fetch(cluster, "crd", CRD) is None


def write_kubectl(cluster: Cluster, folder: Path, before: str) -> str:
    """The word of `make` for a kubectl that does something else before, in bash."""
    kubectl = folder / "kubectl"
    real = f"{cluster.plane.binaries.kubectl} --cache-dir={cluster.folder}/kubectl-cache"
    kubectl.write_text(f'#!/bin/bash\n{before.format(real=real)}\nexec {real} "$@"\n')
    kubectl.chmod(0o755)
    return f"KUBECTL={kubectl}"


def test_uninstall_goes_on_where_the_definition_was_gone_a_moment_later(
    cluster: Cluster, clone: Clone, tmp_path: Path
) -> None:
    clone.make(cluster, "install")
    cluster.kubectl("wait", "--for=condition=Established", f"crd/{CRD}", "--timeout=30s")
    gone = f"""if [[ "$*" = "delete {CRD} --all"* ]]; then
      {{real}} delete crd {CRD} --wait=false >&2
      while {{real}} get crd {CRD} >&2; do {{real}} annotate --overwrite crd {CRD} now=$SECONDS >&2; sleep 0.2; done
    fi"""
    told = clone.make(cluster, "uninstall", "ignore-not-found=true", write_kubectl(cluster, tmp_path, gone))
    assert "error:" not in told.stderr
    assert fetch(cluster, "crd", CRD) is None
    assert fetch(cluster, "crd", REPORTS) is None


def test_uninstall_deletes_nothing_where_the_definition_cannot_be_read(
    cluster: Cluster, clone: Clone, tmp_path: Path
) -> None:
    clone.make(cluster, "install")
    cluster.kubectl("wait", "--for=condition=Established", f"crd/{CRD}", "--timeout=30s")
    unreadable = '[[ "$1 $2" != "get crd" ]] || {{ echo "error: etcdserver: request timed out" >&2; exit 1; }}'
    told = clone.make(cluster, "uninstall", write_kubectl(cluster, tmp_path, unreadable), check=False)
    assert told.code != 0
    assert "error: etcdserver: request timed out" in told.stderr
    for name in (CRD, REPORTS):
        definition = fetch(cluster, "crd", name)
        assert definition
        assert "deletionTimestamp" not in definition["metadata"]
    clone.make(cluster, "uninstall")


def test_what_sked_wrote_on_nodes_goes_and_what_people_wrote_stays(cluster: Cluster, clone: Clone) -> None:
    clone.make(cluster, "install")
    nodes = {  # label and annotation, before and after
        "sked": (("default.a", "default.a"), (None, None)),
        "person": (("none", None), ("none", None)),
        "person-after-sked": (("a", "default.b"), ("a", None)),
        "person-unlabelled": ((None, "default.b"), (None, None)),
        "nobody": ((None, None), (None, None)),
    }
    for name, ((label, annotation), _) in nodes.items():
        metadata = {"name": name, "labels": {"kept": "x"} | ({SLOT: label} if label else {})}
        metadata |= {"annotations": {"kept": "x", QUARANTINE: "{}"} | ({SLOT: annotation} if annotation else {})}
        cluster.kubectl(
            "create", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "Node", "metadata": metadata})
        )
    try:
        clone.make(cluster, "uninstall")
        found = {node["metadata"]["name"]: node["metadata"] for node in read_api(cluster, "/api/v1/nodes")["items"]}
        after = {name: (found[name]["labels"].get(SLOT), found[name]["annotations"].get(SLOT)) for name in nodes}
        assert after == {name: expected for name, (_, expected) in nodes.items()}
        assert {(found[name]["labels"]["kept"], found[name]["annotations"]["kept"]) for name in nodes} == {("x", "x")}
        assert not [name for name in nodes if QUARANTINE in found[name]["annotations"]]
    finally:
        cluster.kubectl("delete", "nodes", *nodes)


def test_errors_say_what_is_missing_and_what_to_do(clone: Clone, cluster: Cluster) -> None:
    absent = clone.make(None, "deploy", "KUBECTL=/nowhere/kubectl", check=False)
    assert "error: /nowhere/kubectl is not installed\nhint: install kubectl" in absent.stderr

    kubectl = f"KUBECTL={cluster.plane.binaries.kubectl} --server=https://127.0.0.1:1"
    for target in ("install", "uninstall", "deploy", "undeploy"):
        nobody = clone.make(None, target, kubectl, check=False)
        assert nobody.code != 0
        assert "error: no cluster answers: " in nobody.stderr
        assert "hint: kubectl config get-contexts" in nobody.stderr

    wrong = clone.make(cluster, "deploy", "IMG=not an image", check=False)
    assert "error: IMG=not an image is not an image reference" in wrong.stderr
    tool = clone.make(None, "docker-build", "CONTAINER_TOOL=no-such-tool", check=False)
    assert "error: no-such-tool is not installed\nhint: CONTAINER_TOOL=podman" in tool.stderr
    assert not list((clone.folder / "dist").glob("overlay.*"))
