"""The operator from its image, in a cluster whose node is a machine: what a SchedExt asks for ends in a real kernel."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab import images
from lab.cluster import Cluster
from lab.machine import Machine
from lab.session import NODE
from lab.signing import Cosign, keyed
from lab.sked_deploy import await_manager, enforce_signatures
from lab.sked_image import TAG, build_sked
from lab.store import Store
from lab.waiting import wait_for
from tests.e2e.conftest import ATTACH_SECONDS, join_impatient, read_slot, start_fixture, wait_attached, wait_detached
from tests.integration.clusters import read_objects
from tests.integration.sked_controller.operator import apply, condition, fetch, has, make_schedext, wait_object
from tests.integration.sked_deploy.tools import NAMESPACE, Clone

FIRST, SECOND = "localhost:5000/scx_fifo:v1", "localhost:5000/scx_fifo:v2"
MEMORY_LIMIT_KB = 128 * 1024
AGENT_LIMIT_KB = 22 * 1024
# How the processes are called on the node; the brackets keep a pattern from finding the one who looks for it.
MANAGER, AGENT = "[/]manager ", "[s]chedkit.sked.agent"
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


@pytest.fixture(scope="module")
def node(machine: Machine, cluster: Cluster) -> Machine:
    """The module's machine as a node whose kubelet restarts what crashed after a short while."""
    return join_impatient(machine, cluster, NODE)


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    return Clone(tmp_path_factory.mktemp("clone"))


@pytest.fixture(scope="module")
def deployed(store: Store, node: Machine, cluster: Cluster, clone: Clone) -> Iterator[Cluster]:
    """The module's cluster with the operator deployed from an image of this tree."""
    build_sked(store, node.registry)
    clone.make(cluster, "deploy", f"IMG=localhost:5000/{TAG}")
    rollout = ("rollout", "status", "deployment/sked-controller-manager", "-n", NAMESPACE, "--timeout=600s")
    agents = ("rollout", "status", "daemonset/sked-agent", "-n", NAMESPACE, "--timeout=600s")
    if any(cluster.kubectl(*words, timeout=610, check=False).code for words in (rollout, agents)):
        logs = [
            ("logs", program, "--tail=50") for program in ("deployment/sked-controller-manager", "daemonset/sked-agent")
        ]
        for look in (("describe", "pods"), *logs):
            print(cluster.kubectl(*look, "-n", NAMESPACE, check=False).stdout[-6000:])
        pytest.fail("the manager or the agent does not become ready")
    yield cluster
    clone.make(cluster, "undeploy", "ignore-not-found=true")


@pytest.fixture
def operated(deployed: Cluster, node: Machine) -> Iterator[Cluster]:
    """The same, with no resource and no scheduler left afterwards; a failed test shows what the operator said."""
    yield deployed
    told = ("logs", "deployment/sked-controller-manager", "-n", NAMESPACE)
    for words in (("get", "schedexts,schedextnodes,pods,events", "-A", "-o", "wide"), told):
        print(deployed.kubectl(*words, check=False).stdout[-6000:])
    deployed.kubectl("delete", "schedexts", "--all", "-A")
    wait_detached(node)


def fetch_pods(cluster: Cluster, namespace: str, labels: str = "") -> list[dict[str, Any]]:
    return read_objects(cluster, "pod", namespace, labels)


def fetch_manager(cluster: Cluster) -> dict[str, Any]:
    pods = fetch_pods(cluster, NAMESPACE, "control-plane=controller-manager")
    (pod,) = (pod for pod in pods if "deletionTimestamp" not in pod["metadata"])  # one of a spec before may be going
    return pod


def count_restarts(cluster: Cluster, namespace: str, labels: str = "") -> int:
    pods = fetch_pods(cluster, namespace, labels)
    return sum(status["restartCount"] for pod in pods for status in pod["status"].get("containerStatuses", []))


