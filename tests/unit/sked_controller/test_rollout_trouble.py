"""Rollouts in trouble: rights that are missing, nodes that reboot, kernels that eject, people in a hurry."""

from datetime import timedelta
from typing import Any

import pytest

from schedkit.sked.controller.pulls import PULL
from schedkit.sked.controller.verification import Failure
from tests.unit.sked_controller.test_kernels import stamp
from tests.unit.sked_controller.test_rollouts import (
    BAD,
    NODES,
    QUICK,
    V1,
    V2,
    Rolling,
    find_revision,
    make_rolling,
)
from tests.unit.sked_controller.test_verification import FIRST, OUTAGE, SECOND, UNSIGNED, Verifier
from tests.unit.sked_controller.world import refusal

ONE_CANARY = [{"nodes": 1}, {"pause": {}}]


class NodesFirst(Rolling):
    """One whose nodes are always looked at before its resources."""

    def _wake(self, key: Any) -> None:
        if key not in self._queue:
            (self._queue.appendleft if isinstance(key, str) else self._queue.append)(key)


def roll_back(**rollout: Any) -> Rolling:
    cluster = make_rolling()
    cluster.ask(BAD, steps=[{"nodes": 1}], **rollout)
    cluster.run_until("RolledBack")
    return cluster


def put_container(cluster: Rolling, node: str, **status: Any) -> None:
    """What a kubelet says of a node's scheduler."""
    pod = cluster._find_pod(node)
    assert pod
    found = {"name": "scx", "imageID": "example.com/scx@sha256:aa", "restartCount": 1} | status
    cluster.logs[pod["metadata"]["name"]] = ""
    cluster.change("pods", pod["metadata"]["name"], status=pod["status"] | {"containerStatuses": [found]})


def put_slot(cluster: Rolling, node: str, **changes: Any) -> None:
    """What an agent says of a kernel, and goes on saying."""
    status = cluster.find_report(node)
    lifted = {name: changes.pop(name) for name in ("lastDetach", "kernel") if name in changes}
    kept = {name: value for name, value in status["slot"].items() if name in ("told", "enableSeq")}
    cluster.put("schedextnodes", {"metadata": {"name": node}, "status": status | lifted | {"slot": kept | changes}})


def eject(cluster: Rolling, node: str) -> None:
    """Have a node's kernel eject its scheduler."""
    ended = cluster.now
    done = {"exitCode": 2, "reason": "Error", "startedAt": stamp(ended - timedelta(seconds=9))}
    ends = {"lastState": {"terminated": done | {"finishedAt": stamp(ended)}}}
    put_container(cluster, node, state={"waiting": {"reason": "CrashLoopBackOff"}}, **ends)
    seq = cluster.find_report(node)["slot"]["enableSeq"] + 1
    left = {"ops": "scx_rusty", "time": stamp(ended), "enableSeq": seq}
    put_slot(cluster, node, state="disabled", enableSeq=seq, lastDetach=left)


# --- what was noted down is never forgotten -------------------------------------------------------------------------


def test_what_failed_is_remembered_while_daemonsets_cannot_be_written() -> None:
    cluster = roll_back()
    before = cluster.rollout
    cluster.refusals["apply daemonsets"] = refusal(403, "Forbidden")
    cluster.apply_resource("one", sched=BAD, rollout=QUICK, tolerations=[{"operator": "Exists"}])
    cluster.work()
    assert cluster.condition("one", "Stalled") == ("True", "Forbidden")
    assert cluster.rollout == before
    cluster.refusals.clear()
    cluster.look("one")
    cluster.work()
    assert cluster.rollout["failedRevision"] == before["failedRevision"]
    assert cluster.images == dict.fromkeys(NODES, V1)


def test_what_failed_is_remembered_while_pods_may_not_be_looked_at() -> None:
    cluster = roll_back()
    before = cluster.rollout
    for denied in ("pods is forbidden", ""):
        for stream in cluster.informers["pods"]._streams:
            stream.denied = denied
        cluster.informers["pods"].sync_changed()
        cluster.work()
        assert cluster.rollout["failedRevision"] == before["failedRevision"]
    assert cluster.rollout["phase"] == "RolledBack"


