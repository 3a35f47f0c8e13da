"""The operator from its image, in a cluster whose node is a machine: what a SchedExt asks for ends in a real kernel."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from lab.cluster import Cluster
from lab.machine import Machine
from lab.node import join
from lab.session import NODE
from lab.sked_image import TAG, build_sked
from lab.store import Store
from lab.waiting import wait_for
from tests.e2e.conftest import ATTACH_SECONDS, read_slot, wait_attached, wait_detached
from tests.integration.clusters import read_objects
from tests.integration.sked_controller.operator import apply, condition, fetch, has, make_schedext, wait_object
from tests.integration.sked_deploy.tools import NAMESPACE, Clone

FIRST, SECOND = "localhost:5000/scx_fifo:v1", "localhost:5000/scx_fifo:v2"
MEMORY_LIMIT_KB = 128 * 1024
READ_METRICS = """
import ssl, sys, urllib.error, urllib.request
request = urllib.request.Request(sys.argv[1], headers={"Authorization": "Bearer " + word for word in sys.argv[2:]})
context = ssl._create_unverified_context()
try:
    answer = urllib.request.urlopen(request, context=context, timeout=20)
except urllib.error.HTTPError as error:
    answer = error
print(answer.status)
print(answer.read().decode())
"""


# The kubelet doubles its pause before each restart, from 10 seconds to minutes; nothing here depends on how long it is.
BACK_OFF = "crashLoopBackOff: {maxContainerRestartPeriod: 5s}"


@pytest.fixture(scope="module")
def node(machine: Machine, cluster: Cluster) -> Machine:
    """The module's machine as a node whose kubelet restarts what crashed after a short while."""
    machine.run(f"echo '{BACK_OFF}' >>/etc/kubernetes/kubelet.yaml")
    join(machine, cluster, NODE)
    return machine


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    return Clone(tmp_path_factory.mktemp("clone"))


@pytest.fixture(scope="module")
def deployed(store: Store, node: Machine, cluster: Cluster, clone: Clone) -> Iterator[Cluster]:
    """The module's cluster with the operator deployed from an image of this tree."""
    build_sked(store, node.registry)
    clone.make(cluster, "deploy", f"IMG=localhost:5000/{TAG}")
    rollout = ("rollout", "status", "deployment/sked-controller-manager", "-n", NAMESPACE, "--timeout=300s")
    if cluster.kubectl(*rollout, timeout=310, check=False).code:
        for look in (("describe", "pods"), ("logs", "deployment/sked-controller-manager", "--tail=50")):
            print(cluster.kubectl(*look, "-n", NAMESPACE, check=False).stdout[-6000:])
        pytest.fail("the manager does not become ready")
    yield cluster
    clone.make(cluster, "undeploy", "ignore-not-found=true")


@pytest.fixture
def operated(deployed: Cluster, node: Machine) -> Iterator[Cluster]:
    """The same, with no resource and no scheduler left afterwards; a failed test shows what the operator said."""
    yield deployed
    print(deployed.kubectl("logs", "deployment/sked-controller-manager", "-n", NAMESPACE, check=False).stdout[-6000:])
    deployed.kubectl("delete", "schedexts", "--all", "-A")
    wait_detached(node)


def fetch_pods(cluster: Cluster, namespace: str) -> list[dict[str, Any]]:
    return read_objects(cluster, "pod", namespace)


def count_restarts(cluster: Cluster, namespace: str) -> int:
    pods = fetch_pods(cluster, namespace)
    return sum(status["restartCount"] for pod in pods for status in pod["status"].get("containerStatuses", []))


def read_manager_process(node: Machine) -> dict[str, str]:
    """What the node's kernel tells of the manager's process."""
    said = node.run("cat /proc/$(pgrep -of '/manager ')/status").stdout
    return {name: " ".join(rest.split()) for name, _, rest in (line.partition(":") for line in said.splitlines())}


