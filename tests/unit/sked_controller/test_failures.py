"""Pods that do not run, in words that stay the same."""

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from schedkit.sked.controller.failures import (
    Crash,
    find_crash,
    find_failures,
    has_trouble,
    is_overdue,
    read_node,
    steady_in,
)
from schedkit.sked.controller.objects import Pod
from schedkit.sked.kube.objects import Key
from tests.unit.sked_controller.making import CREATED, make_pod

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FAULT = 'failed to pull and unpack image "example.com/a:1": not found'
BACK_OFF = f'Back-off pulling image "example.com/a:1": ErrImagePull: {FAULT}'


def describe(*containers: dict[str, Any], **status: Any) -> tuple[str, str] | None:
    """Reason and message of a pod with these container statuses."""
    found = find_failures([make_pod(containerStatuses=list(containers), **status)], NOW)
    return (found[0].reason, found[0].message) if found else None


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    return {"state": {"waiting": {"reason": reason, "message": message}}}


def test_pull_error_and_its_back_off_are_one_failure() -> None:
    assert describe(waiting("ErrImagePull", FAULT)) == ("PullFailed", FAULT)
    assert describe(waiting("ImagePullBackOff", BACK_OFF)) == ("PullFailed", FAULT)


@pytest.mark.parametrize("reason", ["InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable"])
def test_other_ways_of_not_getting_an_image_are_the_same_reason(reason: str) -> None:
    assert describe(waiting(reason)) == ("PullFailed", reason)


@pytest.mark.parametrize(
    ("ended", "told"),
    [
        ({"exitCode": 1, "reason": "Error"}, "the scheduler ended with status 1"),
        ({"exitCode": 16, "reason": "Error", "message": "EBUSY\n"}, "the scheduler ended with status 16: EBUSY"),
        ({"exitCode": 137, "signal": 9, "reason": "OOMKilled"}, "the scheduler ended with signal 9: OOMKilled"),
        ({"exitCode": 0, "reason": "Completed"}, "the scheduler ended with status 0"),
    ],
)
def test_crash_loop_tells_how_the_scheduler_ended_whether_it_waits_or_has_just_ended(
    ended: dict[str, Any], told: str
) -> None:
    looping = waiting("CrashLoopBackOff", "back-off 40s") | {"lastState": {"terminated": ended}}
    assert describe(looping) == ("CrashLooping", told)
    assert describe({"state": {"terminated": ended}}) == ("CrashLooping", told)


@pytest.mark.parametrize("reason", ["Unknown", "ContainerStatusUnknown"])
def test_what_a_reboot_took_along_is_no_crash(reason: str) -> None:
    lost = {"terminated": {"exitCode": 255, "reason": reason}}
    running = {"running": {"startedAt": (NOW - timedelta(seconds=5)).isoformat()}}
    assert describe({"state": lost}) is None
    assert describe({"state": running, "lastState": lost}) is None
    pod = make_pod(containerStatuses=[{"state": running, "lastState": lost}])
    assert (find_crash(pod), steady_in(pod, NOW)) == (None, None)


def test_log_is_of_use_where_a_scheduler_waits_for_its_restart_and_nobody_knows_why() -> None:
    def find(status: dict[str, Any]) -> Crash | None:
        return find_crash(make_pod(containerStatuses=[{"name": "scx", "restartCount": 3} | status]))

    ended: dict[str, Any] = {"terminated": {"exitCode": 1, "reason": "Error"}}
    known: dict[str, Any] = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
    looping = waiting("CrashLoopBackOff")
    assert find(looping | {"lastState": ended}) == Crash(Key("default", "pod"), "", "scx", 3)
    assert find(looping) == Crash(Key("default", "pod"), "", "scx", 3)
    assert find(looping | {"lastState": known}) is None
    assert find({"state": ended}) is None
    again = {"state": {"running": {"startedAt": CREATED}}, "restartCount": 4}
    assert find(again | {"lastState": ended}) == Crash(Key("default", "pod"), "", "scx", 3), "the same end"


def test_crash_loop_without_a_known_end_is_still_one() -> None:
    assert describe(waiting("CrashLoopBackOff")) == ("CrashLooping", "the scheduler ends again and again")


@pytest.mark.parametrize("reason", ["", "ContainerCreating", "PodInitializing"])
def test_beginning_is_no_failure(reason: str) -> None:
    assert describe(waiting(reason)) is None