def test_status_that_is_refused_is_shortened_and_keeps_the_rollout() -> None:
    cluster = roll_back()
    before, left = cluster.rollout["failedRevision"], 1

    def refuse(write: str, body: object) -> None:
        nonlocal left
        Rolling._note(cluster, write, body)
        if write.startswith("apply schedexts/status") and left:
            left -= 1
            raise refusal(422, "Invalid")

    cluster._note = refuse  # type: ignore[method-assign]
    cluster.add_node("n9")
    cluster.work()
    assert not left
    assert cluster.rollout["failedRevision"] == before
    assert BAD not in cluster.images.values()


def test_failed_revision_is_not_tried_again_because_of_another_change_after_an_undo() -> None:
    cluster = roll_back()
    cluster.annotate(undo=f"{find_revision(cluster, V1)} today")
    cluster.run_until("Complete")
    cluster.pulled.clear()
    cluster.ask(BAD, steps=[{"nodes": 1}], maxUnavailable=2)
    cluster.run_until("Complete")
    assert cluster.pulled == []
    assert cluster.images == dict.fromkeys(NODES, V1)


# --- rights and long words ------------------------------------------------------------------------------------------


def test_without_the_right_to_delete_pods_it_goes_on() -> None:
    cluster = make_rolling()
    cluster.refusals["delete pods"] = refusal(403, "Forbidden")
    cluster.ask(V2)
    cluster.run_until("Complete")
    assert cluster.images == dict.fromkeys(NODES, V2)


def test_without_the_right_to_label_nodes_it_says_so_and_goes_on_when_it_may() -> None:
    cluster = make_rolling()
    before = cluster.pod_uids()
    cluster.refusals["label"] = refusal(403, "Forbidden")
    cluster.ask(V2)
    cluster.work()
    assert cluster.condition("one", "Stalled") == ("True", "NodesNotWritable")
    assert cluster.message("one", "Ready").startswith("sked cannot label nodes: ")
    assert cluster.pod_uids() == before
    cluster.refusals.clear()
    for name in NODES:
        cluster.look_at_node(name)
    cluster.run_until("Complete")
    assert cluster.condition("one", "Stalled") == ("False", "NotStalled")


def test_long_answer_of_a_registry_fits_into_the_status() -> None:
    cluster = make_rolling()
    cluster.unpullable = (V2,)
    cluster.ask(V2, steps=[{"nodes": 1}])
    cluster.work()
    for pod in [pod for pod in cluster.objects["pods"].values() if "-pull-" in pod["metadata"]["name"]]:
        waiting = {"reason": "ErrImagePull", "message": "x" * 5000}
        found = {"name": "pull", "state": {"waiting": waiting}}
        cluster.change("pods", pod["metadata"]["name"], status={"phase": "Running", "containerStatuses": [found]})
    rollout = cluster.run_until("RolledBack")
    assert rollout["failedRevision"]["reason"] == "PullFailed"
    assert len(rollout["message"]) <= 1024
    assert len(rollout["failedRevision"]["message"]) <= 1024


@pytest.mark.parametrize("failure", [UNSIGNED, OUTAGE])
def test_image_that_is_no_longer_verified_reaches_no_more_nodes_and_keeps_nobody_from_going_back(
    failure: Failure,
) -> None:
    verifier = Verifier()
    verifier.accept(V1, FIRST)
    verifier.accept(V2, SECOND)
    first, second = (f"example.com/scx_rusty@{digest}" for digest in (FIRST, SECOND))
    cluster = make_rolling(cls=lambda: Rolling(verifier=verifier))
    cluster.ask(V2, steps=ONE_CANARY)
    cluster.run_until("Paused")
    there = {"n1": second, "n2": first, "n3": first, "n4": first}
    assert cluster.images == there
    verifier.fail(failure, V2)
    cluster.annotate(promote="now")
    for _ in range(5):
        cluster.look("one")
        cluster.work()
    assert cluster.images == there
    assert cluster.rollout["currentRevision"] == find_revision(cluster, first)
    cluster.annotate(undo=f"{find_revision(cluster, first)} now")
    for _ in range(5):
        cluster.look("one")
        cluster.work()
    assert cluster.images == dict.fromkeys(NODES, first)


# --- nodes ----------------------------------------------------------------------------------------------------------


