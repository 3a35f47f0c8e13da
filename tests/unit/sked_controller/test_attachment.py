"""What is said of a scheduler on one node: the kernel's word wins, and only a fresh report is its word."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedkit.sked.controller.attachment import GRACE, SETTLE, Judgement, NodeState, judge
from schedkit.sked.controller.failures import STEADY
from schedkit.sked.controller.objects import Pod
from schedkit.sked.controller.reports import NodeReport
from tests.unit.sked_controller.reporting import (
    BOOT,
    KFUNCS,
    NO_BTF,
    RUSTY,
    at,
    make_report,
    make_scheduler,
    stamp,
)

RUNS = make_scheduler(started=10)
CRASHED = make_scheduler(ended=(10, 20), waiting="CrashLoopBackOff")
AGAIN = make_scheduler(started=30, ended=(10, 20))


def look(pod: Pod | None, report: NodeReport | None, now: float = 15, **more: Any) -> Judgement:
    known: dict[str, Any] = {"agent_ready": True, "boot_id": BOOT, "learned": (), "foreign": "", "held": False}
    return judge(pod, report, **(known | more), now=at(now))


def state_of(pod: Pod | None, now: float = 15, learned: tuple[str, ...] = (), foreign: str = "", **seen: Any) -> str:
    return look(pod, make_report(**seen), now, learned=learned, foreign=foreign).state


# --- fresh ----------------------------------------------------------------------------------------------------------

ATTACHED = make_report(state="enabled", ops=RUSTY, since=12)


@pytest.mark.parametrize(
    ("report", "more", "why"),
    [
        (ATTACHED, {"agent_ready": False}, "no agent is ready on it"),
        (None, {}, "its agent has not reported"),
        (ATTACHED, {"boot_id": "another"}, "its report is from an earlier boot"),
        (make_report(state="unknown"), {}, "its agent cannot read the slot: no reason given"),
    ],
)
def test_without_a_fresh_report_nothing_is_known(report: NodeReport | None, more: Any, why: str) -> None:
    found = look(RUNS, report, **more)
    assert (found.state, found.message) == (NodeState.UNKNOWN, why)


def test_boot_is_compared_only_where_both_know_it() -> None:
    assert look(RUNS, ATTACHED, boot_id="").state is NodeState.ATTACHED
    assert look(RUNS, make_report(state="enabled", ops=RUSTY, since=12, boot="")).state is NodeState.ATTACHED


# --- attached -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        ({"ops": RUSTY, "since": 12}, "attached"),
        ({"ops": RUSTY, "since": 9}, "attached"),  # the times of Kubernetes are whole seconds
        ({"ops": RUSTY, "since": 500}, "attached"),  # it attached again by itself
        ({"ops": RUSTY}, "attached"),  # when that was is not known: the name decides
        ({"ops": RUSTY, "since": 5}, "foreign"),  # its namesake, started by hand before
        ({"ops": "other", "since": 12}, "attached"),  # in the first seconds of the container: its own name
        ({"ops": "other", "since": 39}, "attached"),
        ({"ops": "other", "since": 40}, "foreign"),  # it was told to be detached before that
        ({"ops": "other", "since": 45}, "foreign"),
        ({"ops": "other", "since": 5}, "foreign"),
        ({"ops": "other"}, "unknown"),
    ],
)
def test_what_is_attached_while_the_pod_runs_is_its_own_or_not(seen: dict[str, Any], expected: str) -> None:
    assert state_of(RUNS, 600, state="enabled", **seen) == expected


def test_name_is_learned_from_an_attachment_that_began_with_the_container() -> None:
    assert look(RUNS, make_report(state="enabled", ops="other", since=12)).learned == "other"
    assert look(RUNS, ATTACHED).learned == RUSTY
    for since in (None, 45):
        seen: dict[str, Any] = {"state": "enabled", "ops": "other", "since": since}
        assert state_of(RUNS, 600, learned=("other",), **seen) == "attached"
    assert state_of(RUNS, 600, learned=("other",), state="enabled", ops="other", since=5) == "foreign"


def test_image_that_attaches_by_its_own_name_does_not_attach_by_another() -> None:
    seen: dict[str, Any] = {"state": "enabled", "ops": "other", "since": 12}
    assert state_of(RUNS, 600, learned=(RUSTY,), **seen) == "foreign"
    assert state_of(RUNS, 600, learned=("third",), **seen) == "attached"


def test_name_that_stays_when_its_container_has_ended_was_not_its_name() -> None:
    found = look(CRASHED, make_report(state="enabled", ops="other", since=12), now=60, learned=("other",))
    assert (found.state, found.unlearned) == (NodeState.FOREIGN, "other")
    assert found.message == f"other is attached, since {stamp(12)}, and was not started by sked"
    # A scheduler of that name that somebody started before says nothing about names.
    assert look(CRASHED, make_report(state="enabled", ops="other", since=2), now=60).unlearned == ""


def test_kubelet_and_agent_tell_of_one_moment_one_after_the_other() -> None:
    just_ended = look(CRASHED, make_report(state="enabled", ops=RUSTY, since=12), now=21)
    assert (just_ended.state, just_ended.until) == (NodeState.ATTACHING, at(20) + SETTLE)
    just_started = look(RUNS, make_report(state="enabled", ops="other", since=5), now=11)
    assert (just_started.state, just_started.until) == (NodeState.ATTACHING, at(10) + SETTLE)


def test_nobody_is_accused_before_the_kubelet_can_have_told_of_a_restart() -> None:
    """The scheduler ended and attached again under its own name, and its kubelet has yet to say so."""
    found = look(RUNS, make_report(state="enabled", ops="other", since=5000), now=5001)
    assert (found.state, found.until) == (NodeState.ATTACHING, at(5000) + SETTLE)
    assert state_of(RUNS, 5006, state="enabled", ops="other", since=5000) == "foreign"


def test_what_was_attached_before_the_agent_looked_is_foreign_only_beside_one_that_fails_at_once() -> None:
    unseen: dict[str, Any] = {"state": "enabled", "ops": "other"}
    assert state_of(CRASHED, 26, **unseen) == "foreign"
    assert state_of(AGAIN, 31, **unseen) == "foreign"
    assert state_of(AGAIN, 60, **unseen) == "unknown"
    assert state_of(AGAIN, 5000, **unseen) == "unknown"


@pytest.mark.parametrize("pod", [None, make_scheduler(), make_scheduler(started=10, going=True)])
@pytest.mark.parametrize("seen", [{}, {"state": "enabled", "ops": "other", "since": 5}])
def test_before_its_container_has_started_nothing_is_said_against_it(pod: Pod | None, seen: dict[str, Any]) -> None:
    assert state_of(pod, 600, **seen) == "attaching"


def test_crash_loop_beside_a_foreign_scheduler_is_foreign_all_the_time() -> None:
    for pod, now in ((CRASHED, 26), (AGAIN, 31), (AGAIN, 60)):
        assert state_of(pod, now, state="enabled", ops="other", since=2) == "foreign"


# --- detached -------------------------------------------------------------------------------------------------------


def test_scheduler_has_its_grace_to_attach() -> None:
    early = look(RUNS, make_report(), now=39)
    assert (early.state, early.until) == (NodeState.ATTACHING, at(10) + GRACE)
    late = look(RUNS, make_report(), now=40)
    assert late.state is NodeState.DETACHED
    assert late.message == f"its pod runs since {stamp(10)}, and the kernel has attached nothing"
    for changing in ("enabling", "disabling"):
        assert state_of(RUNS, 40, state=changing) == "attaching"


def test_one_that_ends_before_it_attaches_is_detached_through_its_crash_loop() -> None:
    for pod, now in ((CRASHED, 26), (AGAIN, 31), (AGAIN, 60)):
        assert state_of(pod, now) == "detached"


# --- ejected --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ops", [RUSTY, "learned"])
def test_ejection_sticks_until_it_has_run_for_long_enough_again(ops: str) -> None:
    learned = ("learned",)
    off: dict[str, Any] = {"left": (ops, 19)}
    on = off | {"state": "enabled", "ops": ops, "since": 31}
    assert state_of(CRASHED, 21, learned, **off) == "ejected"
    assert state_of(AGAIN, 31, learned, **off) == "ejected"
    assert state_of(AGAIN, 40, learned, **on) == "ejected"
    steady = STEADY + timedelta(seconds=30)
    found = look(AGAIN, make_report(**on), now=40, learned=learned)
    assert found.until == at(0) + steady
    assert state_of(AGAIN, steady.total_seconds(), learned, **on) == "attached"


def test_message_of_an_ejection_is_the_same_through_a_crash_loop() -> None:
    first = look(CRASHED, make_report(left=(RUSTY, 19)), now=21)
    second = look(make_scheduler(started=60, ended=(30, 50)), make_report(left=(RUSTY, 50), seq=2), now=61)
    assert first.message == second.message == "it was attached and left the kernel"
    assert first.episode != second.episode


@pytest.mark.parametrize(
    ("pod", "left", "foreign", "expected"),
    [
        pytest.param(CRASHED, ("other", 20), "", "ejected", id="left with its container"),
        pytest.param(CRASHED, ("", 20), "", "ejected", id="without a name"),
        pytest.param(CRASHED, ("other", 20), "other", "detached", id="known as somebody else's"),
        pytest.param(CRASHED, ("other", 14), "", "detached", id="another name at another time"),
        pytest.param(AGAIN, (RUSTY, -5), "", "detached", id="before this pod was there"),
        pytest.param(AGAIN, (RUSTY, 3), "", "detached", id="of an earlier container"),
    ],
)
def test_only_what_this_container_attached_is_its_ejection(
    pod: Pod, left: tuple[str, float], foreign: str, expected: str
) -> None:
    assert state_of(pod, 40, left=left, foreign=foreign) == expected


def test_one_that_left_and_still_runs_is_ejected_unless_it_comes_back_at_once() -> None:
    early = look(RUNS, make_report(left=(RUSTY, 100)), now=102)
    assert (early.state, early.until) == (NodeState.ATTACHING, at(100) + SETTLE)
    late = look(RUNS, make_report(left=(RUSTY, 100)), now=106)
    assert (late.state, late.message) == (
        NodeState.EJECTED,
        "it was attached and left the kernel, and still runs",
    )
    assert state_of(RUNS, 106, left=(RUSTY, 100), state="enabled", ops=RUSTY, since=101) == "attached"
    assert state_of(AGAIN, 5006, left=(RUSTY, 5000)) == "ejected", "also when it had ended once, long ago"


@pytest.mark.parametrize("when", [8, 9, 10])
def test_predecessor_that_left_just_before_is_no_ejection_of_its_successor(when: float) -> None:
    assert state_of(RUNS, 20, left=(RUSTY, when)) == "attaching"
    assert state_of(RUNS, 60, left=(RUSTY, when)) == "detached"


def test_one_that_ends_at_once_was_not_ejected_with_its_predecessor() -> None:
    crashed = make_scheduler(ended=(10, 11), waiting="CrashLoopBackOff")
    assert state_of(crashed, 40, left=(RUSTY, 9)) == "detached"
    assert state_of(crashed, 40, left=(RUSTY, 10)) == "ejected"


def test_departure_before_a_reboot_says_nothing() -> None:
    left = {"left": (RUSTY, 19), "seq": 7}
    report = make_report(**left)
    assert look(CRASHED, report, now=40).state is NodeState.EJECTED
    rebooted = make_report(seq=0)
    status = type(report.status)(rebooted.status.kernel, rebooted.status.slot, report.status.last_detach)
    assert look(CRASHED, NodeReport(report.metadata, status), now=40).state is NodeState.DETACHED


# --- unfit ----------------------------------------------------------------------------------------------------------


def test_unfit_kernel_is_told_with_the_failing_check() -> None:
    found = look(CRASHED, make_report(supported="False", problems=(KFUNCS, NO_BTF)), now=40)
    assert (found.state, found.message) == (
        NodeState.UNFIT,
        "kernel.btf: /sys/kernel/btf/vmlinux is not there",
    )
    assert look(None, make_report(state="unsupported", supported="Unknown")).state is NodeState.UNFIT
    attached = make_report(state="enabled", ops=RUSTY, since=12, supported="False", problems=(NO_BTF,))
    assert look(RUNS, attached).state is NodeState.ATTACHED, "the kernel itself knows better"


def test_warning_makes_a_kernel_unfit_only_for_one_that_fails_there_and_was_never_attached() -> None:
    found = look(CRASHED, make_report(problems=(KFUNCS,)), now=40)
    assert (found.state, found.message) == (
        NodeState.UNFIT,
        "likely kernel.btf_kfuncs: 9 functions have malformed prototypes",
    )
    assert state_of(CRASHED, 21, problems=(KFUNCS,)) == "detached", "that it was attached may yet be told"
    assert state_of(RUNS, 600, problems=(KFUNCS,)) == "detached"
    assert state_of(AGAIN, 60, problems=(KFUNCS,), left=(RUSTY, 3)) == "detached"


# --- whatever is reported -------------------------------------------------------------------------------------------

seconds = st.one_of(st.none(), st.integers(-50, 400))
names = st.sampled_from(["", RUSTY, "rusty", "other", "learned"])


@st.composite
def reports(draw: st.DrawFn) -> NodeReport | None:
    left = draw(seconds)
    return (
        draw(st.none())
        if draw(st.integers(0, 9)) == 0
        else make_report(
            state=draw(st.sampled_from(["enabled", "disabled", "enabling", "disabling", "unsupported", "unknown"])),
            ops=draw(names),
            since=draw(seconds),
            left=None if left is None else (draw(names), left),
            supported=draw(st.sampled_from(["True", "False", "Unknown"])),
            problems=draw(st.sampled_from([(), (KFUNCS,), (NO_BTF,)])),
            boot=draw(st.sampled_from([BOOT, "", "another"])),
            seq=draw(st.integers(0, 2)),
        )
    )


@st.composite
def pods(draw: st.DrawFn) -> Pod | None:
    if draw(st.integers(0, 9)) == 0:
        return None
    ended = draw(st.one_of(st.none(), st.tuples(st.integers(0, 100), st.integers(100, 200))))
    return make_scheduler(
        started=draw(seconds), ended=ended, waiting="CrashLoopBackOff", going=draw(st.integers(0, 9)) == 0
    )


@given(pods(), reports(), st.booleans(), st.sampled_from([BOOT, ""]), names, st.integers(-50, 900))
def test_kernels_word_wins(
    pod: Pod | None, report: NodeReport | None, agent_ready: bool, boot_id: str, foreign: str, now: int
) -> None:
    found = look(pod, report, now, agent_ready=agent_ready, boot_id=boot_id, learned=("learned",), foreign=foreign)
    stale = report is not None and boot_id and report.status.kernel.boot_id not in ("", boot_id)
    if report is None or not agent_ready or stale:
        assert found.state is NodeState.UNKNOWN
        return
    state = report.status.slot.state
    if found.state is NodeState.ATTACHED:
        assert state == "enabled"
        assert pod is not None
        assert pod.metadata.deletion_timestamp is None
        assert pod.status.container_statuses[0].state.running is not None
    if found.state is NodeState.FOREIGN:
        assert state == "enabled"
    if found.state is NodeState.DETACHED:
        assert state == "disabled"
    if found.state is NodeState.EJECTED:
        assert report.status.last_detach is not None
    assert found.until is None or found.until > at(now), "who comes again then must find something new"
    assert found.message or found.state is NodeState.ATTACHED