@pytest.mark.parametrize(("minutes", "left"), [(0, 300), (4, 60), (5, None), (60, None)])
def test_crash_is_over_when_the_scheduler_has_run_for_five_minutes(minutes: int, left: float | None) -> None:
    started = f"{NOW - timedelta(minutes=minutes):%Y-%m-%dT%H:%M:%SZ}"
    running = {"ready": True, "restartCount": 1, "state": {"running": {"startedAt": started}}}
    ended = {"lastState": {"terminated": {"exitCode": 1, "reason": "Error"}}}
    told = ("CrashLooping", "the scheduler ended with status 1")
    assert describe(running | ended, phase="Running") == (told if left else None)
    assert describe(running, phase="Running") is None, "one that never crashed"
    assert steady_in(make_pod(containerStatuses=[running | ended]), NOW) == left


def test_other_reasons_to_wait_are_told_as_they_are() -> None:
    told = ("CreateContainerConfigError", 'secret "x" not found')
    assert describe(waiting(*told)) == told


def test_evicted_pod_is_a_failure_with_the_kubelets_words() -> None:
    told = describe(phase="Failed", reason="Evicted", message="The node was low on resource: memory.")
    assert told == ("Evicted", "The node was low on resource: memory.")


def test_unschedulable_pod_tells_the_node_it_is_meant_for() -> None:
    field = {"key": "metadata.name", "operator": "In", "values": ["node-7"]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    pod = msgspec.convert(
        {
            "metadata": {"name": "pending"},
            "spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}},
            "status": {
                "phase": "Pending",
                "conditions": [
                    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "too many pods"}
                ],
            },
        },
        Pod,
    )
    (failure,) = find_failures([pod], NOW)
    assert (failure.node, failure.pod) == ("node-7", "pending")
    assert (failure.reason, failure.message) == ("Unschedulable", "too many pods")


def test_node_of_a_pod_without_one_is_empty() -> None:
    assert read_node(make_pod(node="")) == ""


def test_going_pods_do_not_count() -> None:
    assert find_failures([make_pod(going=True, phase="Failed")], NOW) == []


def test_failures_come_by_node_and_pod_and_in_one_line_each() -> None:
    pods = [
        make_pod(name, node, phase="Failed", message="a\n b") for name, node in (("b", "2"), ("c", "1"), ("a", "2"))
    ]
    failures = find_failures(pods, NOW)
    assert [(failure.node, failure.pod) for failure in failures] == [("1", "c"), ("2", "a"), ("2", "b")]
    assert {failure.message for failure in failures} == {"a b"}
    assert len(find_failures([make_pod(phase="Failed", message="x" * 5000)], NOW)[0].message) == 500


@pytest.mark.parametrize(("going", "seconds", "overdue"), [(True, 59, False), (True, 61, True), (False, 3600, False)])
def test_pod_that_should_long_be_gone_is_overdue(going: bool, seconds: int, overdue: bool) -> None:
    now = datetime.fromisoformat(CREATED) + timedelta(seconds=seconds)
    assert is_overdue(make_pod(going=going), now) == overdue


STATES: tuple[dict[str, Any], ...] = (
    {},
    {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
    {"terminated": {"exitCode": 1, "startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:00Z"}},
    {"terminated": {"exitCode": 0, "finishedAt": "2026-01-01T00:00:00Z"}},
    *({"waiting": {"reason": reason}} for reason in ("", "PodInitializing", "CrashLoopBackOff", "ErrImagePull", "Odd")),
)


@pytest.mark.parametrize("phase", ["Pending", "Running", "Failed", "Succeeded"])
@pytest.mark.parametrize("scheduled", ["True", "False"])
def test_nothing_is_ever_told_of_a_pod_without_trouble(phase: str, scheduled: str) -> None:
    told = quiet = 0
    for first, state, last in itertools.product(STATES, repeat=3):
        containers = [{"name": "scx", "state": state, "lastState": last}]
        init = [{"name": "wait-for-slot", "state": first}]
        conditions = [{"type": "PodScheduled", "status": scheduled}]
        pod = make_pod(containerStatuses=containers, initContainerStatuses=init, conditions=conditions, phase=phase)
        moments = [NOW + timedelta(minutes=minutes) for minutes in (-1, 0, 1, 60)]
        if has_trouble(pod):
            told += 1
        else:
            quiet += 1
            assert not any(find_failures([pod], now) or steady_in(pod, now) for now in moments)
    assert told
    assert quiet or phase == "Failed" or scheduled == "False"
