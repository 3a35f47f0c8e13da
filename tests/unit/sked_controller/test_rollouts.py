"""Rollouts through the real controller: revisions as DaemonSets, labels that move, kernels that answer or do not."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

import pytest

from schedkit.sked.api.rollout_types import RolloutStatus
from schedkit.sked.api.types import PoolStatus
from schedkit.sked.controller.claims import Claim
from schedkit.sked.controller.pulls import PULL
from schedkit.sked.controller.rollout_metrics import RolloutMetrics
from schedkit.sked.controller.slots import Assignment
from schedkit.sked.controller.workloads import Workloads
from schedkit.sked.kube.errors import ApiError
from schedkit.sked.kube.metrics import MetricsRegistry
from schedkit.sked.kube.objects import Key
from tests.unit.sked_controller.test_kernels import Kernels, stamp
from tests.unit.sked_controller.world import refusal

NODES = ["n1", "n2", "n3", "n4"]
GAPS = {"n1": 900, "n2": 500, "n3": 800}  # of the others 700
V1, V2, V3 = (f"example.com/scx_rusty:{number}" for number in (1, 2, 3))
BAD = "example.com/scx_bad:1"  # runs, and never attaches
CRASH = "example.com/scx_crash:1"  # ends at once
KEY = Key("default", "one")
QUICK: dict[str, Any] = {"minAttachedSeconds": 5, "attachTimeoutSeconds": 600}


class Rolling(Kernels):
    """A cluster whose kernels attach what runs on their nodes, and whose agents tell it."""

    unpullable: tuple[str, ...] = ()
    late: tuple[str, ...] = ()  # nodes whose agents tell nothing new

    def __init__(self, before: "Rolling | None" = None, **options: Any) -> None:
        self.pulled: list[tuple[str, str]] = []  # revisions and nodes
        super().__init__(before, **options)

    most_idle = 0  # how many nodes were without a scheduler at once since the rollout began

    def move(self) -> bool:
        moved = super().move()
        return self._pull() or self._attach() or moved

    def _pull(self) -> bool:
        """What kubelets do with the pods that bring images."""
        before = self._version
        for pod in list(self.objects["pods"].values()):
            if PULL not in pod["metadata"]["labels"] or pod["status"]["phase"] != "Pending":
                continue
            if pod["spec"]["containers"][0]["image"] in self.unpullable:
                state = {"waiting": {"reason": "ErrImagePull", "message": "not found"}}
                status = {"phase": "Pending", "containerStatuses": [{"name": "pull", "state": state}]}
            else:
                status = {"phase": "Succeeded", "containerStatuses": [{"name": "pull", "state": {"terminated": {}}}]}
            if pod["status"] != status:
                self.pulled.append((pod["metadata"]["labels"][PULL], pod["spec"]["nodeName"]))
                self.change("pods", pod["metadata"]["name"], status=status)
        return self._version != before

    def check(self) -> None:
        super().check()
        for node in self.names("nodes"):
            there = [name for name in self.on(node) if name]
            assert len(there) <= 1, f"{there} on {node}"
        attached = [
            node for node in self.names("nodes") if self.find_report(node).get("slot", {}).get("state") == "enabled"
        ]
        self.most_idle = max(self.most_idle, len(self.names("nodes")) - len(attached))

    def _attach(self) -> bool:
        before = self._version
        for node in self.names("nodes"):
            pod = self._find_pod(node)
            image = pod["spec"]["containers"][0]["image"] if pod else ""
            if pod and "containerStatuses" not in pod["status"]:
                self.change("pods", pod["metadata"]["name"], status=pod["status"] | self._start(image))
            slot = self.find_report(node).get("slot", {})
            wanted = f"{image}" if image and image not in (BAD, CRASH) else ""
            if slot.get("told") == wanted or node in self.late:
                continue
            state = {
                "state": "enabled" if wanted else "disabled",
                "told": wanted,
                "enableSeq": slot.get("enableSeq", 0) + bool(wanted),
            }
            if wanted:
                state |= {
                    "ops": image.rpartition("/")[2].partition(":")[0],
                    "since": stamp(self.now),
                    "gapMilliseconds": GAPS.get(node, 700),
                }
            kernel = {"bootID": f"boot-of-{node}", "supported": "True"}
            old = self.find_report(node)
            held = {field: old[field] for field in ("schedExt", "quarantine", "ejections") if field in old}
            self.put("schedextnodes", {"metadata": {"name": node}, "status": held | {"kernel": kernel, "slot": state}})
        return self._version != before

    def _start(self, image: str) -> dict[str, Any]:
        found: dict[str, Any] = {"name": "scx", "imageID": f"{image}@sha256:aa", "restartCount": 0}
        if image == CRASH:
            ended = {"exitCode": 1, "reason": "Error", "startedAt": stamp(self.now), "finishedAt": stamp(self.now)}
            found |= {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": ended}}
        else:
            found |= {"state": {"running": {"startedAt": stamp(self.now)}}}
        return {"containerStatuses": [found]}

    def _find_pod(self, node: str) -> dict[str, Any] | None:
        found = [pod for pod in self.objects["pods"].values() if pod["spec"]["nodeName"] == node]
        found = [pod for pod in found if PULL not in pod["metadata"]["labels"]]
        return next((pod for pod in found if "deletionTimestamp" not in pod["metadata"]), None)

    @property
    def rollout(self) -> dict[str, Any]:
        found: dict[str, Any] = self.get("schedexts", "one")["status"]["pools"][0]["rollout"]
        return found

    @property
    def images(self) -> dict[str, str]:
        pods = {node: self._find_pod(node) for node in self.names("nodes")}
        return {node: pod["spec"]["containers"][0]["image"] if pod else "" for node, pod in pods.items()}

    def pod_uids(self) -> dict[str, str]:
        pods = (pod for pod in self.objects["pods"].values() if PULL not in pod["metadata"]["labels"])
        return {pod["spec"]["nodeName"]: pod["metadata"]["uid"] for pod in pods}

    def ask(self, sched: str, **rollout: Any) -> None:
        self.apply_resource("one", sched=sched, rollout=QUICK | rollout)

    def annotate(self, **values: str) -> None:
        found = self.get("schedexts", "one")
        annotations = {f"sked.schedkit.io/{name}": value for name, value in values.items()}
        self.change("schedexts", "one", metadata=found["metadata"] | {"annotations": annotations})

    def run_until(self, phase: str) -> dict[str, Any]:
        for _ in range(40):
            self.work()
            if self.rollout["phase"] == phase:
                return self.rollout
            self.look("one")  # as its timer is due
        pytest.fail(f"never {phase}: {self.rollout}")


def make_rolling(sched: str = V1, cls: Callable[[], Rolling] = Rolling, **rollout: Any) -> Rolling:
    """A cluster on which a first revision has been rolled out."""
    cluster = cls()
    for name in NODES:
        cluster.add_node(name, {"canary": "true"} if name == "n3" else None)
    cluster.add_agents(*NODES)
    cluster.ask(sched, **rollout)
    cluster.run_until("Complete")
    cluster.most_idle = 0
    return cluster


def find_revision(cluster: Rolling, image: str) -> str:
    (found,) = (
        document["metadata"]["name"]
        for document in cluster.objects["daemonsets"].values()
        if document["spec"]["template"]["spec"]["containers"][0]["image"] == image
    )
    return str(found)


def test_first_revision_reaches_all_nodes_and_is_the_stable_one() -> None:
    cluster = make_rolling()
    revision = find_revision(cluster, V1)
    assert revision.startswith("one-")
    assert cluster.rollout["currentRevision"] == cluster.rollout["updateRevision"] == revision
    assert cluster.slots() == dict.fromkeys(NODES, f"default.{revision}")
    assert cluster.condition("one", "Ready") == ("True", "Ready")
    assert not cluster.work(), "a rollout that is complete writes nothing"


def test_new_revision_follows_node_by_node_and_tells_the_gap() -> None:
    cluster = make_rolling()
    cluster.ask(V2)
    rollout = cluster.run_until("Complete")
    assert cluster.images == dict.fromkeys(NODES, V2)
    assert cluster.most_idle == 1
    assert rollout["currentRevision"] == find_revision(cluster, V2)
    assert rollout["nodes"]["updated"] == 4
    assert rollout["gap"] == {"medianMilliseconds": 750, "worstMilliseconds": 900}
    assert sorted(cluster.names("daemonsets")) == sorted([find_revision(cluster, V1), find_revision(cluster, V2)])
    one = 'namespace="default",name="one"'
    assert cluster.metric(f'sked_rollout_phase{{{one},pool="",phase="Complete"}}')[0].endswith(" 1")
    assert cluster.metric(f"sked_rollout_gap_seconds_count{{{one}}}")[0].endswith(" 4")
    assert cluster.metric(f'sked_rollout_nodes{{{one},pool="",state="updated"}}')[0].endswith(" 4")


def test_opting_in_restarts_nothing() -> None:
    cluster = make_rolling()
    plain = Rolling()
    for name in NODES:
        plain.add_node(name)
    plain.add_agents(*NODES)
    plain.apply_resource("one", sched=V1)
    plain.work()
    before = plain.pod_uids()
    assert plain.slots() == {}
    plain.ask(V1)
    plain.run_until("Complete")
    assert plain.pod_uids() == before
    assert plain.rollout["currentRevision"] == "one"
    plain.ask(V2, steps=[{"nodes": 1}, {"pause": {}}])
    plain.run_until("Paused")
    assert plain.images == {"n1": V2, "n2": V1, "n3": V1, "n4": V1}
    assert {node: uid for node, uid in plain.pod_uids().items() if node != "n1"} == {
        node: uid for node, uid in before.items() if node != "n1"
    }
    assert cluster.names("daemonsets") != ["one"]


def test_opting_in_together_with_a_new_image_rolls_it_out() -> None:
    cluster = Rolling()
    for name in NODES:
        cluster.add_node(name)
    cluster.add_agents(*NODES)
    cluster.apply_resource("one", sched=V1)
    cluster.work()
    cluster.ask(BAD, steps=[{"nodes": 1}])
    rollout = cluster.run_until("RolledBack")
    assert rollout["currentRevision"] == "one"
    assert cluster.images == dict.fromkeys(NODES, V1)


def test_canary_by_label_waits_to_be_promoted_and_others_stay_untouched() -> None:
    cluster = make_rolling()
    before = cluster.pod_uids()
    cluster.ask(V2, steps=[{"nodes": 1, "nodeSelector": {"canary": "true"}}, {"pause": {}}])
    rollout = cluster.run_until("Paused")
    assert cluster.images == {"n1": V1, "n2": V1, "n3": V2, "n4": V1}
    assert {n: uid for n, uid in cluster.pod_uids().items() if n != "n3"} == {n: before[n] for n in ("n1", "n2", "n4")}
    assert rollout["message"] == "step 2 of 2: waits to be promoted"
    assert cluster.condition("one", "Progressing") == ("True", "Paused")
    cluster.annotate(promote="now")
    cluster.run_until("Complete")
    assert cluster.images == dict.fromkeys(NODES, V2)
    assert cluster.rollout["handled"]["promote"] == "now"


def test_noting_down_the_next_stage_has_no_node_decided_of_again(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = make_rolling()
    cluster.ask(V2, steps=[{"nodes": 1}, {"pause": {}}])
    cluster.run_until("Paused")
    decided: list[list[str]] = []
    assign = Workloads.assign

    def note(workloads: Workloads, claim: Claim, assignment: Assignment) -> list[str]:
        decided.append(assign(workloads, claim, assignment))
        return decided[-1]

    monkeypatch.setattr(Workloads, "assign", note)
    cluster.annotate(promote="now")
    cluster.run()
    assert cluster.rollout["phase"] == "Progressing"
    assert decided[0] == [], "it is only noted down"
    assert all(len(names) <= 1 for names in decided), "one at a time"
    monkeypatch.setattr(Workloads, "assign", assign)
    cluster.run_until("Complete")
    assert cluster.images == dict.fromkeys(NODES, V2)
    assert cluster.most_idle == 1


def test_revision_whose_failure_cannot_be_noted_down_is_given_to_no_node_again() -> None:
    cluster = make_rolling()
    cluster.ask(CRASH, steps=[{"nodes": 1}])
    for _ in range(10):
        cluster.refusals.clear()
        if cluster.images["n1"] == CRASH:
            cluster.refusals["apply schedexts/status one"] = refusal(503, "Unavailable")
        cluster.look("one")
        with contextlib.suppress(ApiError):
            cluster.run()
        cluster.move()
        cluster.end_pods()
    failed = f"default.{find_revision(cluster, CRASH)}"
    assert (cluster.slots()["n1"], cluster.rollout["phase"]) == (failed, "Progressing")
    cluster._queue.clear()
    cluster.label("n1", slot=None)
    cluster._queue = deque(key for key in cluster._queue if key != KEY)  # it is tried again later
    cluster.run()
    assert "n1" not in cluster.slots()
    cluster.refusals.clear()
    cluster.look("one")
    cluster.run_until("RolledBack")
    assert cluster.images == dict.fromkeys(NODES, V1)


@pytest.mark.parametrize(("image", "reason"), [(BAD, "NotAttachedInTime"), (CRASH, "CrashLooping")])
def test_failure_brings_the_stable_revision_back(image: str, reason: str) -> None:
    cluster = make_rolling()
    before = cluster.pod_uids()
    cluster.ask(image, steps=[{"nodes": 1}])
    rollout = cluster.run_until("RolledBack")
    assert cluster.images == dict.fromkeys(NODES, V1)
    assert {n: uid for n, uid in cluster.pod_uids().items() if n != "n1"} == {n: before[n] for n in ("n2", "n3", "n4")}
    failed = rollout["failedRevision"]
    assert (failed["node"], failed["reason"]) == ("n1", reason)
    assert cluster.condition("one", "Stalled") == ("True", "RolledBack")
    assert cluster.condition("one", "Ready") == ("False", "RolledBack")
    assert cluster.get("schedexts", "one")["spec"]["sched"] == image, "the spec is never edited"
    (counted,) = cluster.metric("sked_rollout_failures_total")
    assert counted.endswith(f'reason="{reason}"}} 1')
    assert ("one", "Warning", "RolledBack") in cluster.events
    cluster.now += timedelta(hours=1)
    cluster.look("one")
    cluster.work()
    assert cluster.images == dict.fromkeys(NODES, V1)


def test_image_is_on_the_node_before_the_old_scheduler_leaves() -> None:
    cluster = make_rolling()
    cluster.ask(V2)
    cluster.run_until("Complete")
    revision = find_revision(cluster, V2)
    assert sorted(cluster.pulled) == [(revision, node) for node in NODES]
    made = [body for body in cluster.bodies if isinstance(body, dict) and body.get("kind") == "Pod"]
    assert not made or made[0]["spec"]["containers"][0]["securityContext"]["runAsNonRoot"]
    assert len(cluster.names("pods")) == len(NODES), "pods that pulled are gone"


class SlowRolling(Rolling):
    """An API server that takes its time to create something."""

    creating = most_creating = 0

    async def create(self, *words: Any, **options: Any) -> Any:
        self.creating += 1
        self.most_creating = max(self.most_creating, self.creating)
        await asyncio.sleep(0)
        self.creating -= 1
        return await super().create(*words, **options)


def test_no_node_waits_until_the_image_is_ordered_for_the_one_before() -> None:
    cluster = make_rolling(cls=SlowRolling, maxUnavailable="50%")
    cluster.ask(V2, maxUnavailable="50%")
    cluster.run_until("Complete")
    assert isinstance(cluster, SlowRolling)
    assert cluster.most_creating == len(NODES)  # those that are next, and as many ahead of them


class LateRolling(Rolling):
    """What is written to nodes is not seen yet, and one node pulls slowly."""

    slow = ""
    sent: set[str] | None = None  # the nodes written to, while that is not seen

    def _label_node(self, name: str, sent: Any) -> Any:
        if self.sent is None:
            return super()._label_node(name, sent)
        self.sent.add(name)
        return None

    def _pull(self) -> bool:
        pods = self.objects["pods"]
        waiting = {key: pod for key, pod in pods.items() if PULL in pod["metadata"]["labels"]}
        hidden = {key: pods.pop(key) for key, pod in waiting.items() if pod["spec"]["nodeName"] == self.slow}
        moved = super()._pull()
        pods.update(hidden)
        return moved


def test_node_that_was_told_to_leave_counts_before_its_label_is_seen() -> None:
    cluster = make_rolling(cls=LateRolling)
    assert isinstance(cluster, LateRolling)
    cluster.slow, cluster.sent = "n1", set()
    cluster.ask(V2)
    cluster.work()
    assert cluster.sent == {"n2"}, "n1 has yet to get the image"
    cluster.slow = ""
    cluster.work()
    cluster.look("one")
    cluster.work()
    assert cluster.sent == {"n2"}
    cluster.sent = None
    cluster.look_at_node("n2")
    cluster.run_until("Complete")
    assert cluster.most_idle == 1


def test_image_that_cannot_be_pulled_costs_no_node_its_scheduler() -> None:
    cluster = make_rolling()
    before = cluster.pod_uids()
    cluster.unpullable = (V2,)
    cluster.ask(V2, steps=[{"nodes": 1}])
    rollout = cluster.run_until("RolledBack")
    assert (rollout["failedRevision"]["reason"], rollout["failedRevision"]["message"]) == ("PullFailed", "not found")
    assert cluster.pod_uids() == before
    cluster.work()
    assert len(cluster.names("pods")) == len(NODES)


def test_where_no_pods_may_be_made_nodes_are_moved_without() -> None:
    cluster = make_rolling()
    cluster.refusals["create pods"] = refusal(403, "Forbidden")
    cluster.ask(V2)
    cluster.run_until("Complete")
    assert cluster.images == dict.fromkeys(NODES, V2)
    assert cluster.pulled == []


def test_failed_revision_is_tried_again_when_a_person_asks() -> None:
    cluster = make_rolling()
    cluster.ask(BAD, steps=[{"nodes": 1}])
    cluster.run_until("RolledBack")
    tried = cluster.rollout["failedRevision"]["time"]
    cluster.annotate(retry="once more")
    cluster.work()
    cluster.run_until("RolledBack")
    assert cluster.rollout["failedRevision"]["time"] > tried


def test_with_pause_nothing_is_brought_back() -> None:
    cluster = make_rolling()
    cluster.ask(CRASH, steps=[{"nodes": 1}], failure={"action": "Pause"})
    cluster.run_until("Paused")
    assert cluster.images["n1"] == CRASH
    assert cluster.condition("one", "Stalled") == ("True", "RolloutFailed")
    cluster.ask(V2)
    cluster.run_until("Complete")
    assert cluster.images == dict.fromkeys(NODES, V2)


def test_undo_brings_an_earlier_revision_back_until_the_spec_changes() -> None:
    cluster = make_rolling()
    cluster.ask(V2)
    cluster.run_until("Complete")
    cluster.annotate(undo=f"{find_revision(cluster, V1)} today")
    cluster.work()
    cluster.run_until("Complete")
    assert cluster.images == dict.fromkeys(NODES, V1)
    assert cluster.rollout["undoneRevision"] == find_revision(cluster, V2)
    cluster.apply_resource("one", sched=V2, rollout=QUICK, priority=-1)  # which asks for no other revision
    cluster.work()
    assert cluster.images == dict.fromkeys(NODES, V1)
    cluster.ask(V3)
    cluster.run_until("Complete")
    assert cluster.images == dict.fromkeys(NODES, V3)


def test_undo_to_what_is_not_kept_says_so() -> None:
    cluster = make_rolling()
    cluster.annotate(undo="one-0000000000 today")
    cluster.work()
    assert "names one-0000000000, which is not a kept revision" in cluster.rollout["message"]
    cluster.annotate()
    cluster.work()
    assert cluster.rollout["message"] == "every node has the stable revision"


def test_undo_that_is_taken_away_after_it_was_carried_out_changes_nothing() -> None:
    cluster = make_rolling()
    cluster.ask(V2)
    cluster.run_until("Complete")
    cluster.annotate(undo=f"{find_revision(cluster, V1)} today")
    cluster.run_until("Complete")
    cluster.annotate()
    cluster.work()
    assert cluster.images == dict.fromkeys(NODES, V1)
    assert cluster.rollout["message"] == "every node has the stable revision"


def test_promotion_while_paused_is_carried_out_when_it_goes_on() -> None:
    cluster = make_rolling()
    cluster.ask(V2, steps=[{"nodes": 1}, {"pause": {}}])
    cluster.run_until("Paused")
    cluster.change("schedexts", "one", spec=cluster.get("schedexts", "one")["spec"] | {"paused": True})
    cluster.annotate(promote="once")
    cluster.work()
    assert cluster.images["n2"] == V1
    cluster.change("schedexts", "one", spec=cluster.get("schedexts", "one")["spec"] | {"paused": False})
    cluster.run_until("Complete")
    assert cluster.images == dict.fromkeys(NODES, V2)


def test_nodes_of_a_stable_revision_that_somebody_deleted_get_the_new_one() -> None:
    cluster = make_rolling()
    cluster.ask(V2, steps=[{"nodes": 1}, {"pause": {}}])
    cluster.run_until("Paused")
    cluster.remove("daemonsets", find_revision(cluster, V1))
    cluster.work()
    assert cluster.rollout.get("currentRevision", "") == ""
    cluster.annotate(promote="once")
    cluster.run_until("Complete")
    assert cluster.images == dict.fromkeys(NODES, V2)


def test_placement_and_labels_restart_nothing() -> None:
    cluster = make_rolling()
    before = cluster.pod_uids()
    cluster.apply_resource(
        "one", sched=V1, rollout=QUICK, tolerations=[{"operator": "Exists"}], nodeSelector={"kubernetes.io/os": "linux"}
    )
    for name in NODES:
        cluster.label(name, **{"kubernetes.io/os": "linux"})
    cluster.work()
    cluster.run_until("Complete")
    assert cluster.pod_uids().keys() == before.keys()
    assert len(cluster.names("daemonsets")) == 1


def test_history_is_bounded() -> None:
    cluster = make_rolling(revisionHistoryLimit=1)
    for image in (V2, V3, "example.com/scx_rusty:4"):
        cluster.now += timedelta(minutes=1)
        cluster.ask(image, revisionHistoryLimit=1)
        cluster.run_until("Complete")
    cluster.work()
    assert len(cluster.names("daemonsets")) == 2
    assert find_revision(cluster, V3)


def test_node_that_joins_gets_the_stable_revision() -> None:
    cluster = make_rolling()
    cluster.ask(V2, steps=[{"nodes": 1}, {"pause": {}}])
    cluster.run_until("Paused")
    cluster.add_node("n9")
    cluster.add_agents("n9")
    cluster.work()
    assert cluster.images["n9"] == V1


def test_node_without_an_agent_neither_passes_nor_fails() -> None:
    cluster = make_rolling()
    cluster.add_agents("n1", ready=False)
    cluster.ask(V2, steps=[{"nodes": 1}])
    for _ in range(20):
        cluster.work()
    assert cluster.images["n1"] == V2
    assert cluster.images["n2"] == V1
    assert "unknown of n1: no agent is ready on it" in cluster.rollout["message"]
    cluster.add_agents("n1")
    cluster.run_until("Complete")


def test_removing_the_rollout_restarts_nothing() -> None:
    cluster = make_rolling()
    cluster.ask(V2)
    cluster.run_until("Complete")
    before = cluster.pod_uids()
    cluster.apply_resource("one", sched=V2)
    cluster.work()
    assert cluster.pod_uids() == before


def test_suspending_takes_all_revisions_off() -> None:
    cluster = make_rolling()
    cluster.apply_resource("one", sched=V1, rollout=QUICK, suspend=True)
    cluster.work()
    assert cluster.names("daemonsets") == []
    assert cluster.slots() == {}
    cluster.ask(V1)
    cluster.run_until("Complete")
    assert cluster.images == dict.fromkeys(NODES, V1)


def test_deleting_the_resource_leaves_no_label() -> None:
    cluster = make_rolling()
    cluster.remove("schedexts", "one")
    cluster.work()
    assert cluster.names("daemonsets") == []
    assert cluster.slots() == {}


AnyRolling = TypeVar("AnyRolling", bound=Rolling)


class Killed(Exception):
    """The operator's process is gone."""