def read_process(node: Machine, pattern: str) -> dict[str, str]:
    """What the node's kernel tells of the first process with such a command line."""
    said = node.run(f"cat /proc/$(pgrep -of '{pattern}')/status").stdout
    return {name: " ".join(rest.split()) for name, _, rest in (line.partition(":") for line in said.splitlines())}


def test_manager_and_agent_run_from_one_image_without_any_privilege(operated: Cluster, node: Machine) -> None:
    pods = fetch_pods(operated, NAMESPACE)
    assert [status["ready"] for pod in pods for status in pod["status"]["containerStatuses"]] == [True, True]
    assert count_restarts(operated, NAMESPACE) == 0
    for pattern in (MANAGER, AGENT):
        process = read_process(node, pattern)
        assert process["Uid"] == "65532 65532 65532 65532"
        assert (process["CapEff"], process["CapBnd"]) == ("0" * 16, "0" * 16)
        assert (process["NoNewPrivs"], process["Seccomp"]) == ("1", "2")
        root = node.run(f"awk '$5 == \"/\" {{print $6}}' /proc/$(pgrep -of '{pattern}')/mountinfo").stdout
        assert "ro" in root.strip().split(",")


def test_agent_tells_what_the_kernel_does_and_forgets_nothing(operated: Cluster, node: Machine) -> None:
    def fetch_status() -> dict[str, Any]:
        report = fetch(operated, "schedextnode", NODE)
        assert report
        status: dict[str, Any] = report["status"]
        return status

    def has_state(state: str) -> bool:
        return bool(fetch_status()["slot"]["state"] == state)

    before = fetch_status()
    assert before["kernel"]["release"] == node.run("uname -r").stdout.strip()
    assert before["kernel"]["bootID"] == node.run("cat /proc/sys/kernel/random/boot_id").stdout.strip()
    assert (before["kernel"]["supported"], before["slot"]["state"]) == ("True", "disabled")
    process = read_process(node, AGENT)
    print(f"agent: {process['VmRSS']} resident, of that {process['RssAnon']} its own")
    assert int(process["VmRSS"].split()[0]) <= AGENT_LIMIT_KB

    pid = start_fixture(node, "scx_fifo-v1")
    wait_attached(node, "schedkit_fifo")
    # Long before the agent would look by itself. How fast it is, is measured in bench/agent.py: a busy host is slow.
    wait_for("the report", lambda: has_state("enabled"), ATTACH_SECONDS, interval=0.05)
    attached = fetch_status()
    assert attached["slot"]["ops"] == "schedkit_fifo"
    assert attached["attachments"] == before["attachments"] + 1
    assert condition({"status": attached}, "Attached") == ("True", "SchedulerAttached")

    restarts = count_restarts(operated, NAMESPACE)
    node.run(f"kill -KILL $(pgrep -of '{AGENT}')")
    wait_for("the kubelet to restart it", lambda: count_restarts(operated, NAMESPACE) > restarts, 60)
    ready = ("--for=condition=Ready", f"--timeout={ATTACH_SECONDS:.0f}s")
    operated.kubectl("wait", "pods", "-l", "control-plane=agent", "-n", NAMESPACE, *ready, timeout=ATTACH_SECONDS + 10)
    assert fetch_status() == attached, "since, above all"

    node.run(f"kill {pid}")
    wait_for("the report", lambda: has_state("disabled"), ATTACH_SECONDS)
    left = fetch_status()
    assert (left["lastDetach"]["ops"], left["lastDetach"]["enableSeq"]) == (
        "schedkit_fifo",
        attached["slot"]["enableSeq"],
    )
    assert left["lastDetach"]["time"] >= attached["slot"]["since"]
    assert left["departures"] == left["attachments"] == attached["attachments"]


