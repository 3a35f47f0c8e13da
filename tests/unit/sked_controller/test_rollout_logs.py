"""What the kernel said, in the failure of a rollout and in a quarantine: read from the log before its pod may go."""

from datetime import timedelta
from typing import Any

import pytest

from tests.unit.sked_controller.test_kernels import STALL, stamp
from tests.unit.sked_controller.test_quarantine import note_of
from tests.unit.sked_controller.test_rollout_trouble import ONE_CANARY, eject, put_container, put_slot
from tests.unit.sked_controller.test_rollouts import NODES, QUICK, V1, V2, Rolling, make_rolling
from tests.unit.sked_controller.world import refusal

SAID = "runnable task stall (kind 1026): sh[7] failed to run for 5.1s"
ENDED = "it was attached and left the kernel; the scheduler ended with status 2"


def canary(action: str = "Rollback", **spec: Any) -> Rolling:
    """A rollout that waits after its first node, n1."""
    cluster = make_rolling()
    rollout = QUICK | {"steps": ONE_CANARY, "failure": {"action": action}}
    cluster.apply_resource("one", sched=V2, rollout=rollout, **spec)
    cluster.run_until("Paused")
    return cluster


def eject_with_log(cluster: Rolling, log: str = STALL, node: str = "n1") -> None:
    eject(cluster, node)
    cluster.logs[name_pod(cluster, node)] = log


def eject_before_its_log_is_there(cluster: Rolling) -> None:
    """Have a kubelet say that a scheduler has just ended: there is no container before this one yet."""
    eject(cluster, "n1")
    ended = {"exitCode": 2, "startedAt": stamp(cluster.now - timedelta(seconds=9)), "finishedAt": stamp(cluster.now)}
    put_container(cluster, "n1", state={"terminated": ended | {"reason": "Error"}})


def name_pod(cluster: Rolling, node: str) -> str:
    pod = cluster._find_pod(node)
    assert pod
    return str(pod["metadata"]["name"])


def why(cluster: Rolling) -> str:
    return str(cluster.rollout["failedRevision"]["message"])


@pytest.mark.parametrize("action", ["Rollback", "Pause"])
def test_failed_revision_tells_what_the_kernel_said_also_when_its_pod_is_gone(action: str) -> None:
    cluster = canary(action)
    eject_with_log(cluster)
    cluster.work()
    if action == "Rollback":
        cluster.run_until("RolledBack")
        assert cluster.images == dict.fromkeys(NODES, V1)
    assert why(cluster) == f"{ENDED}: the kernel ejected it, {SAID}"
    assert why(cluster) in cluster.rollout["message"]
    assert SAID in cluster.message("one", "Stalled")
    again = Rolling(cluster)
    again.logs = cluster.logs
    again.work()
    assert why(again) == why(cluster)


def test_pod_stays_until_its_log_has_been_read_and_not_for_long() -> None:
    cluster = canary()
    pod = name_pod(cluster, "n1")
    eject_before_its_log_is_there(cluster)
    cluster.patience = 1.0  # seconds
    cluster.run()
    assert "failedRevision" not in cluster.rollout
    assert cluster.get("pods", pod)
    cluster.patience = 6.0
    cluster.look("one")
    cluster.run()
    assert why(cluster) == ENDED
    cluster.run_until("RolledBack")
    assert cluster.images == dict.fromkeys(NODES, V1)


def test_log_that_comes_later_completes_what_was_told() -> None:
    cluster = canary("Pause")
    eject_before_its_log_is_there(cluster)
    cluster.work()
    failed = cluster.rollout["failedRevision"]
    assert failed["message"] == ENDED
    ended = {"exitCode": 2, "startedAt": stamp(cluster.now - timedelta(seconds=9)), "finishedAt": stamp(cluster.now)}
    put_container(
        cluster,
        "n1",
        state={"waiting": {"reason": "CrashLoopBackOff"}},
        lastState={"terminated": ended | {"reason": "Error"}},
    )
    put_slot(cluster, "n1", state="disabled", lastDetach={"ops": "scx_rusty", "time": ended["finishedAt"]})
    cluster.logs[name_pod(cluster, "n1")] = STALL
    cluster.work()
    completed = f"{ENDED}: the kernel ejected it, {SAID}"
    assert cluster.rollout["failedRevision"] == failed | {"message": completed}
    cluster.remove("pods", name_pod(cluster, "n1"))
    cluster.work()
    assert why(cluster) == completed, "it never says less than before"


def test_log_that_cannot_be_read_keeps_nobody_waiting() -> None:
    cluster = canary()
    eject(cluster, "n1")
    cluster.logs[name_pod(cluster, "n1")] = refusal(403, "Forbidden")
    before = cluster.now
    cluster.run()
    assert why(cluster) == f"{ENDED}; its log could not be read: Forbidden"
    assert cluster.now - before < timedelta(minutes=1, seconds=5)


def test_quarantine_tells_what_the_kernel_said() -> None:
    cluster = canary("Pause", quarantine={"afterEjections": 1})
    eject_with_log(cluster)
    cluster.work()
    assert cluster.slots()["n1"] == "none"
    assert note_of(cluster, "n1")["reason"] == f"{ENDED}: the kernel ejected it, {SAID}"
    assert cluster.find_report("n1")["quarantine"]["reason"] == note_of(cluster, "n1")["reason"]
    assert why(cluster) == note_of(cluster, "n1")["reason"]


def test_quarantine_waits_for_the_log_and_not_for_long() -> None:
    cluster = canary("Pause", quarantine={"afterEjections": 1})
    pod = name_pod(cluster, "n1")
    eject_before_its_log_is_there(cluster)
    cluster.patience = 1.0
    cluster.run()
    assert cluster.slots()["n1"] != "none"
    assert cluster.get("pods", pod)
    cluster.patience = 6.0
    cluster.look("one")
    cluster.work()
    assert cluster.slots()["n1"] == "none"
    assert note_of(cluster, "n1")["reason"] == ENDED


def test_long_names_and_logs_fit_into_the_status() -> None:
    cluster = make_rolling()
    name = "n" * 250
    cluster.add_node(name, {"canary": "long"})
    cluster.add_agents(name)
    cluster.run_until("Complete")
    steps = [{"nodes": 1, "nodeSelector": {"canary": "long"}}, {"pause": {}}]
    cluster.ask(V2, steps=steps, failure={"action": "Pause"})
    cluster.run_until("Paused")
    eject_with_log(cluster, f"Error: {'x' * 9000}", name)
    ended = {"exitCode": 2, "reason": "Error", "startedAt": stamp(cluster.now - timedelta(seconds=9))}
    left = {"ops": "scx_rusty", "time": stamp(cluster.now), "enableSeq": 99, "reason": "y" * 500}
    put_slot(cluster, name, state="disabled", lastDetach=left)
    put_container(
        cluster,
        name,
        state={"waiting": {"reason": "CrashLoopBackOff"}},
        lastState={"terminated": ended | {"finishedAt": stamp(cluster.now)}},
    )
    cluster.logs[name_pod(cluster, name)] = f"Error: {'x' * 9000}"
    cluster.work()
    assert "xxx" in why(cluster)
    assert len(why(cluster)) <= 1024
    assert len(cluster.rollout["message"]) <= 1024