def test_manager_runs_from_its_image_without_any_privilege(operated: Cluster, node: Machine) -> None:
    (pod,) = fetch_pods(operated, NAMESPACE)
    assert [status["ready"] for status in pod["status"]["containerStatuses"]] == [True]
    assert count_restarts(operated, NAMESPACE) == 0
    process = read_manager_process(node)
    assert process["Uid"] == "65532 65532 65532 65532"
    assert (process["CapEff"], process["CapBnd"]) == ("0" * 16, "0" * 16)
    assert (process["NoNewPrivs"], process["Seccomp"]) == ("1", "2")
    root = node.run("awk '$5 == \"/\" {print $6}' /proc/$(pgrep -of '/manager ')/mountinfo").stdout
    assert "ro" in root.strip().split(",")


def test_schedext_attaches_is_swapped_and_detaches(operated: Cluster, node: Machine) -> None:
    apply(operated, make_schedext("fifo", sched=FIRST))
    wait_attached(node, "schedkit_fifo")
    ready = wait_object(operated, "schedext", "fifo", has("Ready", "True", "Ready"))
    assert ready["status"]["nodes"]["ready"] == 1
    assert ready["status"]["image"] == FIRST

    apply(operated, make_schedext("fifo", sched=SECOND))
    wait_attached(node, "schedkit_fifo2")
    wait_object(operated, "schedext", "fifo", has("Ready", "True", "Ready"))

    operated.kubectl("delete", "schedext", "fifo")
    wait_detached(node)
    assert fetch(operated, "daemonset", "fifo") is None


def test_scheduler_reads_its_config_map_and_shares_the_statistics_folder(operated: Cluster, node: Machine) -> None:
    apply(
        operated,
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "layers", "namespace": "default"},
            "data": {"layers.json": "[]"},
        },
        make_schedext(
            "files", sched=FIRST, configFrom={"configMap": "layers", "mountPath": "/etc/scx"}, hostStats=True
        ),
    )
    wait_attached(node, "schedkit_fifo")
    node.run("echo seen >/var/run/scx/from-the-host")
    inside = "/proc/$(pgrep -ox scx_fifo)/root"
    assert node.run(f"cat {inside}/etc/scx/layers.json {inside}/var/run/scx/from-the-host").stdout == "[]seen\n"
    options = node.run("awk '$5 == \"/etc/scx\" {print $6}' /proc/$(pgrep -ox scx_fifo)/mountinfo").stdout
    assert "ro" in options.strip().split(",")
    node.run("rm /var/run/scx/from-the-host")


def test_two_schedexts_on_one_node_never_fight_for_it(operated: Cluster, node: Machine) -> None:
    apply(operated, make_schedext("older", sched=FIRST))
    wait_attached(node, "schedkit_fifo")
    wait_object(operated, "schedext", "older", has("Ready", "True", "Ready"))

    apply(operated, make_schedext("younger", sched=SECOND))
    loser = wait_object(operated, "schedext", "younger", has("Ready", "False", "Conflicted"))
    winner = wait_object(operated, "schedext", "older", has("Conflicted", "False", "NoOverlap"))
    assert condition(loser, "Conflicted") == ("True", "Yields")
    assert condition(winner, "Ready") == ("True", "Ready")
    assert read_slot(node).ops == "schedkit_fifo"
    assert len(fetch_pods(operated, "default")) == 1
    assert count_restarts(operated, "default") == 0

    operated.kubectl("delete", "schedext", "older")
    wait_attached(node, "schedkit_fifo2")
    heir = wait_object(operated, "schedext", "younger", has("Ready", "True", "Ready"))
    assert condition(heir, "Conflicted") == ("False", "NoOverlap")
    assert count_restarts(operated, "default") == 0
    assert count_restarts(operated, NAMESPACE) == 0


