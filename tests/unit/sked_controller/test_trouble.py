"""What a reconciliation tells of refusals, of schedulers that fail, and of what cannot be known."""

import pytest

from schedkit.sked.controller.reconciler import RETRY_SECONDS
from schedkit.sked.kube.errors import ApiError
from schedkit.sked.kube.lease import LeadershipLostError
from schedkit.sked.kube.objects import Key
from schedkit.sked.kube.workers import Result
from tests.unit.sked_controller.making import require
from tests.unit.sked_controller.world import Json, World, foreign, refusal, running

ONE = Key("default", "one")
APPLY, FORCE = "apply daemonsets one", "apply daemonsets one force"
STATUS, DELETE = "apply schedexts/status one", "delete daemonsets one"
SMALL, LARGE = {"pool": "small"}, {"pool": "large"}
CRASHED: Json = {
    "name": "scx",
    "restartCount": 3,
    "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}},
    "lastState": {"terminated": {"exitCode": 1, "reason": "Error"}},
}


# --- refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (refusal(403, "Forbidden"), "Forbidden"),
        (refusal(422, "Invalid"), "Invalid"),
        (refusal(400, "BadRequest"), "ApiServerRefused"),
        (refusal(500, "", "failed to create typed patch object (default/one)"), "ApiServerRefused"),
    ],
)
def test_refused_write_is_a_condition_and_not_a_loop(error: ApiError, reason: str) -> None:
    world = World()
    world.refusals = {"apply daemonsets": error}
    world.apply_resource()
    done = world.run()
    assert done.count(APPLY) == 2, "when it comes and when its status has been written, and then left for a while"
    assert done.count(STATUS) == 1
    assert world.condition("one", "Degraded") == ("True", reason)
    assert world.condition("one", "Ready") == ("False", reason)
    assert world.events.count(("one", "Warning", reason)) == 1
    assert world.results[ONE] == Result(after_seconds=RETRY_SECONDS)
    world.refusals = {}
    world.change("schedexts", "one")  # its turn comes again
    again = World(world)
    assert again.run()[0] == APPLY
    assert again.condition("one", "Degraded") == ("False", "NoFailures")


def test_refused_delete_is_a_condition() -> None:
    world = running()
    world.refusals = {DELETE: refusal(403, "Forbidden")}
    world.apply_resource(suspend=True)
    world.run()
    assert world.condition("one", "Degraded") == ("True", "Forbidden")
    assert world.condition("one", "Ready") == ("False", "Forbidden")


@pytest.mark.parametrize(
    ("code", "reason"),
    [(409, "Conflict"), (429, "TooManyRequests"), (503, "ServiceUnavailable"), (500, "InternalError")],
)
def test_what_trying_again_may_fix_is_left_to_the_queue(code: int, reason: str) -> None:
    world = World()
    world.refusals = {APPLY: refusal(code, reason)}
    world.apply_resource()
    with pytest.raises(ApiError):
        world.run()
    assert "status" not in world.get("schedexts", "one")


# --- failures -------------------------------------------------------------------------------------------------------


def test_crash_is_told_with_its_node_and_what_the_log_says() -> None:
    world = running()
    world.logs = {"one-node-1": "attached\nerror: the verifier said no\n"}
    world.add_pod("one", "node-1", phase="Running", containerStatuses=[CRASHED])
    world.add_pod("one", "node-2", phase="Running", containerStatuses=[{"name": "scx", "ready": True}])
    world.run()
    (failure,) = world.get("schedexts", "one")["status"]["failures"]
    assert failure == {
        "node": "node-1",
        "pod": "one-node-1",
        "reason": "CrashLooping",
        "message": "the scheduler ended with status 1: error: the verifier said no",
    }
    assert world.condition("one", "Degraded") == ("True", "CrashLooping")
    assert world.condition("one", "Ready") == ("False", "CrashLooping")
    assert World(world).run() == [], "one that starts again says the same"


@pytest.mark.parametrize(
    ("error", "why"),
    [(refusal(500, "InternalError"), "NoAnswer"), (refusal(403, "Forbidden"), "Forbidden")],
)
def test_log_that_cannot_be_read_is_said_to_be_unread_once(error: ApiError, why: str) -> None:
    world = running()
    world.logs = {f"one-node-{number}": error for number in (1, 2)}
    for number in (1, 2):
        world.add_pod("one", f"node-{number}", phase="Running", containerStatuses=[CRASHED])
    world.run()
    told = world.get("schedexts", "one")["status"]
    expected = f"the scheduler ended with status 1; its log could not be read: {why}"
    assert [failure["message"] for failure in told["failures"]] == [expected] * 2
    again = World(world)
    again.logs = world.logs
    assert again.run() == []


def test_pod_that_no_node_has_room_for_is_a_failure_of_its_node() -> None:
    world = running()
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    world.add_pod("one", "node-1")
    unplaced = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "Insufficient cpu"}
    world.change(
        "pods",
        "one-node-1",
        spec={"affinity": {"nodeAffinity": required}},
        status={"phase": "Pending", "conditions": [unplaced]},
    )
    world.run()
    (failure,) = world.get("schedexts", "one")["status"]["failures"]
    assert (failure["node"], failure["message"]) == ("node-1", "Insufficient cpu")
    assert world.condition("one", "Ready") == ("False", "Unschedulable")


