"""Pods that wait for the slot, in trouble: labels by hand, reboots, ejections, quotas, other operators."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from schedkit.sked.controller.attachment import judge
from schedkit.sked.controller.failures import is_waiting
from schedkit.sked.controller.objects import WAIT, Pod
from tests.unit.sked_controller import reporting
from tests.unit.sked_controller.cluster import Cluster
from tests.unit.sked_controller.test_kernels import stamp
from tests.unit.sked_controller.test_namespaces import make_cluster as make_theirs
from tests.unit.sked_controller.test_rollout_waiting import Waiting, make_waiting, patient, runs
from tests.unit.sked_controller.test_rollouts import BAD, NODES, V1, V2, find_revision
from tests.unit.sked_controller.world import refusal

__all__ = ["patient"]
SLOW = {"minAttachedSeconds": 10**6}  # so that others wait while the first has yet to show that it stays


def begin(cluster: Waiting | None = None) -> Waiting:
    """A cluster in which n1 has the next revision, and its pods wait on n2 and n3."""
    cluster = cluster or make_waiting()
    cluster.ask(V2, **SLOW)
    cluster.work()
    assert (cluster.images["n1"], sorted(cluster.coming())) == (V2, ["n2", "n3"])
    return cluster


def find_pods(cluster: Waiting, node: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What runs on a node, and what waits there."""
    pods = cluster._pods_on(node)
    (running,) = (pod for pod in pods if runs(pod))
    (waiting,) = (pod for pod in pods if not runs(pod))
    return running, waiting


def end(cluster: Waiting, pod: dict[str, Any]) -> None:
    """What a kubelet says of a scheduler that ended, as another one was attached."""
    ended = {"exitCode": 1, "reason": "Error", "startedAt": stamp(cluster.now), "finishedAt": stamp(cluster.now)}
    found = {"name": "scx", "restartCount": 1, "lastState": {"terminated": ended}}
    found["state"] = {"waiting": {"reason": "CrashLoopBackOff"}}
    cluster.logs[pod["metadata"]["name"]] = ""
    cluster.change("pods", pod["metadata"]["name"], status={"phase": "Running", "containerStatuses": [found]})


def test_node_whose_label_is_taken_away_has_what_runs_and_not_what_waits() -> None:
    cluster = begin()

    def find_running() -> dict[str, list[str]]:
        return {node: [pod["metadata"]["uid"] for pod in cluster._pods_on(node) if runs(pod)] for node in ("n2", "n3")}

    before = find_running()
    for node in before:
        cluster.label(node, slot=None)
    cluster.work()
    assert find_running() == before
    assert cluster.most_idle == 1


def test_reboot_while_a_pod_waits_is_no_failure_of_its_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = begin()
    old, new = find_pods(cluster, "n2")
    # Both begin, as the kernel has nothing; the old one is first.
    begun = {"phase": "Running"} | cluster._start(V2)
    cluster.change("pods", new["metadata"]["name"], status=begun)
    cluster.run()
    end(cluster, new)
    cluster.work()
    assert (cluster.rollout["phase"], cluster.rollout.get("failedRevision")) == ("Progressing", None)
    assert find_pods(cluster, "n2")[0]["metadata"]["uid"] == old["metadata"]["uid"]
    monkeypatch.setattr("schedkit.sked.controller.steering.WAITER_SECONDS", timedelta(seconds=0))
    cluster.ask(V2)
    cluster.run_until("Complete")
    assert cluster.images == dict.fromkeys(NODES, V2)
    assert (cluster.most_idle, cluster.coming()) == (1, {})