def test_crash_loop_tells_what_the_scheduler_wrote_last(operated: Cluster) -> None:
    told = r"the scheduler ended with status 1: cannot load schedkit_reject: E\w+ \(.+"

    def tells(resource: dict[str, Any]) -> bool:
        failures = resource.get("status", {}).get("failures", [])
        return any(re.fullmatch(told, failure["message"]) for failure in failures)

    apply(operated, make_schedext("reject", sched="localhost:5000/scx_reject:v1"))
    # A log that comes too late is read at the next restart.
    failing = wait_object(operated, "schedext", "reject", tells)
    (failure,) = failing["status"]["failures"]
    (pod,) = fetch_pods(operated, "default")
    assert (failure["node"], failure["pod"]) == (pod["spec"]["nodeName"], pod["metadata"]["name"])
    assert failure["reason"] == "CrashLooping"
    assert condition(failing, "Degraded") == ("True", "CrashLooping")


def test_image_that_is_not_there_is_told_in_words_that_stay(operated: Cluster) -> None:
    def read_why() -> str:
        (pod,) = fetch_pods(operated, "default")
        (status,) = pod["status"].get("containerStatuses") or [{"state": {}}]
        return str(status["state"].get("waiting", {}).get("reason", ""))

    apply(operated, make_schedext("missing", sched="localhost:5000/scx_missing:v1"))
    failing = wait_object(operated, "schedext", "missing", has("Degraded", "True", "PullFailed"))
    (failure,) = failing["status"]["failures"]
    assert "localhost:5000/scx_missing:v1" in failure["message"]
    assert "not found" in failure["message"]
    before = read_why()
    # The kubelet goes to and fro between failing and waiting to try again.
    wait_for("the kubelet to say the other", lambda: read_why() not in ("", before), ATTACH_SECONDS * 2)
    assert fetch(operated, "schedext", "missing") == failing


def test_metrics_are_for_those_whom_the_cluster_lets_read_them(operated: Cluster, node: Machine) -> None:
    operated.kubectl("create", "serviceaccount", "prometheus")
    operated.kubectl("create", "serviceaccount", "stranger")
    operated.kubectl(
        *("create", "clusterrolebinding", "prometheus", "--clusterrole=sked-metrics-reader"),
        "--serviceaccount=default:prometheus",
    )
    (pod,) = fetch_pods(operated, NAMESPACE)
    url = f"https://{pod['status']['podIP']}:8443/metrics"

    def read(*accounts: str) -> tuple[str, str]:
        tokens = [operated.kubectl("create", "token", account).stdout.strip() for account in accounts]
        said = node.run(f"python3 - {url} {' '.join(tokens)}", input=READ_METRICS).stdout
        status, _, body = said.partition("\n")
        return status, body

    status, body = read("prometheus")
    assert status == "200"
    assert "leader_election_master_status" in body
    assert 'controller_runtime_reconcile_total{controller="schedext",result="success"}' in body
    assert read()[0] == "401"
    assert read("stranger")[0] == "403"


def test_manager_is_small(operated: Cluster, node: Machine) -> None:
    process = read_manager_process(node)
    used, most = (int(process[name].split()[0]) for name in ("VmRSS", "VmHWM"))
    print(f"manager: {used} kB resident, of that {process['RssAnon']} its own, {most} kB at most")
    assert most < MEMORY_LIMIT_KB // 2, "the limit must leave room for larger clusters"


def test_undeploy_gives_the_kernel_back(deployed: Cluster, node: Machine, clone: Clone) -> None:
    apply(deployed, make_schedext("last", sched=FIRST))
    wait_attached(node, "schedkit_fifo")

    clone.make(deployed, "undeploy")
    wait_detached(node)
    wait_for("the pods to go", lambda: not fetch_pods(deployed, "default"), 60)
    assert fetch(deployed, "daemonset", "last") is None
    for kind in ("crds", "clusterroles", "clusterrolebindings", "namespaces"):
        assert "sked" not in deployed.kubectl("get", kind, "-o", "name").stdout
    clone.make(deployed, "undeploy", "ignore-not-found=true")
    assert clone.make(deployed, "undeploy", check=False).code != 0
