"""What one resource's reconciliation writes, and what it leaves alone."""

from typing import Any

import pytest

from schedkit.sked.controller.reconciler import RETRY_SECONDS
from schedkit.sked.controller.workloads import ADOPT
from schedkit.sked.kube.errors import ApiError
from schedkit.sked.kube.objects import Key
from schedkit.sked.kube.workers import Result
from tests.described import make_described
from tests.unit.sked_controller.making import fill_defaults
from tests.unit.sked_controller.world import Json, World, foreign, refusal, running

ONE = Key("default", "one")
APPLY, FORCE = "apply daemonsets one", "apply daemonsets one force"
STATUS, DELETE = "apply schedexts/status one", "delete daemonsets one"
SMALL, LARGE = {"pool": "small"}, {"pool": "large"}


def container_of(world: World, name: str = "one") -> Json:
    found: Json = world.get("daemonsets", name)["spec"]["template"]["spec"]["containers"][0]
    return found


# --- the DaemonSet --------------------------------------------------------------------------------------------------


def test_scheduler_alone_is_applied_as_the_described_daemonset_and_then_told() -> None:
    world = World()
    world.add_node("node-1")
    world.apply_resource()
    assert world.run() == [APPLY, STATUS]
    assert world.bodies[0] == make_described(world.get("schedexts", "one"))
    assert world.condition("one", "Progressing") == ("True", "RollingOut")
    world.roll_out("one", desired=3, ready=2)
    assert world.run() == [STATUS]
    assert world.condition("one", "Ready") == ("False", "Progressing")
    world.roll_out("one")
    assert world.run() == [STATUS]
    assert world.condition("one", "Ready") == ("True", "Ready")
    assert world.get("schedexts", "one")["status"]["nodes"]["ready"] == 3
    assert world.events == [("one", "Normal", "RollingOut"), ("one", "Normal", "Ready")]


def test_where_no_node_is_selected_it_is_told_once() -> None:
    world = World()
    world.apply_resource()
    assert world.run() == [APPLY, STATUS]
    assert world.condition("one", "Ready") == ("True", "NoNodes")
    world.count("one")
    assert world.run() == []  # the DaemonSet controller has nothing to add
    assert world.events == [("one", "Normal", "NoNodes")]


def test_where_no_node_is_selected_any_more_the_last_pod_is_waited_for() -> None:
    world = World()
    world.apply_resource(nodeSelector={"pool": "a"})
    world.run()
    world.roll_out("one", desired=1, ready=1)
    world.run()
    world.apply_resource(nodeSelector={"pool": "b"})
    assert world.run() == [FORCE, STATUS]
    assert world.condition("one", "Progressing") == ("True", "RollingOut")
    (pod,) = world.names("pods")
    world.remove("pods", pod)
    assert world.run() == [STATUS]
    assert world.condition("one", "Ready") == ("True", "NoNodes")


def test_daemonset_of_the_go_operator_is_taken_over_without_a_write() -> None:
    world = World()
    world.apply_resource()
    made = make_described(world.get("schedexts", "one"))
    fill_defaults(made)
    world.put("daemonsets", made)
    world.roll_out("one")
    version = world.get("daemonsets", "one")["metadata"]["resourceVersion"]
    assert world.run() == [STATUS]
    assert world.condition("one", "Ready") == ("True", "Ready")
    assert world.get("daemonsets", "one")["metadata"]["resourceVersion"] == version


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"suspend": True},
        {"pools": [{"name": "a", "nodeSelector": SMALL}, {"name": "b", "nodeSelector": LARGE}]},
        {"args": ["-v"], "resources": {"limits": {"cpu": "1"}}, "nodeSelector": SMALL},
    ],
)
def test_unchanged_world_is_not_written_to_also_by_one_that_has_just_started(spec: dict[str, Any]) -> None:
    world = World()
    world.apply_resource(**spec)
    world.run()
    for name in world.names("daemonsets"):
        world.roll_out(name)
    world.run()
    world.change("schedexts", "one")
    for number in range(2):  # labels that no selector reads, and heartbeats
        for node in world.names("nodes"):
            found = world.get("nodes", node)
            labels = found["metadata"]["labels"] | {"unread": str(number)}
            world.change("nodes", node, metadata=found["metadata"] | {"labels": labels})
    assert world.run() == []
    again = World(world)
    assert again.run() == []
    assert again.results == {ONE: None}
    assert again.events == []


