"""The lab's control plane, with real processes: what the other tests stand on."""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import astuple, replace
from pathlib import Path

import pytest

from lab import kube
from lab.cluster import Cluster, KubectlError, choose_ports
from lab.components import API_SERVER, COMPONENTS, CONTROLLER_MANAGER, ETCD, SCHEDULER
from lab.errors import LabError
from lab.https import connect, make_context
from lab.kube import Binaries
from lab.process import Daemon
from lab.store import Store
from lab.waiting import NotYetError, wait_for

REPOSITORY = Path(__file__).parents[2]
PRIVILEGED_POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "privileged"},
    "spec": {"containers": [{"name": "main", "image": "none", "securityContext": {"privileged": True}}]},
}


def fetch_names(cluster: Cluster, kind: str) -> set[str]:
    return set(cluster.kubectl("get", kind, "-o", "name").stdout.split())


def test_programs_of_envtest_are_taken_and_not_compiled(store: Store, binaries: Binaries, tmp_path: Path) -> None:
    for program in (binaries.etcd, binaries.kube_apiserver, binaries.kubectl):
        (tmp_path / program.name).symlink_to(program)
    assert kube.artefacts(None) == (kube.ETCD, kube.KUBE_API, kube.KUBE)
    assert kube.artefacts(tmp_path) == (kube.KUBE,)
    mixed = kube.binaries(store, tmp_path)
    assert {mixed.etcd.parent, mixed.kube_apiserver.parent, mixed.kubectl.parent} == {tmp_path}
    assert mixed.kubelet == binaries.kubelet
    (tmp_path / "kubectl").unlink()
    assert kube.artefacts(tmp_path) == (kube.KUBE_API, kube.KUBE)


def test_cluster_is_ready(cluster: Cluster) -> None:
    assert cluster.alive()
    assert cluster.kubectl("get", "--raw", "/readyz").stdout == "ok"


def test_cluster_says_the_version_of_its_programs(cluster: Cluster, binaries: Binaries) -> None:
    told = subprocess.run([binaries.kube_apiserver, "--version"], capture_output=True, text=True, check=True).stdout
    version = json.loads(cluster.kubectl("version", "-o", "json").stdout)
    assert told == f"Kubernetes {version['serverVersion']['gitVersion']}\n"
    assert version["serverVersion"]["gitVersion"] != "v0.0.0-master", "unstamped"


def test_kubectl_gives_output_and_exit_status(cluster: Cluster) -> None:
    result = cluster.kubectl("get", "node", "nobody", check=False)
    assert (result.code, result.stdout) == (1, "")
    assert "NotFound" in result.stderr
    with pytest.raises(KubectlError, match="NotFound"):
        cluster.kubectl("get", "node", "nobody")


