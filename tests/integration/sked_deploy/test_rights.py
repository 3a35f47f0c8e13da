"""The rights of config/rbac, held by the manager's own service account: enough for its whole job, and no more."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import kube, kwok
from lab.cluster import Cluster
from lab.store import Store
from lab.waiting import wait_for
from tests.integration.clusters import read_objects
from tests.integration.sked_controller.operator import (
    Json,
    Operator,
    apply,
    fetch,
    has,
    make_schedext,
    wait_absent,
    wait_object,
)
from tests.integration.sked_deploy.tools import NAMESPACE

ACCOUNT = "sked-controller-manager"
LEASE = "b4c95cb3.schedkit.io"
IMAGE = "example.com/scx_a:1"
POOL = {"pool": "all"}


@pytest.fixture
def simulated(deployed: Cluster, store: Store) -> Iterator[Cluster]:
    """The same with one simulated node, on which no deployed manager is said to run."""
    deployed.kubectl("scale", "deployment", ACCOUNT, "-n", NAMESPACE, "--replicas=0")
    store.ensure(kube.KWOK)
    controller = kwok.Kwok.start(deployed, store.path(kube.KWOK))
    names = kwok.add_nodes(deployed, 1, labels=POOL)
    yield deployed
    controller.stop()
    deployed.kubectl("delete", "nodes", *names)


@pytest.fixture
def kubeconfig(deployed: Cluster) -> Path:
    """The kubeconfig of the manager's service account, by a token as its pod has one."""
    token = deployed.kubectl("create", "token", ACCOUNT, "-n", NAMESPACE).stdout.strip()
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "it",
        "clusters": [
            {
                "name": "it",
                "cluster": {
                    "server": f"https://127.0.0.1:{deployed.api_port}",
                    "certificate-authority": str(deployed.plane.pki / "ca.crt"),
                },
            }
        ],
        "users": [{"name": "it", "user": {"token": token}}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it", "namespace": NAMESPACE}}],
    }
    path = deployed.folder / "manager.kubeconfig"
    path.write_text(json.dumps(config))
    path.chmod(0o600)
    return path


@pytest.fixture
def manager(simulated: Cluster, kubeconfig: Path) -> Iterator[Operator]:
    """A manager with those rights alone, not yet started."""
    manager = Operator(simulated, name="sked-account", kubeconfig=kubeconfig)
    yield manager
    print(manager.log()[-6000:])
    manager.stop()
    simulated.kubectl("delete", "schedexts", "--all", "-A")


def fetch_events(cluster: Cluster) -> list[Json]:
    return [event for event in read_objects(cluster, "event", "default") if event["regarding"]["kind"] == "SchedExt"]


def test_rights_are_enough_for_the_whole_job(deployed: Cluster, manager: Operator) -> None:
    manager.start("--leader-elect")
    apply(deployed, make_schedext("fleet", sched=IMAGE, pools=[{"name": "all", "nodeSelector": POOL}]))
    ready = wait_object(deployed, "schedext", "fleet", has("Ready", "True", "Ready"))
    assert ready["status"]["nodes"]["ready"] == 1
    holder = wait_object(deployed, "lease", LEASE, lambda found: bool(found["spec"]["holderIdentity"]), NAMESPACE)
    assert holder["spec"]["leaseDurationSeconds"] == 15
    assert wait_for("an Event", lambda: fetch_events(deployed), 20)

    apply(deployed, make_schedext("fleet", sched=IMAGE))
    wait_object(deployed, "daemonset", "fleet", lambda _: True)
    wait_absent(deployed, "daemonset", "fleet-all")
    apply(deployed, make_schedext("fleet", sched="example.com/scx_a:2"))
    wait_object(deployed, "schedext", "fleet", has("Ready", "True", "Ready"))
    apply(deployed, make_schedext("fleet", sched="example.com/scx_a:2", suspend=True))
    wait_object(deployed, "schedext", "fleet", has("Ready", "True", "Suspended"))
    wait_absent(deployed, "daemonset", "fleet")
    manager.stop()
    released = fetch(deployed, "lease", LEASE, NAMESPACE)
    assert released
    assert not released["spec"].get("holderIdentity")
    assert not re.search("forbidden", manager.log(), re.IGNORECASE)


def test_rights_are_no_more_than_the_job_needs(deployed: Cluster) -> None:
    account = f"--as=system:serviceaccount:{NAMESPACE}:{ACCOUNT}"

    def ask(verb: str, resource: str) -> str:
        kind, _, part = resource.partition("/")
        options = [f"--subresource={part}"] if part else []
        return deployed.kubectl("auth", "can-i", verb, kind, "-A", account, *options, check=False).stdout.strip()

    assert ask("get", "pods/log") == "yes"
    for verb, resource in (
        ("create", "pods/exec"),
        ("get", "pods/exec"),
        ("get", "pods/proxy"),
        ("get", "nodes/proxy"),
        ("get", "nodes/log"),
        ("get", "secrets"),
        ("create", "pods"),
        ("delete", "pods"),
        ("patch", "nodes"),
        ("create", "schedexts"),
        ("delete", "schedexts"),
        ("patch", "schedexts"),
        ("create", "clusterroles"),
    ):
        assert ask(verb, resource) == "no", f"{verb} {resource}"