def test_node_that_had_no_working_scheduler_before_does_not_keep_a_rollback_from_its_end() -> None:
    cluster = make_rolling()
    ended = {"exitCode": 1, "reason": "Error", "startedAt": stamp(cluster.now), "finishedAt": stamp(cluster.now)}
    put_container(cluster, "n4", state={"waiting": {"reason": "CrashLoopBackOff"}}, lastState={"terminated": ended})
    put_slot(cluster, "n4", state="disabled")
    cluster.work()
    cluster.ask(BAD, steps=[{"nodes": 1, "nodeSelector": {"canary": "true"}}], maxUnavailable=2)
    assert cluster.run_until("RolledBack")["failedRevision"]["node"] == "n3"


def test_reboot_of_a_node_is_no_failure_of_its_revision() -> None:
    cluster = make_rolling()
    cluster.ask(V2, steps=ONE_CANARY, attachTimeoutSeconds=120)
    cluster.run_until("Paused")
    cluster.now += timedelta(hours=1)
    cluster.look("one")
    cluster.work()
    put_slot(cluster, "n1", state="disabled", enableSeq=0)  # the agent is there before the kubelet tells anything
    cluster.run()
    assert cluster.rollout["phase"] == "Paused"
    lost = {"exitCode": 255, "reason": "Unknown", "startedAt": stamp(cluster.now), "finishedAt": stamp(cluster.now)}
    running = {"running": {"startedAt": stamp(cluster.now)}}
    put_container(cluster, "n1", state=running, lastState={"terminated": lost})
    cluster.run()
    assert cluster.rollout["phase"] == "Paused"
    cluster.now += timedelta(minutes=5)
    cluster.look("one")
    cluster.run()
    assert cluster.rollout["failedRevision"]["reason"] == "NotAttachedInTime"


def test_attachment_that_no_agent_saw_begin_counts_from_when_it_was_first_seen() -> None:
    cluster = make_rolling()
    cluster.ask(V2, steps=[{"nodes": 1}], minAttachedSeconds=1800)
    cluster.work()
    cluster.now += timedelta(minutes=20)
    seq = cluster.find_report("n1")["slot"]["enableSeq"] + 1
    put_slot(cluster, "n1", state="enabled", ops="scx_rusty", enableSeq=seq)  # without since: its agent was restarted
    cluster.work()
    cluster.now += timedelta(minutes=20)
    cluster.look("one")
    cluster.work()
    assert cluster.rollout["nodes"]["attached"] == 0
    assert "step" not in cluster.rollout
    cluster.now += timedelta(minutes=30)
    cluster.look("one")
    cluster.work()
    assert cluster.rollout["step"] == 1


# --- leaving it -----------------------------------------------------------------------------------------------------


def test_opting_out_midway_and_another_operator_restart_nothing() -> None:
    cluster = make_rolling(cls=NodesFirst)
    cluster.ask(V2, steps=[{"nodes": 2}, {"pause": {}}])
    cluster.run_until("Paused")
    cluster.apply_resource("one", sched=V2, paused=True)
    cluster.work()
    cluster = NodesFirst(cluster)
    assert [write for write in cluster.work() if write.startswith("label")] == []


# --- images that cannot be brought to a node before its scheduler leaves --------------------------------------------


def test_node_without_room_for_a_pod_that_pulls_goes_without() -> None:
    class Full(Rolling):
        def _pull(self) -> bool:
            for pod in list(self.objects["pods"].values()):
                if PULL in pod["metadata"]["labels"] and pod["status"]["phase"] == "Pending":
                    status = {
                        "phase": "Failed",
                        "reason": "OutOfpods",
                        "message": "Node didn't have enough resource: pods",
                    }
                    self.change("pods", pod["metadata"]["name"], status=status)
            return False

    cluster = make_rolling(cls=Full)
    cluster.ask(V2)
    cluster.run_until("Complete")
    assert cluster.images == dict.fromkeys(NODES, V2)


def test_pod_of_somebody_else_under_the_name_of_one_that_pulls_stops_nothing() -> None:
    cluster = make_rolling()
    cluster.refusals["create pods"] = refusal(409, "AlreadyExists")
    cluster.ask(V2)
    cluster.run()
    assert cluster.images == dict.fromkeys(NODES, V1), "it may only not have been seen yet"
    cluster.run_until("Complete")
    assert cluster.images == dict.fromkeys(NODES, V2)


