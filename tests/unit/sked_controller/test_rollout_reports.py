"""Rollouts whose agents tell late what the kernel has: what has to leave is not taken for somebody else's."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from schedkit.sked.controller.attachment import Judgement, NodeState
from schedkit.sked.controller.objects import Pod
from schedkit.sked.controller.rollout_memory import Seen, find_leaving_end, remember_left
from tests.unit.sked_controller.test_kernels import stamp
from tests.unit.sked_controller.test_rollouts import NODES, V1, V2, Rolling, make_rolling

TIMEOUT = 3600  # minutes pass at each turn of the cluster


def begin(late: str) -> Rolling:
    """A node has been given the next revision, and its agent still tells of the one before."""
    cluster = make_rolling()
    cluster.late = (late,)
    cluster.ask(V2, maxUnavailable=1, attachTimeoutSeconds=TIMEOUT)
    cluster.work()
    assert cluster.images == dict.fromkeys(NODES, V1) | {late: V2}
    return cluster


def turn(cluster: Rolling, count: int = 4) -> None:
    for _ in range(count):
        cluster.now += timedelta(seconds=7)
        cluster.look("one")
        cluster.work()


@pytest.mark.parametrize("restarts", [False, True])
def test_node_whose_old_scheduler_has_yet_to_leave_counts_as_being_without_one(restarts: bool) -> None:
    cluster = begin("n1")
    for _ in range(3):
        if restarts:
            cluster = Rolling(cluster)
            cluster.late = ("n1",)
        turn(cluster)
        assert cluster.images == dict.fromkeys(NODES, V1) | {"n1": V2}
    cluster.late = ()
    cluster.run_until("Complete")
    assert cluster.images == dict.fromkeys(NODES, V2)
    assert cluster.most_idle == 1


@pytest.mark.parametrize("restarts", [False, True])
def test_node_whose_old_scheduler_does_not_leave_in_time_is_left_out(restarts: bool) -> None:
    cluster = begin("n1")
    if restarts:
        cluster = Rolling(cluster)
        cluster.late = ("n1",)
    cluster.now += timedelta(seconds=TIMEOUT)
    turn(cluster)
    assert cluster.images["n2"] == V2


def test_who_attaches_after_the_pod_could_start_is_somebody_else() -> None:
    """An operator that has just started does not wait for such a one to leave."""
    cluster = begin("n1")
    cluster.now += timedelta(seconds=60)
    slot = cluster.find_report("n1")["slot"]
    slot |= {"ops": "somebodys", "since": stamp(cluster.now), "enableSeq": slot["enableSeq"] + 1}
    cluster.change("schedextnodes", "n1", status=cluster.find_report("n1") | {"slot": slot})
    cluster = Rolling(cluster)
    cluster.late = ("n1",)
    turn(cluster)
    assert cluster.images["n2"] == V2


def test_node_that_joins_with_somebody_elses_scheduler_keeps_nobody_from_moving() -> None:
    """It was attached before there was a pod, and the operator knows that nothing of its own has to leave."""
    cluster = make_rolling()
    cluster.late = ("n5",)
    cluster.add_node("n5")
    cluster.add_agents("n5")
    slot = {"state": "enabled", "ops": "somebodys", "enableSeq": 1, "since": stamp(cluster.now - timedelta(hours=1))}
    kernel = {"bootID": "boot-of-n5", "supported": "True"}
    cluster.put("schedextnodes", {"metadata": {"name": "n5"}, "status": {"kernel": kernel, "slot": slot}})
    turn(cluster)
    cluster.ask(V2, maxUnavailable=1, attachTimeoutSeconds=TIMEOUT)
    cluster.run_until("Complete")
    assert {node: cluster.images[node] for node in NODES} == dict.fromkeys(NODES, V2)


def test_node_whose_clock_is_behind_counts_for_as_long_as_any_other_after_a_restart() -> None:
    """Its kubelet tells that the pod stopped waiting hours before the API server says that it was made."""
    now = datetime(2026, 1, 1, 12, tzinfo=UTC)
    behind = stamp(now - timedelta(hours=2))
    made = {"name": "new", "creationTimestamp": stamp(now - timedelta(seconds=5))}
    done = {"type": "Initialized", "status": "True", "lastTransitionTime": behind}
    pod = msgspec.convert({"metadata": made, "status": {"conditions": [done]}}, Pod)
    judgement = Judgement(NodeState.FOREIGN, since=behind, episode="boot 4 old")
    seen = remember_left(None, Seen("new", now), pod, judgement, now, is_first=True)
    assert find_leaving_end(seen, judgement, timedelta(seconds=120)) == now + timedelta(seconds=115)