def eject(cluster: Waiting, node: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Have a node's kernel eject what runs there; what waits sees the slot free, and is about to begin."""
    old, new = find_pods(cluster, node)
    init = {"name": WAIT, "started": True, "state": {"running": {"startedAt": stamp(cluster.now)}}}
    cluster.change("pods", new["metadata"]["name"], status={"phase": "Pending", "initContainerStatuses": [init]})
    end(cluster, old)
    report, seq = cluster.find_report(node), 9
    left = {"ops": "scx_rusty", "time": stamp(cluster.now), "enableSeq": seq}
    slot = {"told": report["slot"]["told"], "state": "disabled", "enableSeq": seq}
    cluster.put("schedextnodes", {"metadata": {"name": node}, "status": report | {"slot": slot, "lastDetach": left}})
    return old, new


@pytest.mark.parametrize("seen_last", [0, 1])
def test_quarantine_is_about_what_was_ejected_and_not_about_what_begins_in_its_place(seen_last: int) -> None:
    cluster = make_waiting()
    cluster.apply_resource("one", sched=V2, rollout=SLOW, quarantine={"afterEjections": 1})
    cluster.work()
    name = eject(cluster, "n2")[seen_last]["metadata"]["name"]
    pod = cluster.get("pods", name)
    cluster.remove("pods", name)
    cluster.put("pods", pod)
    cluster.run()
    note = cluster.get("nodes", "n2")["metadata"]["annotations"]["sked.schedkit.io/quarantine"]
    assert f'"revision":"{find_revision(cluster, V1)}"' in note
    cluster.work()
    assert cluster.rollout["phase"] == "Progressing", "what waited has not failed"
    assert "n2" not in cluster.coming()


def take_over(cluster: Waiting, node: str, *, told_first: bool) -> None:
    """Have a node's kernel eject what runs there, and attach what waited before anybody looks.

    `told_first`: the agent tells it before the kubelet tells that what was ejected has ended.
    """
    old, new = find_pods(cluster, node)
    report = cluster.find_report(node)
    seq = report["slot"]["enableSeq"]
    slot = report["slot"] | {"told": V2, "enableSeq": seq + 1, "since": stamp(cluster.now)}
    left = {"ops": "scx_rusty", "time": stamp(cluster.now), "enableSeq": seq}
    cluster.change("pods", new["metadata"]["name"], status={"phase": "Running"} | cluster._start(V2))
    cluster.put("schedextnodes", {"metadata": {"name": node}, "status": report | {"slot": slot, "lastDetach": left}})
    if told_first:
        cluster.run()
    end(cluster, old)  # it has been started again meanwhile, and met the next one
    cluster.run()


@pytest.mark.parametrize("told_first", [True, False])
def test_ejection_counts_though_what_waited_is_attached_before_anybody_looks(told_first: bool) -> None:
    cluster = make_waiting()
    cluster.apply_resource("one", sched=V2, rollout=SLOW, quarantine={"afterEjections": 2})
    cluster.work()
    take_over(cluster, "n2", told_first=told_first)
    assert cluster.metric("sked_ejections_total") == ['sked_ejections_total{namespace="default",name="one"} 1']
    cluster.work()
    assert cluster.node_events.count(("n2", "Warning", "Ejected")) == 1
    assert cluster.metric("sked_ejections_total") == ['sked_ejections_total{namespace="default",name="one"} 1']
    assert (cluster.images["n2"], cluster.rollout.get("failedRevision")) == (V2, None)


def test_such_an_ejection_puts_the_node_in_quarantine_for_what_was_ejected() -> None:
    cluster = make_waiting()
    cluster.apply_resource("one", sched=V2, rollout=SLOW, quarantine={"afterEjections": 1})
    cluster.work()
    take_over(cluster, "n2", told_first=False)
    note = cluster.get("nodes", "n2")["metadata"]["annotations"]["sked.schedkit.io/quarantine"]
    assert f'"revision":"{find_revision(cluster, V1)}"' in note


def test_scheduler_that_makes_room_for_what_waits_is_not_ejected() -> None:
    cluster = make_waiting()
    cluster.ask(V2)
    cluster.run_until("Complete")
    assert cluster.metric("sked_ejections_total") == ['sked_ejections_total{namespace="default",name="one"} 0']


def test_ejection_is_told_beside_the_failure_of_what_waits() -> None:
    cluster = make_waiting()
    cluster.waiter_fault = "unauthorized"
    cluster.ask(V2, **SLOW)
    cluster.work()
    node = min(cluster.coming())
    old, new = find_pods(cluster, node)
    waits = dict(new["status"])
    eject(cluster, node)
    cluster.change("pods", new["metadata"]["name"], status=waits)
    cluster.refusals["label"] = refusal(403, "Forbidden")  # else it is moved at once
    cluster.run()
    failures = cluster.get("schedexts", "one")["status"]["failures"]
    told = {found["pod"]: found["reason"] for found in failures if found["node"] == node}
    assert told == {old["metadata"]["name"]: "Ejected", new["metadata"]["name"]: "PullFailed"}


def find_waiter(cluster: Waiting, image: str) -> dict[str, Any]:
    pod = cluster.get("daemonsets", find_revision(cluster, image))["spec"]["template"]["spec"]
    (waiter,) = pod["initContainers"]
    return dict(waiter)


def test_image_that_somebody_else_wrote_is_not_waited_with() -> None:
    cluster = make_waiting()
    before = find_waiter(cluster, V1)
    found = cluster.get("daemonsets", find_revision(cluster, V1))
    pod = found["spec"]["template"]["spec"]
    theirs = before | {"image": "example.com/evil:1", "command": ["/evil"]}
    spec = found["spec"] | {"template": found["spec"]["template"] | {"spec": pod | {"initContainers": [theirs]}}}
    cluster.change("daemonsets", found["metadata"]["name"], spec=spec)
    cluster.work()
    assert find_waiter(cluster, V1) == before


def test_what_waits_asks_for_what_its_scheduler_does_as_a_quota_wants_it_of_every_container() -> None:
    cluster = make_waiting()
    asked = {"limits": {"cpu": "1000m", "memory": "16Mi", "example.com/gpu": 1}, "requests": {"cpu": "100m"}}
    cluster.apply_resource("one", sched=V2, rollout=SLOW, resources=asked)
    cluster.work()
    resources = find_waiter(cluster, V2)["resources"]
    assert resources == {"limits": {"cpu": "50m", "memory": "32Mi"}, "requests": {"cpu": "50m"}}
    found = cluster.get("daemonsets", find_revision(cluster, V2))
    # As an API server writes it.
    resources["limits"]["memory"] = "33554432"
    cluster.change("daemonsets", found["metadata"]["name"], spec=found["spec"])
    assert not [write for write in cluster.work() if write.startswith("apply daemonsets")]


NEXT = "sked.schedkit.io/next"


def test_label_that_a_person_wrote_lets_nobody_wait() -> None:
    cluster = make_waiting()
    cluster.ask(V2)
    cluster.run_until("Complete")
    before = cluster.pod_uids()
    cluster.label("n1", **{NEXT: f"default.{find_revision(cluster, V1)}"})
    cluster.work()
    assert (cluster.coming(), cluster.pod_uids()) == ({}, before)
    assert NEXT not in cluster.get("nodes", "n1")["metadata"]["annotations"]
    assert not cluster.work()


def test_label_of_who_waits_goes_where_it_is_all_that_is_left() -> None:
    cluster = Waiting()
    cluster.add_node("n1", {NEXT: "default.gone"})
    cluster.run()
    assert cluster.coming() == {}
    assert not cluster.work()


def test_label_of_who_waits_is_left_to_who_carries_out_what_has_the_node() -> None:
    """Two operators that each took away what the other wrote would not end."""
    cluster = make_theirs("theirs", "mine")
    label_theirs(cluster)
    assert not [write for write in cluster.work() if write.startswith("label")]


def test_label_of_who_waits_goes_with_the_node() -> None:
    cluster = make_theirs("mine", "theirs")
    label_theirs(cluster)
    cluster.work()
    metadata = cluster.get("nodes", "n1")["metadata"]
    assert (cluster.slots(), NEXT in metadata["labels"]) == ({"n1": "default.mine"}, False)


def label_theirs(cluster: Cluster) -> None:
    """What another operator does to a node on which its next revision is to wait."""
    said = {"sked.schedkit.io/slot": "other.theirs", NEXT: "other.theirs-2"}
    metadata = cluster.get("nodes", "n1")["metadata"]
    cluster.change("nodes", "n1", metadata=metadata | {"labels": metadata["labels"] | said, "annotations": said})


def test_time_for_which_a_pod_waited_is_not_held_against_it_by_the_next_operator() -> None:
    cluster = begin()
    cluster.now += timedelta(hours=1)
    cluster.stuck.add("n2")  # its kubelet takes its time to end the old one
    cluster.ask(V2)
    cluster.work()
    old, _ = find_pods(cluster, "n2")
    assert "deletionTimestamp" in old["metadata"]
    again = Waiting(cluster)
    again.run()
    assert again.rollout["phase"] == "Progressing"
    again.stuck.clear()
    again.run_until("Complete")
    assert again.images == dict.fromkeys(NODES, V2)


def test_pod_that_waited_did_not_leave_the_kernel_before_it_began() -> None:
    """What left is the one before, by the same name: it tells nothing of why the next one ends."""
    waiter = {"name": WAIT, "started": True, "state": {"running": {"startedAt": reporting.stamp(1)}}}
    waited = {"type": "Initialized", "status": "True", "lastTransitionTime": reporting.stamp(100)}
    life = reporting.container_status(ended=(101, 102))
    document = {
        "metadata": {"name": "pod", "namespace": "default", "creationTimestamp": reporting.stamp(0)},
        "spec": {"nodeName": "node-1", "containers": [{"image": reporting.IMAGE}]},
        "status": {"containerStatuses": [life], "initContainerStatuses": [waiter], "conditions": [waited]},
    }
    report = reporting.make_report(left=("rusty", 90), problems=(reporting.KFUNCS,))
    judgement = judge(
        msgspec.convert(document, Pod),
        report,
        agent_ready=True,
        boot_id=reporting.BOOT,
        learned=(),
        foreign="",
        held=False,
        now=reporting.at(120),
    )
    assert judgement.state == "unfit"


def test_old_scheduler_that_takes_its_time_to_leave_is_no_failure_of_the_next() -> None:
    class Slow(Waiting):
        def _find_pod(self, node: str) -> dict[str, Any] | None:
            found, running = super()._find_pod(node), [pod for pod in self._pods_on(node) if runs(pod)]
            return running[0] if running and node in self.stuck else found  # it is attached until it ends

    cluster = begin(make_waiting(Slow))
    cluster.stuck.add("n2")
    cluster.ask(V2)
    cluster.run()
    cluster.move()
    old, _ = find_pods(cluster, "n2")
    due = {"deletionTimestamp": stamp(cluster.now + timedelta(hours=2))}
    cluster.change("pods", old["metadata"]["name"], metadata=old["metadata"] | due)
    for _ in range(3):
        cluster.now += timedelta(minutes=20)
        cluster.look("one")
        cluster.work()
    assert cluster.rollout["phase"] == "Progressing"
    assert cluster.most_idle == 1
    cluster.stuck.clear()
    cluster.run_until("Complete")


def test_revision_that_failed_does_not_wait_for_somebody_elses_scheduler_to_leave() -> None:
    class Foreign(Waiting):
        foreign = ""  # a node on which somebody starts a scheduler as soon as the old one has left

        def _find_pod(self, node: str) -> dict[str, Any] | None:
            pods = self._pods_on(node)
            if node != self.foreign or any(map(runs, pods)):
                return super()._find_pod(node)
            for pod in pods:
                self._wait(pod, node)
            return {"status": {"containerStatuses": []}, "spec": {"containers": [{"image": "example.com/scx_other:1"}]}}

    cluster = make_waiting(Foreign)
    assert isinstance(cluster, Foreign)
    cluster.foreign = "n1"
    cluster.ask(BAD)
    cluster.run_until("RolledBack")
    for _ in range(3):
        cluster.work()
        cluster.look("one")
    assert cluster.rollout["failedRevision"]["node"] != "n1", "somebody else's scheduler is no failure"
    assert cluster.on("n1") == [find_revision(cluster, V1)]
    cluster.foreign = ""
    cluster.work()
    assert cluster.images == dict.fromkeys(NODES, V1)
    assert not cluster.work()


RUNS = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}


