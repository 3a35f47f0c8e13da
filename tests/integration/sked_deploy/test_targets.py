"""The make targets against a real API server: what they install, what they leave, and what they say."""

from collections.abc import Iterator

import pytest
import yaml

from lab.cluster import Cluster
from tests.integration.sked_controller.operator import (
    Json,
    Operator,
    apply,
    fetch,
    make_schedext,
    wait_object,
)
from tests.integration.sked_deploy.tools import CRD, IMAGE, NAMESPACE, Clone


@pytest.fixture(scope="module", autouse=True)
def empty(cluster: Cluster, clone: Clone) -> None:
    """Nothing is left of what other tests deployed."""
    clone.make(cluster, "undeploy", "ignore-not-found=true")


@pytest.fixture(scope="module")
def operator(cluster: Cluster) -> Iterator[Operator]:
    operator = Operator(cluster)
    yield operator
    operator.stop()


def fetch_image(cluster: Cluster) -> str:
    path = "jsonpath={.spec.template.spec.containers[0].image}"
    return cluster.kubectl("get", "deployment", "sked-controller-manager", "-n", NAMESPACE, "-o", path).stdout


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
    assert fetch(cluster, "namespace", NAMESPACE) is None

    clone.make(cluster, "uninstall")
    assert fetch(cluster, "crd", CRD) is None
    again = clone.make(cluster, "uninstall", check=False)
    assert again.code != 0
    assert "NotFound" in again.stderr
    clone.make(cluster, "uninstall", "ignore-not-found=true")


def test_deploy_replaces_the_image_and_edits_no_file(cluster: Cluster, clone: Clone) -> None:
    before = {path: path.read_bytes() for path in clone.folder.rglob("*") if path.is_file()}
    image = f"registry.example.com/sked@sha256:{'0' * 64}"
    clone.make(cluster, "deploy", f"IMG={image}")
    assert fetch_image(cluster) == image
    assert {path: path.read_bytes() for path in clone.folder.rglob("*") if path.is_file()} == before

    said = clone.make(cluster, "deploy").stderr
    assert "controller:latest is a placeholder" in said
    assert fetch_image(cluster) == "controller:latest"


def test_without_manager_and_rights_the_resources_stay(cluster: Cluster, clone: Clone, operator: Operator) -> None:
    made = make_daemonset(cluster, clone, operator)
    for folder in ("manager", "rbac"):
        cluster.kubectl("delete", "-k", str(clone.folder / "config" / folder), "--ignore-not-found")
    for kind in ("clusterroles", "clusterrolebindings"):
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
    assert expected.count("image: controller:latest\n") == 1
    for image in ("sked", IMAGE):
        clone.make(cluster, "build-installer", f"IMG={image}")
        wanted: list[Json] = list(yaml.safe_load_all(expected.replace("controller:latest", image)))
        assert list(yaml.safe_load_all(installer.read_text())) == wanted
        assert [path.name for path in installer.parent.iterdir()] == ["install.yaml"]

    cluster.kubectl("apply", "-f", str(installer))
    assert fetch_image(cluster) == IMAGE


def test_undeploy_takes_everything_along(cluster: Cluster, clone: Clone, operator: Operator) -> None:
    make_daemonset(cluster, clone, operator)
    clone.make(cluster, "undeploy")
    assert fetch(cluster, "daemonset", "kept") is None
    for kind in ("crds", "clusterroles", "clusterrolebindings", "namespaces"):
        assert "sked" not in cluster.kubectl("get", kind, "-o", "name").stdout
    assert clone.make(cluster, "undeploy", check=False).code != 0
    clone.make(cluster, "undeploy", "ignore-not-found=true")


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
