"""Two nodes with a real kernel each in one cluster: rollouts that go by the kernels' word, and what tells them apart.

The operator is a process of this host, with the identity of the installed one and no more rights: emulated, it would
take most of the time. test_sked.py has it run from its image on a node.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from lab import images
from lab.cluster import Cluster
from lab.kernels import NEWEST
from lab.machine import Machine
from lab.node import join
from lab.session import NODE
from lab.sked_deploy import MANAGER, NAMESPACE, install_sked
from lab.sked_image import TAG, build_sked
from lab.store import Store
from lab.waiting import NotYetError, wait_for
from tests.e2e.conftest import ATTACH_SECONDS, join_impatient, read_slot, wait_attached, wait_detached
from tests.integration.clusters import read_objects
from tests.integration.sked_controller.operator import (
    Operator,
    apply,
    condition,
    fetch,
    fetch_slots,
    has,
    make_schedext,
    wait_object,
)

FIRST, SECOND = "localhost:5000/scx_fifo:v1", "localhost:5000/scx_fifo:v2"


@pytest.fixture(scope="module")
def installed(cluster: Cluster) -> Cluster:
    """The module's cluster with all that an installation has, but no manager in it."""
    install_sked(cluster)
    cluster.kubectl("-n", NAMESPACE, "scale", "deployment", MANAGER, "--replicas=0")
    return cluster


@pytest.fixture(scope="module")
def node(store: Store, machine: Machine, installed: Cluster) -> Machine:
    """The first node."""
    build_sked(store, machine.registry)
    return join_impatient(machine, installed, NODE)


@pytest.fixture(scope="module")
def newest(store: Store, installed: Cluster, node: Machine, lab_folder: Path) -> Iterator[Machine]:
    """A second node with another kernel."""
    machine = Machine.start(store, lab_folder / "newest", kernel=NEWEST)
    images.copy(store, TAG, source=node.registry, destination=machine.registry)
    yield join_impatient(machine, installed, NEWEST.name)
    machine.stop()


@pytest.fixture(scope="module")
def operator(installed: Cluster, node: Machine) -> Iterator[Operator]:
    kubeconfig = installed.folder / "manager.kubeconfig"
    kubeconfig.write_text(installed.make_kubeconfig(f"system:serviceaccount:{NAMESPACE}:{MANAGER}"))
    operator = Operator(installed, kubeconfig=kubeconfig, namespace=NAMESPACE)
    operator.start("--leader-elect")
    yield operator
    operator.stop()


@pytest.fixture
def operated(installed: Cluster, node: Machine, operator: Operator) -> Iterator[Cluster]:
    """The cluster, with no resource and no scheduler left afterwards; a failed test shows what the operator said."""
    yield installed
    print(installed.kubectl("get", "schedexts,schedextnodes,pods", "-A", "-o", "wide").stdout[-6000:])
    print(installed.kubectl("get", "events", "-A", "--sort-by=.lastTimestamp", "-o", EVENTS).stdout[-12000:])
    print(operator.log()[-6000:])
    installed.kubectl("delete", "schedexts", "--all", "-A")
    wait_detached(node)


EVENTS = (
    "custom-columns=TIME:.lastTimestamp,COUNT:.count,NODE:.source.host,OBJECT:.involvedObject.name,"
    "REASON:.reason,MESSAGE:.message"
)


def fetch_pods(cluster: Cluster) -> list[dict[str, Any]]:
    return read_objects(cluster, "pod", "default", "")


CANARY = {"steps": [{"nodes": 1, "nodeSelector": {"canary": "true"}}, {"pause": {}}]}
QUICK = {"minAttachedSeconds": 2}


def has_phase(phase: str) -> Callable[[dict[str, Any]], bool]:
    """Whether the rollout of the newest spec is in a phase."""

    def check(resource: dict[str, Any]) -> bool:
        status = resource.get("status", {})
        observed = status.get("observedGeneration") == resource["metadata"]["generation"]
        return bool(observed and status.get("rollout", {}).get("phase") == phase)

    return check


def has_failed(resource: dict[str, Any]) -> bool:
    """Whether the revision that the newest spec asks for has failed."""
    status, rollout = resource.get("status", {}), read_rollout(resource)
    observed = status.get("observedGeneration") == resource["metadata"]["generation"]
    return bool(observed and rollout.get("failedRevision", {}).get("revision") == rollout.get("updateRevision"))