def test_changed_scheduler_is_applied_once_and_the_status_follows() -> None:
    world = running()
    world.apply_resource(sched="example.com/scx_rusty:2")
    assert world.run() == [FORCE, STATUS]
    assert container_of(world)["image"] == "example.com/scx_rusty:2"
    assert world.condition("one", "Ready") == ("False", "Progressing")
    world.roll_out("one")
    world.run()
    assert world.condition("one", "Ready") == ("True", "Ready")
    assert world.get("schedexts", "one")["status"]["image"] == "example.com/scx_rusty:2"
    assert world.get("schedexts", "one")["status"]["observedGeneration"] == 2


def test_what_is_no_longer_asked_for_is_no_longer_applied() -> None:
    world = running(args=["-v"], nodeSelector=SMALL)
    world.apply_resource()
    world.run()
    assert "args" not in container_of(world)
    assert "nodeSelector" not in world.get("daemonsets", "one")["spec"]["template"]["spec"]


def test_drift_is_put_back_and_what_others_own_is_left() -> None:
    world = running()
    theirs = world.get("daemonsets", "one")
    metadata = theirs["metadata"] | {"annotations": {"note": "theirs"}, "labels": {"team": "theirs"}}
    spec = make_described(world.get("schedexts", "one"))["spec"]
    spec["template"]["spec"]["containers"][0]["image"] = "example.com/evil:1"
    fill_defaults({"spec": spec})
    world.put("daemonsets", {"metadata": metadata, "spec": spec, "status": theirs["status"]})
    assert FORCE in world.run()
    assert container_of(world)["image"] == "example.com/scx_rusty:1"
    now = world.get("daemonsets", "one")["metadata"]
    assert now["annotations"] == {"note": "theirs"}
    assert now["labels"] == {"team": "theirs", "managed-by": "sked-controller"}


def test_difference_that_a_write_does_not_remove_is_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def rewrite(body: Json) -> None:
        fill_defaults(body)
        body["spec"]["template"]["spec"]["containers"][0]["args"] = ["--evil"]

    monkeypatch.setattr("tests.unit.sked_controller.world.fill_defaults", rewrite)
    world = World()
    world.apply_resource()  # and somebody adds arguments, which apply leaves to them
    assert world.run().count(APPLY) == 1
    world.roll_out("one")
    assert world.run() == [STATUS]
    assert world.condition("one", "Ready") == ("True", "Ready")
    assert world.condition("one", "Degraded") == ("True", "ModifiedByOthers")
    world.apply_resource(args=["-v"])
    assert world.run().count(FORCE) == 1, "a change is written all the same"


def test_pools_have_a_daemonset_each_and_that_of_a_removed_one_goes() -> None:
    small = {"name": "small", "nodeSelector": SMALL, "sched": "example.com/other:2"}
    large = {"name": "large", "nodeSelector": LARGE}
    world = World()
    world.apply_resource(pools=[large, small])
    world.run()
    assert world.names("daemonsets") == ["one-large", "one-small"]
    world.roll_out("one-large", 2, 2)
    world.roll_out("one-small", 1, 1)
    world.run()
    told = world.get("schedexts", "one")["status"]
    assert [(pool["name"], pool["nodes"]["ready"]) for pool in told["pools"]] == [("large", 2), ("small", 1)]
    assert (told["nodes"]["ready"], world.condition("one", "Ready")) == (3, ("True", "Ready"))

    world.apply_resource(pools=[large])
    done = world.run()
    assert done[0] == "delete daemonsets one-small"
    assert set(done[1:]) == {STATUS}
    assert world.names("daemonsets") == ["one-large"]


# --- suspended, and gone --------------------------------------------------------------------------------------------


def test_suspended_resource_has_no_daemonset_and_says_when_its_pods_have_gone() -> None:
    world = running()
    world.add_pod("one", "node-1", phase="Running")
    world.run()
    world.apply_resource(suspend=True)
    done = world.run()
    assert (done.count(DELETE), set(done)) == (1, {DELETE, STATUS})
    assert world.condition("one", "Ready") == ("False", "Suspending")
    assert world.condition("one", "Suspended") == ("True", "Asked")
    assert world.names("daemonsets") == []
    assert world.message("one", "Ready") == "3 pods are still on their nodes"
    world.remove("pods", "one-node-1")
    world.run()
    assert world.message("one", "Ready") == "2 pods are still on their nodes"
    for number in (2, 3):
        world.remove("pods", f"one-node-{number}")
    assert world.run() == [STATUS]
    assert world.condition("one", "Ready") == ("True", "Suspended")

    world.apply_resource()
    assert APPLY in world.run()
    world.roll_out("one")
    world.run()
    assert world.condition("one", "Ready") == ("True", "Ready")