@pytest.mark.parametrize(
    ("status", "initialized", "waits"),
    [
        ({"started": False, "state": RUNS}, "False", True),
        ({"started": True, "state": RUNS}, "True", False),
        ({"started": True, "state": RUNS}, "False", True),
        ({"started": False, "state": {"terminated": {"exitCode": 0}}}, "True", False),
        ({"started": False, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}, "False", False),
    ],
    ids=["a probe that runs", "a probe that ended", "an init container", "its end", "a sidecar that ends"],
)
def test_pod_waits_by_a_probe_or_as_older_operators_made_it_by_an_init_container(
    status: dict[str, Any], initialized: str, waits: bool
) -> None:
    """A kubelet says of an init container without a probe that it has started, as long as it runs."""
    condition = {"type": "Initialized", "status": initialized}
    document = {
        "metadata": {"name": "pod", "namespace": "default"},
        "status": {"conditions": [condition], "initContainerStatuses": [{"name": WAIT} | status]},
    }
    assert is_waiting(msgspec.convert(document, Pod)) is waits


def test_rollout_goes_on_where_pods_of_an_older_operator_wait() -> None:
    class Older(Waiting):
        def _wait(self, pod: dict[str, Any], node: str) -> None:
            if "initContainerStatuses" in pod["status"]:
                return
            super()._wait(pod, node)
            status = self.get("pods", pod["metadata"]["name"])["status"]
            if init := status.get("initContainerStatuses"):
                held = {"type": "Initialized", "status": "False"}
                said = {"initContainerStatuses": [init[0] | {"started": True}], "conditions": [held]}
                self.change("pods", pod["metadata"]["name"], status=status | said)

    cluster = make_waiting(Older)
    cluster.ask(V2, **SLOW)
    cluster.work()
    _, waiting = find_pods(cluster, "n2")
    assert is_waiting(msgspec.convert(cluster.get("pods", waiting["metadata"]["name"]), Pod))
    cluster.ask(V2)
    cluster.run_until("Complete")
    assert (cluster.images, cluster.most_idle) == (dict.fromkeys(NODES, V2), 1)