def test_schedext_attaches_is_swapped_and_detaches(operated: Cluster, node: Machine) -> None:
    apply(operated, make_schedext("fifo", sched=FIRST))
    wait_attached(node, "schedkit_fifo")
    ready = wait_object(operated, "schedext", "fifo", has("Ready", "True", "Ready"))
    assert (ready["status"]["nodes"]["ready"], ready["status"]["nodes"]["attached"]) == (1, 1)
    assert ready["status"]["image"] == FIRST
    assert condition(ready, "Attached") == ("True", "Attached")
    wait_object(operated, "schedextnode", NODE, lambda found: found["status"].get("schedExt") == "default/fifo")

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
    assert count_restarts(operated, NAMESPACE, "control-plane=controller-manager") == 0


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


def test_ejection_is_told_with_the_kernels_reason_all_through_the_crash_loop(operated: Cluster, node: Machine) -> None:
    thrown_out = r"the kernel ejected it, runnable task stall \(kind 1026\): .+"
    told = f"it was attached and left the kernel; the scheduler ended with status 2: {thrown_out}"

    def tells(resource: dict[str, Any]) -> bool:
        failures = resource.get("status", {}).get("failures", [])
        return any(re.fullmatch(told, failure["message"]) for failure in failures)

    def read_degraded(resource: dict[str, Any]) -> tuple[str, str, str]:
        (found,) = (one for one in resource["status"]["conditions"] if one["type"] == "Degraded")
        return found["status"], found["reason"], found["lastTransitionTime"]

    apply(operated, make_schedext("stall", sched="localhost:5000/scx_stall:v1", args=["1"]))
    failing = wait_object(operated, "schedext", "stall", tells)
    assert read_degraded(failing)[:2] == ("True", "Ejected")
    assert failing["status"]["nodes"]["ejected"] == 1
    wait_attached(node, "schedkit_stall")
    wait_object(operated, "schedextnode", NODE, lambda found: found["status"]["slot"]["state"] == "enabled")
    again = wait_object(operated, "schedext", "stall", tells)
    assert read_degraded(again) == read_degraded(failing), "attached for a moment is not well"
    assert again["status"]["nodes"]["attached"] == 0

    def has_events() -> bool:
        """Of one whose log comes too late, the Event of the next ejection says why."""
        events = [event for event in read_objects(operated, "event", "default") if event["reason"] == "Ejected"]
        kinds = {event["regarding"]["kind"] for event in events}
        told = (event["note"] for event in events if event["regarding"]["kind"] == "Node")
        return kinds == {"SchedExt", "Node"} and any("kind 1026" in note for note in told)

    wait_for("Events of both, with the kernel's word", has_events, ATTACH_SECONDS * 2)


def test_ready_pod_is_not_an_attached_scheduler_and_a_foreign_one_is_told_by_name(
    operated: Cluster, node: Machine
) -> None:
    apply(operated, make_schedext("idle", sched="localhost:5000/scx_idle:v1"))
    detached = wait_object(operated, "schedext", "idle", has("Ready", "False", "Detached"))
    assert (detached["status"]["nodes"]["ready"], detached["status"]["nodes"]["detached"]) == (1, 1)
    assert condition(detached, "Attached") == ("False", "Detached")

    pid = start_fixture(node, "scx_fifo-v1")
    wait_attached(node, "schedkit_fifo")
    foreign = wait_object(operated, "schedext", "idle", has("Degraded", "True", "ForeignScheduler"))
    (failure,) = foreign["status"]["failures"]
    assert failure["message"].startswith("schedkit_fifo is attached, since 20")
    node.run(f"kill {pid}")
    wait_object(operated, "schedext", "idle", has("Degraded", "True", "Detached"))