@pytest.fixture(scope="module")
def other(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A second cluster, whose starter has ended."""
    folder = tmp_path_factory.mktemp("other")
    program = (
        "import sys; from pathlib import Path; from lab.cluster import Cluster; from lab.kube import Binaries; "
        "Cluster.start(Path(sys.argv[1]), Binaries(*map(Path, sys.argv[2:])))"
    )
    subprocess.run([sys.executable, "-c", program, folder, *astuple(binaries)], check=True, cwd=REPOSITORY)
    opened = Cluster.open(folder)
    yield opened
    opened.stop()


def test_cluster_outlives_its_starter_and_is_found_by_its_folder(other: Cluster, tmp_path: Path) -> None:
    assert other.alive()
    assert other.kubectl("get", "--raw", "/readyz").stdout == "ok"
    with pytest.raises(LabError, match="no cluster"):
        Cluster.open(tmp_path)
    with pytest.raises(LabError, match="already"):
        Cluster.start(other.folder, other.plane.binaries)


def test_two_clusters_live_side_by_side(cluster: Cluster, other: Cluster, tmp_path: Path) -> None:
    other.kubectl("create", "configmap", "only-here")
    assert "configmap/only-here" in fetch_names(other, "configmap")
    assert "configmap/only-here" not in fetch_names(cluster, "configmap")
    stranger = tmp_path / "stranger.kubeconfig"
    stranger.write_text(cluster.admin_kubeconfig.read_text().replace(str(cluster.api_port), str(other.api_port)))
    refused = other.kubectl("get", "ns", check=False, kubeconfig=stranger)
    assert "certificate" in refused.stderr


def test_stopping_one_cluster_leaves_the_other(cluster: Cluster, other: Cluster) -> None:
    other.stop()
    assert not other.alive()
    assert cluster.alive()


def test_restart_keeps_objects_and_wiping_loses_them(cluster: Cluster) -> None:
    cluster.kubectl("create", "configmap", "kept")
    authority, port = cluster.ca_certificate, cluster.api_port
    cluster.restart()
    assert "configmap/kept" in fetch_names(cluster, "configmap")
    cluster.wipe_etcd()
    assert "configmap/kept" not in fetch_names(cluster, "configmap")
    assert (cluster.ca_certificate, cluster.api_port) == (authority, port)


def test_component_stops_and_comes_back(cluster: Cluster) -> None:
    cluster.stop_component(API_SERVER)
    assert not cluster.alive()
    assert cluster.kubectl("get", "ns", check=False).code != 0
    cluster.start_component(API_SERVER)
    assert cluster.alive()
    assert "namespace/default" in fetch_names(cluster, "namespace")


def test_node_credential_reads_no_secret_of_others(cluster: Cluster, tmp_path: Path) -> None:
    cluster.kubectl("create", "secret", "generic", "private", "--from-literal=word=hush")
    text = cluster.node_kubeconfig("a")
    assert f"https://10.0.2.2:{cluster.api_port}" in text
    node = tmp_path / "node.kubeconfig"
    node.write_text(text.replace("10.0.2.2", "127.0.0.1"))
    refused = cluster.kubectl("get", "secret", "private", check=False, kubeconfig=node)
    assert refused.code == 1
    assert 'User "system:node:a" cannot get resource "secrets"' in refused.stderr
    allowed = cluster.kubectl("auth", "whoami", "-o", "json", kubeconfig=node)
    assert "system:nodes" in json.loads(allowed.stdout)["status"]["userInfo"]["groups"]


def test_unprivileged_user_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    nobody = tmp_path / "nobody.kubeconfig"
    nobody.write_text(cluster.make_kubeconfig("nobody"))
    refused = cluster.kubectl("get", "nodes", check=False, kubeconfig=nobody)
    assert 'User "nobody" cannot list resource "nodes"' in refused.stderr


def test_etcd_serves_the_api_server_only(cluster: Cluster) -> None:
    port = cluster.plane.ports[ETCD]
    with connect(port, make_context(cluster.plane.pki, "etcd-ca", "etcd-client")) as connection:
        assert connection.request("GET", "/health").status == 200
    admin_of_the_cluster = make_context(cluster.plane.pki, "etcd-ca", "admin")
    with connect(port, admin_of_the_cluster) as connection, pytest.raises(NotYetError, match="does not respond"):
        connection.request("GET", "/health")


def test_privileged_pod_is_refused_where_pod_security_is_restricted(cluster: Cluster) -> None:
    for name, level in (("open", "privileged"), ("closed", "restricted")):
        cluster.kubectl("create", "namespace", name)
        cluster.kubectl("label", "namespace", name, f"pod-security.kubernetes.io/enforce={level}")
    manifest = json.dumps(PRIVILEGED_POD)
    for name in ("open", "closed"):
        words = ("get", "serviceaccount", "default", "-n", name)
        wait_for("the namespace's service account", lambda: cluster.kubectl(*words, check=False).code == 0, 60)  # noqa: B023
    cluster.kubectl("create", "-f", "-", "-n", "open", input=manifest)
    refused = cluster.kubectl("create", "-f", "-", "-n", "closed", input=manifest, check=False)
    assert refused.code == 1
    assert 'violates PodSecurity "restricted:latest"' in refused.stderr


def test_lost_port_is_given_up_for_another(binaries: Binaries, tmp_path: Path) -> None:
    with socket.socket() as thief:
        thief.bind(("127.0.0.1", 0))
        thief.listen()
        taken = thief.getsockname()[1]
        first = {**choose_ports(), API_SERVER: taken}
        choices = iter([first])
        started = Cluster.start(tmp_path, binaries, choose_ports=lambda: next(choices, None) or choose_ports())
        started.stop()
    assert started.api_port != taken


@pytest.mark.parametrize("component", [ETCD, SCHEDULER])
def test_broken_program_is_named_with_its_last_words(component: str, binaries: Binaries, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho my last words >&2\nexit 3\n")
    broken.chmod(0o755)
    with pytest.raises(LabError, match=f"{component} has ended:\nmy last words"):
        Cluster.start(tmp_path / "cluster", replace(binaries, **{component.replace("-", "_"): broken}))
    assert not any(Daemon(name, tmp_path / "cluster").alive() for name in COMPONENTS)


def test_missing_program_is_named(binaries: Binaries, tmp_path: Path) -> None:
    with pytest.raises(LabError, match=f"{CONTROLLER_MANAGER} does not start"):
        Cluster.start(tmp_path / "cluster", replace(binaries, kube_controller_manager=tmp_path / "absent"))
    assert not any(Daemon(name, tmp_path / "cluster").alive() for name in COMPONENTS)
