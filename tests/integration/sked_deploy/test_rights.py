"""The rights of config/rbac, held by the manager's own service account: enough for its whole job, and missed aloud."""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import kube, kwok
from lab.cluster import Cluster
from lab.store import Store
from lab.waiting import wait_for
from tests.integration.sked_controller.operator import (
    Json,
    Operator,
    apply,
    condition,
    fetch,
    has,
    make_schedext,
    wait_absent,
    wait_object,
)
from tests.integration.sked_deploy.tools import NAMESPACE, Clone

ACCOUNT = "sked-controller-manager"
LEASE = "b4c95cb3.schedkit.io"
IMAGE = "example.com/scx_a:1"
LOOK_SECONDS = 8.0
POOL = {"pool": "all"}
READING = {"get", "list", "watch"}


@pytest.fixture(scope="module")
def deployed(cluster: Cluster, store: Store, clone: Clone) -> Iterator[Cluster]:
    """The module's cluster with config/default and one simulated node, on which no deployed manager can run."""
    clone.make(cluster, "deploy")
    cluster.kubectl("wait", "--for=condition=Established", "crd/schedexts.sked.schedkit.io", "--timeout=30s")
    cluster.kubectl("scale", "deployment", ACCOUNT, "-n", NAMESPACE, "--replicas=0")
    store.ensure(kube.KWOK)
    controller = kwok.Kwok.start(cluster, store.path(kube.KWOK))
    kwok.add_nodes(cluster, 1, labels=POOL)
    yield cluster
    controller.stop()


@pytest.fixture(scope="module")
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
def manager(deployed: Cluster, kubeconfig: Path, clone: Clone) -> Iterator[Operator]:
    """A manager with those rights alone, not yet started; the rights are put back afterwards."""
    manager = Operator(deployed, name="sked-account", kubeconfig=kubeconfig)
    yield manager
    print(manager.log()[-6000:])
    manager.stop()
    deployed.kubectl("delete", "schedexts", "--all", "-A", "--cascade=foreground")
    deployed.kubectl("apply", "-k", str(clone.folder / "config/rbac"))


def limit_daemonset_verbs(cluster: Cluster, verbs: set[str]) -> None:
    """Leave the manager only these of its verbs on DaemonSets."""
    role = fetch(cluster, "clusterrole", "sked-manager-role")
    assert role
    (rule,) = (rule for rule in role["rules"] if "daemonsets" in rule["resources"])
    kept = [other for other in role["rules"] if other is not rule]
    if left := sorted(verbs & set(rule["verbs"])):
        kept.append(rule | {"verbs": left})
    cluster.kubectl("replace", "-f", "-", input=json.dumps(role | {"rules": kept}))


def fetch_events(cluster: Cluster) -> list[Json]:
    found: list[Json] = json.loads(cluster.kubectl("get", "events.events.k8s.io", "-o", "json").stdout)["items"]
    return [event for event in found if event["regarding"]["kind"] == "SchedExt"]


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


def test_missing_right_to_write_is_a_condition_and_not_a_loop(deployed: Cluster, manager: Operator) -> None:
    limit_daemonset_verbs(deployed, READING)
    manager.start("--leader-elect")
    apply(deployed, make_schedext("refused", sched=IMAGE))
    refused = wait_object(deployed, "schedext", "refused", has("Degraded", "True", "Forbidden"))
    assert condition(refused, "Ready") == ("False", "Forbidden")
    (message,) = (found["message"] for found in refused["status"]["conditions"] if found["type"] == "Degraded")
    assert f'"system:serviceaccount:{NAMESPACE}:{ACCOUNT}" cannot patch resource "daemonsets"' in message
    said = manager.log().count("daemonsets")
    time.sleep(LOOK_SECONDS)
    assert said >= 1
    assert manager.log().count("daemonsets") <= said + 1
    assert fetch(deployed, "schedext", "refused") == refused


def test_missing_right_to_look_is_a_condition_and_a_log_line_and_not_a_loop(
    deployed: Cluster, manager: Operator
) -> None:
    limit_daemonset_verbs(deployed, set())
    manager.start("--leader-elect")
    apply(deployed, make_schedext("unseen", sched=IMAGE))

    def said() -> int:
        return len(re.findall(r'cannot (?:list|watch) resource \\"daemonsets\\"', manager.log()))

    wait_for("the log to say so", said, 20)
    blind = wait_object(deployed, "schedext", "unseen", has("Degraded", "True", "Forbidden"))
    assert condition(blind, "Ready") == ("Unknown", "Forbidden")
    (message,) = (found["message"] for found in blind["status"]["conditions"] if found["type"] == "Degraded")
    assert f'"system:serviceaccount:{NAMESPACE}:{ACCOUNT}" cannot watch resource "daemonsets"' in message
    before = said()
    time.sleep(LOOK_SECONDS)
    assert said() == before
    assert fetch(deployed, "schedext", "unseen") == blind
    assert manager.daemon.alive()

    deployed.kubectl("apply", "-k", str(Path(__file__).parents[3] / "config/rbac"))
    wait_object(deployed, "schedext", "unseen", has("Ready", "True", "Ready"))