def test_without_its_agent_a_node_is_unknown_and_never_attached(operated: Cluster, node: Machine) -> None:
    agents = ("daemonset", "sked-agent", "-n", NAMESPACE)
    apply(operated, make_schedext("fifo", sched=FIRST))
    wait_object(operated, "schedext", "fifo", has("Attached", "True", "Attached"))
    operated.kubectl("patch", *agents, "-p", '{"spec": {"template": {"spec": {"nodeSelector": {"no": "node"}}}}}')
    unknown = wait_object(operated, "schedext", "fifo", has("Attached", "Unknown", "NoAgents"))
    assert (unknown["status"]["nodes"]["attached"], unknown["status"]["nodes"]["unknown"]) == (0, 1)
    assert condition(unknown, "Ready") == ("True", "Ready")
    operated.kubectl(
        "patch", *agents, "--type=json", "-p", '[{"op": "remove", "path": "/spec/template/spec/nodeSelector"}]'
    )
    wait_object(operated, "schedext", "fifo", has("Attached", "True", "Attached"))
    assert read_slot(node).ops == "schedkit_fifo"


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


def test_only_what_is_signed_reaches_the_kernel_under_enforce(
    operated: Cluster, node: Machine, store: Store, tmp_path: Path
) -> None:
    cosign = Cosign(store, "v3", tmp_path)
    private, public = cosign.make_key("release")
    digest = images.fetch_digest(node.registry, "scx_fifo", "v1")
    cosign.sign(f"{node.registry}/scx_fifo@{digest}", *keyed(private))
    apply(operated, make_schedext("fifo", sched=FIRST))
    wait_attached(node, "schedkit_fifo")
    wait_object(operated, "schedext", "fifo", has("Ready", "True", "Ready"))
    (before,) = fetch_pods(operated, "default")

    policy = json.dumps({"keys": [{"path": "release.pub"}]})
    enforce_signatures(operated, {"policy.yaml": policy, "release.pub": public.read_text()}, NODE)
    await_manager(operated)
    try:
        wait_object(operated, "schedext", "fifo", has("Verified", "True", "Verified"))
        made = wait_object(operated, "daemonset", "fifo", lambda found: digest in json.dumps(found["spec"]))
        (container,) = made["spec"]["template"]["spec"]["containers"]
        assert container["image"] == f"localhost:5000/scx_fifo@{digest}"
        # It ran that digest already, so its pod was left alone.
        wait_object(operated, "schedext", "fifo", has("Ready", "True", "Ready"))
        (after,) = fetch_pods(operated, "default")
        assert after["metadata"]["uid"] == before["metadata"]["uid"]

        operated.kubectl("delete", "pod", after["metadata"]["name"])  # and a new one is made of the digest
        pinned = [f"localhost:5000/scx_fifo@{digest}"]

        def list_images() -> list[str]:
            return [pod["spec"]["containers"][0]["image"] for pod in fetch_pods(operated, "default")]

        wait_for("a pod of the digest alone", lambda: list_images() == pinned, ATTACH_SECONDS * 2)
        wait_attached(node, "schedkit_fifo")

        apply(operated, make_schedext("fifo", sched=SECOND))
        refused = wait_object(operated, "schedext", "fifo", has("Verified", "False", "Unsigned"))
        assert condition(refused, "Ready") == ("False", "Unsigned")
        assert read_slot(node).ops == "schedkit_fifo"
        process = read_process(node, "/manager ")
        assert int(process["VmHWM"].split()[0]) < MEMORY_LIMIT_KB // 2
    finally:
        operated.kubectl("rollout", "undo", "deployment/sked-controller-manager", "-n", NAMESPACE)
        rollout = ("rollout", "status", "deployment/sked-controller-manager", "-n", NAMESPACE, "--timeout=600s")
        operated.kubectl(*rollout, timeout=610)


def test_metrics_are_for_those_whom_the_cluster_lets_read_them(operated: Cluster, node: Machine) -> None:
    operated.kubectl("create", "serviceaccount", "prometheus")
    operated.kubectl("create", "serviceaccount", "stranger")
    operated.kubectl(
        *("create", "clusterrolebinding", "prometheus", "--clusterrole=sked-metrics-reader"),
        "--serviceaccount=default:prometheus",
    )
    pod = fetch_manager(operated)
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
    process = read_process(node, MANAGER)
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
