"""Nodes whose kernels keep ejecting a scheduler: left without one, told, and lifted."""

import json
from datetime import timedelta
from typing import Any

import pytest

from schedkit.sked.api.rules import LONGEST_REVISION
from schedkit.sked.controller.reports import Ejections
from tests.unit.sked_controller.test_kernels import NODES, RUSTY, Kernels, attached, make_kernels, stamp
from tests.unit.sked_controller.world import refusal

ASKED = {"afterEjections": 2, "within": "10m"}
HOURS = {"afterEjections": 2, "within": "10h"}
QUARANTINE = "sked.schedkit.io/quarantine"


def eject(cluster: Kernels, node: str, times: int, *, seen: bool = True) -> None:
    """Have a node's kernel eject the scheduler, and its container start again, so many times; the operator sees it."""
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
        if seen:
            cluster.work()


def note_of(cluster: Kernels, node: str) -> dict[str, Any]:
    text = cluster.get("nodes", node)["metadata"].get("annotations", {}).get(QUARANTINE, "")
    found: dict[str, Any] = json.loads(text) if text else {}
    return found


def lift(cluster: Kernels) -> None:
    """What `kubectl annotate node n2 sked.schedkit.io/quarantine-` does."""
    node = cluster.get("nodes", "n2")
    cluster.change("nodes", "n2", metadata=node["metadata"] | {"annotations": {"sked.schedkit.io/slot": "none"}})
    cluster.work()


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
    lift(cluster)
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


def test_it_ends_where_a_person_reserved_the_node_and_the_reservation_stays() -> None:
    cluster = quarantined(**{"for": "1h"})
    cluster.label("n2", slot="maintenance")
    cluster.work()
    assert note_of(cluster, "n2")
    cluster.now += timedelta(minutes=61)
    cluster.look_at_node("n2")
    cluster.work()
    assert note_of(cluster, "n2") == {}
    assert cluster.slots() == {"n2": "maintenance"}
    cluster.look_at_node("n2")
    assert not cluster.work()
    cluster.label("n2", slot=None)
    cluster.work()
    assert cluster.on("n2") == ["one"]


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


def test_operator_that_starts_again_goes_on_counting() -> None:
    cluster = attached(quarantine={"afterEjections": 3})
    eject(cluster, "n2", 2)
    counted = cluster.find_report("n2")["ejections"]
    assert (counted["schedExt"], len(counted["times"])) == ("default/one", 2)
    cluster = Kernels(cluster)
    cluster.work()
    assert cluster.find_report("n2")["ejections"] == counted, "what was counted is not counted again"
    eject(cluster, "n2", 1)
    assert cluster.slots() == {"n2": "none"}


def test_ejection_while_no_operator_ran_counts() -> None:
    cluster = attached(quarantine=ASKED)
    eject(cluster, "n2", 1)
    eject(cluster, "n2", 1, seen=False)
    cluster = Kernels(cluster)
    cluster.work()
    assert cluster.slots() == {"n2": "none"}


def test_after_a_quarantine_counting_starts_from_zero() -> None:
    cluster = quarantined()
    assert "times" not in cluster.find_report("n2")["ejections"]
    lift(cluster)
    eject(cluster, "n2", 1)
    assert cluster.slots() == {}
    assert len(cluster.find_report("n2")["ejections"]["times"]) == 1


def test_another_revision_is_counted_from_zero() -> None:
    cluster = attached(quarantine=ASKED)
    eject(cluster, "n2", 1)
    cluster.apply_resource("one", quarantine=ASKED, sched="example.com/scx_rusty:2")
    cluster.work()
    eject(cluster, "n2", 1)
    assert cluster.slots() == {}
    assert len(cluster.find_report("n2")["ejections"]["times"]) == 1


def test_what_was_counted_is_dropped_with_the_wish_to_count() -> None:
    cluster = attached(quarantine={"afterEjections": 3})
    eject(cluster, "n2", 2)
    cluster.apply_resource("one")
    cluster.work()
    assert "ejections" not in cluster.find_report("n2")
    cluster.apply_resource("one", quarantine={"afterEjections": 3})
    cluster.work()
    assert len(cluster.find_report("n2")["ejections"]["times"]) == 1, "only what can still be seen counts"


@pytest.mark.parametrize("seen", [True, False])
def test_resource_of_the_same_name_inherits_no_count(seen: bool) -> None:
    cluster = attached(quarantine=HOURS)
    eject(cluster, "n2", 1)
    cluster.now += timedelta(seconds=5)
    if seen:
        cluster.remove("schedexts", "one")
    else:  # while no operator ran
        cluster.objects["schedexts"].clear()
    cluster.apply_resource("one", quarantine=HOURS)
    cluster = cluster if seen else Kernels(cluster)
    cluster.work()
    cluster.attach("one", *NODES)
    cluster.work()
    eject(cluster, "n2", 1)
    assert cluster.slots() == {}
    assert len(cluster.find_report("n2")["ejections"]["times"]) == 1


def test_clock_that_was_a_day_ahead_does_not_make_ejections_count_forever() -> None:
    cluster = attached(quarantine=ASKED)
    eject(cluster, "n2", 1)
    revision, ahead = cluster.find_report("n2")["ejections"]["revision"], stamp(cluster.now + timedelta(days=1))
    cluster.known.ejections._counted["n2"] = Ejections("default/one", revision, ahead, (ahead,))
    eject(cluster, "n2", 1)
    assert cluster.slots() == {}