def ask(cluster: Cluster, sched: str, args: Sequence[str] = (), *, timeout: int = 600) -> None:
    """Ask for an image by a rollout whose first step is the canary."""
    rollout = CANARY | QUICK | {"attachTimeoutSeconds": timeout}
    apply(cluster, make_schedext("rolled", sched=sched, args=args, rollout=rollout))


def wait_phase(cluster: Cluster, phase: str) -> dict[str, Any]:
    """Until the rollout is in a phase; how it stands."""
    return read_rollout(wait_object(cluster, "schedext", "rolled", has_phase(phase), seconds=ATTACH_SECONDS * 4))


def wait_tried(cluster: Cluster, image: str) -> None:
    """Until a kubelet has started a scheduler's container of an image, or has failed to pull it."""

    def is_tried() -> bool:
        pods = [pod for pod in fetch_pods(cluster) if pod["spec"]["containers"][0]["image"] == image]
        statuses = [status for pod in pods for status in pod["status"].get("containerStatuses", ())]
        runs = any(status["name"] == "scx" and "running" in status["state"] for status in statuses)
        reasons = {status["state"].get("waiting", {}).get("reason") for status in statuses}
        return runs or not reasons.isdisjoint(("ErrImagePull", "ImagePullBackOff"))

    wait_for(f"a kubelet to try {image}", is_tried, ATTACH_SECONDS * 2)


def read_rollout(resource: dict[str, Any] | None) -> dict[str, Any]:
    assert resource
    stands: dict[str, Any] = resource["status"]["pools"][0]["rollout"]
    return stands


def roll_out(cluster: Cluster, sched: str, phase: str) -> dict[str, Any]:
    ask(cluster, sched)
    return wait_phase(cluster, phase)


def find_uids(cluster: Cluster) -> dict[str, str]:
    """The pods that are to stay, by node."""
    pods = (pod for pod in fetch_pods(cluster) if "deletionTimestamp" not in pod["metadata"])
    return {pod["spec"]["nodeName"]: pod["metadata"]["uid"] for pod in pods}


def find_attachments(cluster: Cluster) -> dict[str, tuple[str, int | None]]:
    """The attachment that each node's kernel has or had last: its boot, and its number in that boot."""
    reports = {report["metadata"]["name"]: report["status"] for report in read_objects(cluster, "schedextnode")}
    return {name: (status["kernel"]["bootID"], status["slot"].get("enableSeq")) for name, status in reports.items()}


def kill_at(cluster: Cluster, operator: Operator, phase: str, node: str, revision: str) -> None:
    """Kill the operator when the rollout is in a phase and a node's label names one of its revisions; start it again.

    `revision` is the field of the status that has its name; empty: whatever the label says. What the API server has
    when the operator is gone, and nobody writes any more, proves that it was killed there.
    """

    def look() -> bool:
        resource = fetch(cluster, "schedext", "rolled")
        if resource is None or not has_phase(phase)(resource):
            raise NotYetError(str(resource and resource.get("status", {}).get("rollout")))
        slot = fetch_slots(cluster).get(node, "")
        if revision and slot != f"default.{read_rollout(resource).get(revision)}":
            raise NotYetError(f"{phase}, and {node} has {slot}")
        return True

    wait_for(f"{phase} with {revision or 'any revision'} on {node}", look, ATTACH_SECONDS * 4)
    operator.kill()
    print(f"killed: {phase}, {node} has {fetch_slots(cluster).get(node)}\n{operator.log()[-1500:]}")
    look()
    operator.start()  # without a lease, for which it would have to wait 15 seconds each time


class Trouble(NamedTuple):
    """How a rollout that fails is made to, and when the operator is killed meanwhile: phases, and fields as above."""

    on_its_way: Sequence[tuple[str, str]] = ()
    back: Sequence[tuple[str, str]] = ()
    timeout: int = 0  # if it fails by time
    args: Sequence[str] = ()


def roll_out_and_back(cluster: Cluster, operator: Operator, image: str, trouble: Trouble) -> dict[str, Any]:
    """Until the canary has the stable revision again; how the rollout stands then."""
    ask(cluster, image, trouble.args)
    for phase, revision in trouble.on_its_way:
        kill_at(cluster, operator, phase, NEWEST.name, revision)
    if trouble.timeout:  # short only when its kubelet has come to it, however busy that is
        wait_tried(cluster, image)
        ask(cluster, image, trouble.args, timeout=trouble.timeout)
        wait_object(cluster, "schedext", "rolled", has_failed, seconds=ATTACH_SECONDS * 4)
        ask(cluster, image, trouble.args)  # on the way back it may be busy again
    for phase, revision in trouble.back:
        kill_at(cluster, operator, phase, NEWEST.name, revision)
    return wait_phase(cluster, "RolledBack")


