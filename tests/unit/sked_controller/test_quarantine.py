"""Nodes whose kernels keep ejecting a scheduler: left without one, told, and lifted."""

import json
from datetime import timedelta
from typing import Any

from tests.unit.sked_controller.test_kernels import NODES, RUSTY, Kernels, attached, stamp

ASKED = {"afterEjections": 2, "within": "10m"}
QUARANTINE = "sked.schedkit.io/quarantine"


def eject(cluster: Kernels, node: str, times: int) -> None:
    """Have a node's kernel eject the scheduler, and its container start again, so many times."""
    for _ in range(times):
        cluster.now += timedelta(seconds=10)
        pod = cluster.get("pods", f"one-{node}") if f"one-{node}" in cluster.names("pods") else None
        if pod is None:
            return
        began, ended = cluster.now - timedelta(seconds=9), cluster.now - timedelta(seconds=1)
        done = {"exitCode": 2, "reason": "Error", "startedAt": stamp(began), "finishedAt": stamp(ended)}
        found = {
            "name": "scx",
            "imageID": "example.com/scx_rusty@sha256:aa",
            "restartCount": 1,
            "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        }
        cluster.logs[f"one-{node}"] = ""
        cluster.change(
            "pods",
            f"one-{node}",
            status=pod["status"] | {"containerStatuses": [found | {"lastState": {"terminated": done}}]},
        )
        seq = cluster.find_report(node)["slot"]["enableSeq"] + 1
        status = cluster.find_report(node) | {
            "slot": {"state": "disabled", "enableSeq": seq},
            "lastDetach": {"ops": RUSTY, "time": stamp(ended), "enableSeq": seq},
        }
        cluster.put("schedextnodes", {"metadata": {"name": node}, "status": status})
        cluster.work()


def note_of(cluster: Kernels, node: str) -> dict[str, Any]:
    text = cluster.get("nodes", node)["metadata"].get("annotations", {}).get(QUARANTINE, "")
    found: dict[str, Any] = json.loads(text) if text else {}
    return found


def quarantined(**asked: Any) -> Kernels:
    cluster = attached(quarantine=ASKED | asked)
    cluster.work()
    eject(cluster, "n2", 2)
    return cluster


def test_node_that_ejects_too_often_is_left_without_a_scheduler_and_nobody_else_is_touched() -> None:
    cluster = attached(quarantine=ASKED)
    before = cluster.uids("one")
    eject(cluster, "n2", 1)
    assert cluster.slots() == {}
    eject(cluster, "n2", 1)
    assert cluster.slots() == {"n2": "none"}
    assert cluster.on("n2") == []
    assert {node: uid for node, uid in before.items() if node != "n2"} == cluster.uids("one")
    note = note_of(cluster, "n2")
    assert note["schedExt"] == "default/one"
    assert note["reason"].startswith("it was attached and left the kernel")
    assert cluster.find_report("n2")["quarantine"] == note
    assert cluster.get("schedexts", "one")["status"]["nodes"]["quarantined"] == 1
    assert cluster.condition("one", "Degraded") == ("True", "Quarantined")
    assert not cluster.work(), "a quarantine is written once"


def test_ejections_that_are_long_past_do_not_count() -> None:
    cluster = attached(quarantine=ASKED)
    eject(cluster, "n2", 1)
    cluster.now += timedelta(minutes=11)
    eject(cluster, "n2", 1)
    assert cluster.slots() == {}


def test_without_being_asked_for_nothing_is_put_in_quarantine() -> None:
    cluster = attached()
    eject(cluster, "n2", 5)
    assert cluster.slots() == {}


def test_person_lifts_it_by_taking_the_annotation_away() -> None:
    cluster = quarantined()
    node = cluster.get("nodes", "n2")
    cluster.change("nodes", "n2", metadata=node["metadata"] | {"annotations": {"sked.schedkit.io/slot": "none"}})
    cluster.work()
    assert cluster.slots() == {}
    assert cluster.on("n2") == ["one"]
    assert "quarantine" not in cluster.find_report("n2")


def test_it_ends_when_its_time_has_run_out() -> None:
    cluster = quarantined(**{"for": "1h"})
    assert note_of(cluster, "n2")["until"]
    cluster.now += timedelta(minutes=30)
    cluster.look_at_node("n2")
    cluster.work()
    assert cluster.slots() == {"n2": "none"}
    cluster.now += timedelta(minutes=31)
    cluster.look_at_node("n2")
    cluster.work()
    assert cluster.slots() == {}
    assert note_of(cluster, "n2") == {}


def test_new_revision_ends_it_and_another_priority_does_not() -> None:
    cluster = quarantined()
    cluster.apply_resource("one", quarantine=ASKED, priority=-1)
    cluster.work()
    assert cluster.slots() == {"n2": "none"}
    cluster.apply_resource("one", quarantine=ASKED, sched="example.com/scx_rusty:2")
    cluster.work()
    assert cluster.slots() == {}
    assert cluster.on("n2") == ["one"]


def test_operator_that_starts_again_keeps_it() -> None:
    cluster = Kernels(quarantined())
    cluster.work()
    assert cluster.slots() == {"n2": "none"}
    assert cluster.get("schedexts", "one")["status"]["nodes"]["quarantined"] == 1


def test_another_resource_may_have_the_node() -> None:
    cluster = quarantined()
    cluster.apply_resource("two", nodeSelector={"kubernetes.io/hostname": "n2"}, priority=-5)
    cluster.work()
    assert cluster.on("n2") == ["two"]


def test_what_cannot_be_understood_keeps_nothing_off() -> None:
    cluster = attached(quarantine=ASKED)
    node = cluster.get("nodes", "n2")
    cluster.change("nodes", "n2", metadata=node["metadata"] | {"annotations": {QUARANTINE: "{"}})
    cluster.work()
    assert cluster.on("n2") == ["one"]
    assert sorted(cluster.uids("one")) == NODES