def test_nothing_is_written_for_a_resource_that_is_going_or_gone() -> None:
    world = running()
    going = world.get("schedexts", "one")["metadata"] | {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    world.change("schedexts", "one", metadata=going)
    assert world.run() == []
    world.remove("schedexts", "one")
    assert world.run() == []


def test_resource_or_daemonset_that_is_gone_when_it_is_written_to_is_no_error() -> None:
    world = World()
    world.apply_resource()
    world.refusals = {STATUS: refusal(404, "NotFound")}
    world.run()
    assert world.results == {ONE: None}
    world = running()
    world.refusals = {DELETE: refusal(404, "NotFound")}
    world.apply_resource(suspend=True)
    world.run()
    assert world.condition("one", "Degraded") == ("False", "NoFailures")


# --- whose it is ----------------------------------------------------------------------------------------------------


def test_daemonset_of_somebody_else_is_left_alone_until_it_is_gone() -> None:
    world = World()
    world.put("daemonsets", foreign())
    world.apply_resource()
    assert world.run() == [STATUS]
    assert world.condition("one", "Degraded") == ("True", "ForeignDaemonSet")
    assert f"annotate it with {ADOPT}=true" in world.message("one", "Degraded")
    assert ("one", "Warning", "ForeignDaemonSet") in world.events
    assert world.results[ONE] == Result(after_seconds=RETRY_SECONDS)
    world.remove("daemonsets", "one")
    assert APPLY in world.run()
    assert world.condition("one", "Degraded") == ("False", "NoFailures")


def test_daemonset_that_is_handed_over_is_taken_by_force() -> None:
    world = World()
    uid = world.put("daemonsets", foreign(labels={"team": "theirs"}))["metadata"]["uid"]
    world.apply_resource()
    world.run()
    world.change(
        "daemonsets", "one", metadata=foreign(labels={"team": "theirs"}, annotations={ADOPT: "true"})["metadata"]
    )
    assert world.run()[0] == FORCE
    now = world.get("daemonsets", "one")["metadata"]
    assert (now["uid"], now["labels"]) == (uid, {"team": "theirs", "managed-by": "sked-controller"})
    assert container_of(world)["image"] == "example.com/scx_rusty:1"
    world.roll_out("one")
    world.run()
    assert world.condition("one", "Ready") == ("True", "Ready")


def test_daemonset_that_cannot_be_handed_over_says_why() -> None:
    world = World()
    world.put("daemonsets", foreign(annotations={ADOPT: "true"}))
    world.refusals = {FORCE: refusal(422, "Invalid", "spec.selector: field is immutable")}
    world.apply_resource()
    world.run()
    assert world.condition("one", "Degraded") == ("True", "Invalid")
    assert "field is immutable" in world.message("one", "Degraded")


def test_daemonset_with_an_owner_is_not_handed_over_by_an_annotation() -> None:
    owner = {"apiVersion": "v1", "kind": "Theirs", "name": "x", "uid": "theirs", "controller": True}
    world = World()
    world.put("daemonsets", foreign(annotations={ADOPT: "true"}, ownerReferences=[owner]))
    world.apply_resource()
    assert world.run() == [STATUS]
    assert "belongs to Theirs x" in world.message("one", "Degraded")


def test_daemonset_that_appears_unseen_is_not_overwritten() -> None:
    world = World()
    world.objects["daemonsets"][ONE] = foreign()  # and the watch has not told yet
    world.apply_resource()
    with pytest.raises(ApiError, match="409"):
        world.run()
    assert container_of(world)["image"] == "example.com/a:1"


def test_daemonset_of_a_namesake_is_waited_for_without_a_warning() -> None:
    world = running()
    world.remove("schedexts", "one")
    world.apply_resource(sched="example.com/scx_rusty:2")
    assert world.run() == [STATUS]
    assert world.condition("one", "Progressing") == ("True", "WaitingForNodes")
    world.remove("daemonsets", "one")
    assert APPLY not in world.run(), "its pods are still there"
    assert world.condition("one", "Progressing") == ("True", "WaitingForNodes")
    for number in (1, 2, 3):
        world.remove("pods", f"one-node-{number}")
    assert world.run()[0] == APPLY
    assert container_of(world)["image"] == "example.com/scx_rusty:2"
    assert not [event for event in world.events if event[1] == "Warning"]