def work_until_killed(cluster: AnyRolling, after: int) -> AnyRolling:
    """Let everybody work; at its n-th write the operator is killed before it is made, and another one comes."""
    left, cls = after, type(cluster)

    def note(write: str, body: object) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise Killed(write)
        cls._note(cluster, write, body)

    cluster._note = note  # type: ignore[method-assign]
    try:
        cluster.look("one")
        cluster.work()
    except Killed:
        successor = cls(cluster)
        successor.most_idle = cluster.most_idle
        return successor
    finally:
        del cluster._note
    return cluster


@pytest.mark.parametrize("image", [V2, BAD])
@pytest.mark.parametrize("after", [1, 2, 3, 5, 8])
def test_operator_that_is_killed_at_any_write_is_followed_by_one_that_goes_on(after: int, image: str) -> None:
    cluster = make_rolling()
    cluster.ask(image, steps=[{"nodes": 1}, {"nodes": "50%"}])
    ends = "Complete" if image == V2 else "RolledBack"
    for _ in range(200):
        cluster = work_until_killed(cluster, after)
        if cluster.rollout["phase"] == ends and cluster.images == dict.fromkeys(NODES, V2 if image == V2 else V1):
            break
    else:
        pytest.fail(f"no end: {cluster.rollout} {cluster.images}")
    assert cluster.most_idle == 1
    cluster.work()
    assert cluster.rollout["phase"] == ends


def test_metrics_of_a_pool_without_a_rollout_are_forgotten() -> None:
    metrics = RolloutMetrics(registry := MetricsRegistry())
    rollout = RolloutStatus(phase="RolledBack")
    metrics.tell(KEY, (), (PoolStatus(name="a", rollout=rollout), PoolStatus(name="b", rollout=rollout)))
    metrics.tell(KEY, (), (PoolStatus(name="a", rollout=rollout), PoolStatus(name="b")))
    assert 'pool="a",phase="RolledBack"} 1' in registry.render().decode()
    assert 'pool="b"' not in registry.render().decode()