def test_failure_is_over_when_the_pod_runs_or_is_going() -> None:
    world = running()
    world.logs = {"one-node-1": ""}
    world.add_pod("one", "node-1", phase="Running", containerStatuses=[CRASHED])
    world.run()
    assert world.condition("one", "Degraded") == ("True", "CrashLooping")
    going = world.get("pods", "one-node-1")["metadata"] | {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    world.change("pods", "one-node-1", metadata=going)
    world.run()
    assert world.condition("one", "Degraded") == ("False", "NoFailures")


# --- what is not known ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("plural", ["daemonsets", "pods", "nodes"])
def test_what_may_not_be_looked_at_is_told_and_nothing_is_touched(plural: str) -> None:
    blind = World(running(nodeSelector=LARGE))
    blind.run()
    assert blind.metric("sked_ready") == ['sked_ready{namespace="default",name="one"} 1']
    (stream,) = blind.informers[plural]._streams
    stream.denied = f"watch {plural}: you may not (403)"
    blind.informers[plural].sync_changed()
    blind.apply_resource("one", nodeSelector=LARGE, suspend=True)
    blind.apply_resource("two", nodeSelector=SMALL)
    assert set(blind.run()) == {STATUS, "apply schedexts/status two"}
    for name in ("one", "two"):
        assert blind.condition(name, "Ready") == ("Unknown", "Forbidden")
        assert blind.condition(name, "Degraded") == ("True", "Forbidden")
        assert "you may not" in blind.message(name, "Degraded")
        assert "nodes" not in blind.get("schedexts", name)["status"]
    assert blind.run() == []
    assert blind.metric("sked_ready") == [], "it is not known"
    assert blind.events.count(("two", "Warning", "Forbidden")) == 1

    stream.denied = ""
    blind.informers[plural].sync_changed()
    assert {"apply daemonsets two", DELETE} <= set(blind.run())


def test_before_everything_is_seen_nothing_is_written() -> None:
    world = World()
    (stream,) = world.informers["pods"]._streams
    stream.synced.clear()
    world.informers["pods"].sync_changed()
    world.apply_resource()
    assert world.run() == []
    stream.synced.set()
    world.informers["pods"].sync_changed()
    assert world.run() == [APPLY, STATUS]


def test_resource_that_is_not_understood_says_so_and_keeps_its_daemonset() -> None:
    world = running()
    version = world.get("daemonsets", "one")["metadata"]["resourceVersion"]
    world.apply_resource(sched="example.com/scx_rusty:2", priority="high")
    assert world.run() == ["patch schedexts/status one"]
    assert world.condition("one", "Degraded") == ("True", "Unreadable")
    assert world.condition("one", "Ready") == ("False", "Unreadable")
    assert world.metric("sked_ready") == ['sked_ready{namespace="default",name="one"} 0']
    assert "at `priority`" in world.message("one", "Degraded")
    assert world.events.count(("one", "Warning", "Unreadable")) == 1
    assert world.get("daemonsets", "one")["metadata"]["resourceVersion"] == version
    spec = foreign()["spec"]
    world.change("daemonsets", "one", spec=spec)
    assert world.run() == [], "what it should be is not known"
    again = World(world)
    assert again.run() == [], "nor to one that has never seen the older form"
    assert again.get("daemonsets", "one")["spec"] == spec

    again.apply_resource(sched="example.com/scx_rusty:2", priority=5)
    assert FORCE in again.run()
    assert again.condition("one", "Degraded") == ("False", "NoFailures")


@pytest.mark.parametrize("scribble", [{"nodes": "three"}, {"conditions": "fine"}, {"failures": [{"node": 3}]}])
def test_status_that_is_not_understood_is_replaced(scribble: Json) -> None:
    world = running()
    good = world.get("schedexts", "one")["status"]
    version = world.get("daemonsets", "one")["metadata"]["resourceVersion"]
    world.change("schedexts", "one", status=scribble)
    assert world.run() == ["patch schedexts/status one", STATUS]
    told = world.get("schedexts", "one")["status"]
    for status in (told, good):
        status["conditions"] = [found | {"lastTransitionTime": ""} for found in status["conditions"]]
    assert told == good
    assert world.get("daemonsets", "one")["metadata"]["resourceVersion"] == version


def test_invalid_selector_is_told_and_does_not_stop_others() -> None:
    world = World()
    world.apply_resource("odd", affinity=require(("odd", "Gt", ["many"])))
    world.apply_resource("one")
    assert APPLY in world.run()
    assert world.names("daemonsets") == ["one"]
    assert world.condition("odd", "Degraded") == ("True", "InvalidSelector")
    assert world.results[Key("default", "odd")] == Result(after_seconds=RETRY_SECONDS)


@pytest.mark.parametrize("spec", [{"sched": "example.com/scx_rusty:2"}, {"suspend": True}, {"priority": "high"}])
def test_process_whose_lease_ran_out_writes_nothing(spec: Json) -> None:
    world = running()
    world.leads = False
    world.apply_resource(**spec)
    with pytest.raises(LeadershipLostError):
        world.run()
    assert world.writes == []