def test_killed_after_the_annotation_and_before_the_report_counting_starts_from_zero() -> None:
    cluster = attached(quarantine=HOURS)
    eject(cluster, "n2", 1)
    cluster.refusals["apply schedextnodes/status"] = refusal(403, "Forbidden")
    eject(cluster, "n2", 1)
    assert cluster.slots() == {"n2": "none"}
    cluster = Kernels(cluster)
    cluster.work()
    assert "times" not in cluster.find_report("n2")["ejections"]
    lift(cluster)
    eject(cluster, "n2", 1)
    assert cluster.slots() == {}


def change_spec(**changes: Any) -> Kernels:
    """A cluster whose pods are all of the spec before, as nobody has deleted them."""
    on_delete = {"updateStrategy": {"type": "OnDelete"}}
    cluster = attached(quarantine=HOURS, **on_delete)
    cluster.apply_resource("one", quarantine=HOURS, **on_delete, **changes)
    cluster.work()
    return cluster


def name_asked(cluster: Kernels) -> str:
    """What is asked for by now, as the name of a revision."""
    (claim,) = cluster.known.placement.on("n2")
    return cluster.known.workloads.name_work(claim)


OTHER_SPECS: dict[str, dict[str, Any]] = {
    "image": {"sched": "example.com/scx_rusty:2"},
    "arguments": {"args": ["--slice-us", "5000"]},
    "environment": {"env": [{"name": "RUST_LOG", "value": "debug"}]},
    "resources": {"resources": {"limits": {"memory": "1Gi"}}},
}


@pytest.mark.parametrize("changes", OTHER_SPECS.values(), ids=OTHER_SPECS)
def test_ejection_of_a_pod_of_the_old_spec_does_not_count_for_the_new_one(changes: dict[str, Any]) -> None:
    cluster = change_spec(**changes)
    eject(cluster, "n2", 2)
    counted = cluster.find_report("n2")["ejections"]["revision"]
    assert counted.startswith("one-")
    assert counted != name_asked(cluster)
    assert cluster.slots() == {}, "the new one was never ejected"


def test_ejection_of_a_pod_of_the_old_spec_does_not_count_where_its_image_cannot_be_pulled_again() -> None:
    cluster = change_spec(**OTHER_SPECS["arguments"])
    eject(cluster, "n2", 1, seen=False)
    pod = cluster.get("pods", "one-n2")
    (container,) = pod["status"]["containerStatuses"]
    waits = {"state": {"waiting": {"reason": "ImagePullBackOff"}}}
    cluster.change("pods", "one-n2", status=pod["status"] | {"containerStatuses": [container | waits]})
    cluster.work()
    assert cluster.find_report("n2")["ejections"]["revision"] != name_asked(cluster)


def test_ejection_counts_for_a_spec_that_differs_only_in_where_it_runs() -> None:
    cluster = change_spec(tolerations=[{"operator": "Exists"}])
    eject(cluster, "n2", 2)
    assert cluster.find_report("n2")["ejections"]["revision"] == name_asked(cluster)
    assert cluster.slots() == {"n2": "none"}


@pytest.mark.parametrize("status", [(403, "Forbidden"), (404, "NotFound")])
def test_ejection_counts_where_it_cannot_be_read_what_its_pod_was_made_of(status: tuple[int, str]) -> None:
    cluster = attached(quarantine=HOURS)
    cluster.refusals["fetch controllerrevisions"] = refusal(*status)
    eject(cluster, "n2", 2)
    assert cluster.slots() == {"n2": "none"}


def test_ejection_does_not_count_before_it_is_known_what_its_pod_was_made_of() -> None:
    cluster = attached(quarantine=HOURS)
    cluster.refusals["fetch controllerrevisions"] = refusal(503, "Unavailable")
    eject(cluster, "n2", 1)
    assert "ejections" not in cluster.find_report("n2")
    cluster.refusals.clear()
    cluster = Kernels(cluster)
    cluster.work()
    assert len(cluster.find_report("n2")["ejections"]["times"]) == 1


def test_revision_of_a_resource_with_the_longest_name_fits_into_the_report() -> None:
    cluster = make_kernels()
    cluster.apply_resource("a" * 63)
    (claim,) = (found for found in cluster.known.placement.on("n1") if found.name != "one")
    assert len(cluster.known.workloads.name_work(claim)) == LONGEST_REVISION


def test_two_operators_do_not_overwrite_what_the_other_one_counted() -> None:
    cluster = Kernels(namespaces=("default",))
    for name in NODES:
        cluster.add_node(name)
    cluster.add_agents(*NODES)
    cluster.report(*NODES)
    cluster.apply_resource("one", quarantine=HOURS)
    cluster.work()
    cluster.attach("one", *NODES)
    cluster.work()
    eject(cluster, "n2", 1)
    assert cluster.find_report("n2")["ejections"]["schedExt"] == "default/one"
    cluster.apply_resource("one", quarantine=HOURS, nodeSelector={"kubernetes.io/hostname": "n1"})
    spec = {"sched": "example.com/scx_rusty:1", "quarantine": HOURS, "nodeSelector": {"kubernetes.io/hostname": "n2"}}
    cluster.put("schedexts", {"metadata": {"name": "theirs", "namespace": "other"}, "spec": spec})
    cluster.work()
    time = stamp(cluster.now)
    theirs = {"schedExt": "other/theirs", "revision": "theirs-0123456789", "last": time, "times": [time]}
    status = cluster.find_report("n2") | {"schedExt": "other/theirs", "ejections": theirs}
    cluster.put("schedextnodes", {"metadata": {"name": "n2"}, "status": status})
    assert not [write for write in cluster.work() if "schedextnodes" in write]
    assert cluster.find_report("n2")["ejections"] == theirs


def test_ejections_that_are_not_counted_are_not_written() -> None:
    cluster = attached()
    eject(cluster, "n2", 2)
    assert "ejections" not in cluster.find_report("n2")


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