def kill_at_rest(cluster: Cluster, operator: Operator, phase: str, request: str) -> None:
    """Kill the operator when a rollout waits or has ended, and start it again: its successor changes nothing.

    `request` is one for which there is nothing to do in this phase.
    """

    def read() -> tuple[object, ...]:
        rollout = read_rollout(fetch(cluster, "schedext", "rolled"))
        stands = [rollout.get(field) for field in ("phase", "step", "currentRevision", "updateRevision")]
        daemonsets = [found["metadata"] for found in read_objects(cluster, "daemonset", "default")]
        generations = {metadata["name"]: metadata["generation"] for metadata in daemonsets}
        return stands, fetch_slots(cluster), generations, find_uids(cluster), find_attachments(cluster)

    wait_looked(cluster, request)
    before = read()
    operator.kill()
    operator.start()
    wait_looked(cluster, request)
    assert read() == before
    wait_phase(cluster, phase)


def wait_looked(cluster: Cluster, request: str) -> None:
    """Until an operator has looked at the rollout, and again at what it did then.

    It notes down each request as handled, when all DaemonSets are as they should be.
    """
    for _ in range(2):
        value = str(time.time_ns())
        cluster.kubectl("annotate", "--overwrite", "schedext", "rolled", f"sked.schedkit.io/{request}={value}")

        def is_handled(resource: dict[str, Any], value: str = value) -> bool:
            return bool(read_rollout(resource).get("handled", {}).get(request) == value)

        wait_object(cluster, "schedext", "rolled", is_handled)


def test_rollout_goes_by_the_kernels_word_and_comes_back_by_it(
    operated: Cluster, operator: Operator, node: Machine, request: pytest.FixtureRequest
) -> None:
    operated.kubectl("label", "node", NODE, "canary=true")
    apply(operated, make_schedext("rolled", sched=FIRST))
    wait_object(operated, "schedext", "rolled", has("Ready", "True", "Ready"))
    before = find_uids(operated)
    roll_out(operated, FIRST, "Complete")
    assert find_uids(operated) == before, "opting in restarts nothing"

    ask(operated, SECOND)
    kill_at(operated, operator, "Progressing", NODE, "currentRevision")  # the canary has yet to get it
    wait_phase(operated, "Paused")
    assert read_slot(node).ops == "schedkit_fifo2"
    kill_at_rest(operated, operator, "Paused", "retry")
    newest: Machine = request.getfixturevalue("newest")
    wait_attached(newest, "schedkit_fifo")
    assert read_slot(newest).ops == "schedkit_fifo", "a node that joins gets the stable one"
    before, attached = find_uids(operated), find_attachments(operated)[NODE]

    # The operator is killed while it goes on: its successor, which has to wait for the lease, knows how far it was.
    operated.kubectl("annotate", "schedext", "rolled", "sked.schedkit.io/promote=once")
    operator.kill()
    operator.start("--leader-elect")
    kill_at(operated, operator, "Progressing", NEWEST.name, "updateRevision")  # the old one leaves, the new one comes
    rollout = wait_phase(operated, "Complete")
    assert (read_slot(newest).ops, read_slot(node).ops) == ("schedkit_fifo2", "schedkit_fifo2")
    assert rollout["nodes"]["attached"] == 2
    assert rollout["gap"]["medianMilliseconds"] > 0
    assert find_uids(operated)[NODE] == before[NODE], "the canary is done"
    assert find_attachments(operated)[NODE] == attached, "its kernel has had it all the time: one node was without"
    stable, before = rollout["currentRevision"], find_uids(operated)
    kill_at_rest(operated, operator, "Complete", "retry")

    operated.kubectl("label", "node", NODE, "canary-")
    operated.kubectl("label", "node", NEWEST.name, "canary=true")
    on_its_way = [
        ("Progressing", "currentRevision"),  # it has yet to come
        ("Progressing", "updateRevision"),  # it is there
    ]
    back = [("RollingBack", "currentRevision")]  # it has left, and the stable one comes
    for name, reasons, words, trouble in (
        ("scx_stall", ["Ejected"], "left the kernel", Trouble(back=[("RollingBack", "")], args=["1"])),
        # Unfit where it is seen in time that this kernel has malformed BTF, which may be why.
        ("scx_reject", ["CrashLooping", "Unfit"], "ended with status 1", Trouble()),
        ("scx_idle", ["NotAttachedInTime"], "the kernel has attached nothing", Trouble(on_its_way, back, timeout=45)),
        ("absent", ["PullFailed"], "not found", Trouble(timeout=5)),
    ):
        untouched = find_uids(operated) if name == "absent" else {NODE: before[NODE]}
        rollout = roll_out_and_back(operated, operator, f"localhost:5000/{name}:v1", trouble)
        failed = rollout["failedRevision"]
        print(f"{name}: {failed}")
        assert failed["node"] == NEWEST.name
        assert failed["reason"] in reasons
        assert words in failed["message"]
        assert rollout["currentRevision"] == stable
        assert (read_slot(newest).ops, read_slot(node).ops) == ("schedkit_fifo2", "schedkit_fifo2")
        assert untouched.items() <= find_uids(operated).items(), "the other node is never touched"
        assert find_attachments(operated)[NODE] == attached, "and its kernel has had it all the time"
    kill_at_rest(operated, operator, "RolledBack", "promote")
    stalled = fetch(operated, "schedext", "rolled")
    assert stalled
    assert condition(stalled, "Stalled") == ("True", "RolledBack")