def test_name_that_is_taken_on_one_node_of_many_stops_nothing_on_the_way_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last node rests while others move: that its name is taken is not found out when something changes there."""
    cluster = make_rolling()
    more = [f"n{number}" for number in range(5, 10)]
    for name in more:
        cluster.add_node(name)
    cluster.add_agents(*more)
    cluster.run_until("Complete")
    cluster.ask(V2)
    cluster.run_until("Complete")
    create = cluster.create

    async def create_others(resource: Any, type: Any, body: Any, **options: Any) -> Any:
        if body.spec.node_name == "n9":
            raise refusal(409, "AlreadyExists")
        return await create(resource, type, body, **options)

    monkeypatch.setattr(cluster, "create", create_others)
    cluster.ask(V1)
    for _ in range(40):
        cluster.work()
        cluster.look("one")
        cluster.now += timedelta(minutes=5)
    assert set(cluster.images.values()) == {V1}


def test_nodes_that_come_and_go_are_not_kept_in_mind_as_resting() -> None:
    cluster = make_rolling()
    steering: Any = cluster._reconciler._steering

    def settle() -> None:
        cluster.work()
        cluster.look("one")
        cluster.work()

    for number in range(5):
        name = f"spot-{number}"
        cluster.add_node(name)
        cluster.add_agents(name)
        settle()
        for plural, found in (("nodes", name), ("schedextnodes", name), ("agents", f"sked-agent-{name}")):
            cluster.remove(plural, found)
        settle()
    (rest,) = steering._rest.values()
    assert sorted(rest._resting) == sorted(cluster.names("nodes"))


def test_label_alone_makes_no_pod_one_that_pulls() -> None:
    cluster = make_rolling()
    cluster.ask(V2, steps=ONE_CANARY, attachTimeoutSeconds=120)
    cluster.run_until("Paused")
    state = {"waiting": {"reason": "ErrImagePull", "message": "not found"}}
    status = {"phase": "Running", "containerStatuses": [{"name": "theirs", "state": state}]}
    first = cluster.get("daemonsets", find_revision(cluster, V1))["metadata"]
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": first["name"], "uid": first["uid"]}
    metadata = {"name": "theirs", "labels": {PULL: find_revision(cluster, V2)}, "ownerReferences": [owner]}
    cluster.put("pods", {"metadata": metadata, "spec": {"nodeName": "n4"}, "status": status})
    cluster.now += timedelta(minutes=9)
    cluster.annotate(promote="now")
    cluster.run_until("Complete")
    assert "theirs" in cluster.names("pods")


# --- suspended ------------------------------------------------------------------------------------------------------


def test_what_failed_and_what_was_carried_out_is_remembered_while_suspended() -> None:
    cluster = roll_back()
    cluster.annotate(retry="once")
    cluster.work()
    before = cluster.run_until("RolledBack")
    rollout = QUICK | {"steps": [{"nodes": 1}]}
    cluster.apply_resource("one", sched=BAD, rollout=rollout, suspend=True)
    cluster.annotate(retry="once")
    cluster.work()
    assert cluster.names("daemonsets") == []
    assert cluster.condition("one", "Ready") == ("True", "Suspended")
    assert cluster.condition("one", "Stalled") == ("False", "NotStalled")
    assert [line for line in cluster.metric("sked_rollout_phase{") if line.endswith(" 1")] == []
    cluster.apply_resource("one", sched=BAD, rollout=rollout)
    cluster.annotate(retry="once")
    cluster.run_until("RolledBack")
    cluster.work()
    assert cluster.rollout["failedRevision"] == before["failedRevision"]
    assert cluster.images == dict.fromkeys(NODES, ""), "the stable revision went with the suspension"
    cluster.apply_resource("one", sched=V2, rollout=rollout)
    cluster.run_until("Complete")
    assert cluster.images == dict.fromkeys(NODES, V2)


def test_nodes_that_are_gone_are_forgotten() -> None:
    cluster = make_rolling()
    steering = cluster._reconciler._steering
    cluster.ask(V2)
    cluster.refusals["label"] = refusal(403, "Forbidden")
    cluster.work()
    assert steering._taken
    for name in NODES[:3]:
        cluster.remove("nodes", name)
    cluster.work()
    assert not {name for _, name in steering._taken} - {"n4"}
    assert [set(seen) for seen in steering._seen.values()] == [{"n4"}]