def test_two_kernels_of_one_cluster_are_told_apart_and_a_reboot_is_another_boot(
    operated: Cluster, node: Machine, newest: Machine
) -> None:
    def is_told(resource: dict[str, Any]) -> bool:
        counts = resource.get("status", {}).get("nodes", {})
        return bool(counts.get("attached") == 1 and counts.get("unfit") == 1)

    def read_boot() -> str:
        report = fetch(operated, "schedextnode", NEWEST.name)
        return str(report["status"]["kernel"]["bootID"]) if report else ""

    def has_two(resource: dict[str, Any]) -> bool:
        return bool(resource.get("status", {}).get("nodes", {}).get("attached") == 2)

    apply(operated, make_schedext("real", sched="localhost:5000/scx_rusty:latest"))
    told = wait_object(operated, "schedext", "real", is_told, seconds=ATTACH_SECONDS * 5)
    (failure,) = told["status"]["failures"]
    assert (failure["node"], failure["reason"]) == (NEWEST.name, "Unfit")
    assert "kernel.btf_kfuncs" in failure["message"]
    print(operated.kubectl("get", "scx,scxn", "-o", "wide").stdout)
    operated.kubectl("delete", "schedext", "real")
    wait_detached(node)

    apply(operated, make_schedext("fifo", sched=FIRST))
    wait_object(operated, "schedext", "fifo", has_two)
    before = read_boot()
    newest.reboot()
    join(newest, operated, NEWEST.name)
    wait_for("the report of the new boot", lambda: read_boot() not in ("", before), ATTACH_SECONDS * 3)
    wait_object(operated, "schedext", "fifo", lambda found: has_two(found) and has("Ready", "True", "Ready")(found))
    wait_attached(newest, "schedkit_fifo")


def test_node_whose_kernel_keeps_ejecting_is_left_alone_until_it_is_lifted(
    operated: Cluster, node: Machine, newest: Machine
) -> None:
    def is_quarantined(report: dict[str, Any]) -> bool:
        return "quarantine" in report["status"]

    only = {"kubernetes.io/hostname": NEWEST.name}
    asked = {"afterEjections": 2, "within": "10m"}
    apply(
        operated,
        make_schedext("stall", sched="localhost:5000/scx_stall:v1", args=["1"], nodeSelector=only, quarantine=asked),
    )
    report = wait_object(operated, "schedextnode", NEWEST.name, is_quarantined, seconds=ATTACH_SECONDS * 4)
    assert report["status"]["quarantine"]["schedExt"] == "default/stall"
    wait_for("the pod to go", lambda: not fetch_pods(operated), ATTACH_SECONDS)
    assert read_slot(newest).state == "disabled"
    told = wait_object(operated, "schedext", "stall", has("Degraded", "True", "Quarantined"))
    assert told["status"]["nodes"]["quarantined"] == 1
    operated.kubectl("annotate", "node", NEWEST.name, "sked.schedkit.io/quarantine-")
    wait_for("the pod to come back", lambda: fetch_pods(operated), ATTACH_SECONDS)
