"""The lifecycle on a real kernel with real runtimes: run, switch, stop and status, and every way in which they end."""

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.machine import Machine
from lab.schedctl import FOLDER, PYTHON, install_schedctl
from lab.waiting import NotYetError, wait_for
from tests.e2e.conftest import Slot, read_slot, wait_attached, wait_detached

SCRIPT = f"{FOLDER}/guest_host.py"
Outcome = dict[str, Any]


@pytest.fixture(scope="module", autouse=True)
def prepared(machine: Machine) -> None:
    install_schedctl(machine)
    machine.guest.put(Path(__file__).with_name("guest_host.py"), SCRIPT)


@pytest.fixture(autouse=True)
def cleaned(machine: Machine, prepared: None) -> Iterator[None]:
    yield
    play(machine, "stop-all --timeout 5")
    assert read_slot(machine) == Slot("disabled", "")


def play(machine: Machine, *commands: str) -> list[Outcome]:
    """Perform verbs in the guest, one after the other."""
    words = json.dumps([shlex.split(command) for command in commands])
    outcomes: list[Outcome] = json.loads(machine.run(f"{PYTHON} {SCRIPT}", input=words, timeout=900).stdout)
    assert [outcome["message"] for outcome in outcomes if outcome.get("error") == "Traceback"] == []
    return outcomes


def states(status: Outcome) -> dict[str, str]:
    return {one["name"]: one["state"] for one in status["managed"]}


def test_run_until_attached_and_stop_until_detached(machine: Machine) -> None:
    driver = "docker"
    ran, running, second, stopped, idle, again = play(
        machine,
        f"run scx_fifo:v1 --driver {driver}",
        "status",
        f"run scx_fifo:v2 --driver {driver}",
        "stop",
        "status",
        "stop",
    )
    assert (ran["ops"], ran["driver"], ran["state"]) == ("schedkit_fifo", driver, "running")
    # The ops name is not the image's: it is the process that tells whose it is.
    assert (running["summary"], running["managed"][0]["attached"]) == ("running", "yes")
    assert second["error"] == "SlotTaken"
    assert f"schedkit_fifo is attached already, by the container scx_fifo ({driver})" in second["message"]
    assert (stopped["id"], stopped["was_attached"], stopped["killed"]) == (ran["id"], True, False)
    assert (idle["summary"], idle["managed"]) == ("idle", [])
    assert again["error"] == "NotFound"


def test_what_does_not_attach_is_explained_and_removed(machine: Machine) -> None:
    rejected, never, status = play(machine, "run scx_reject:v1", "run scx_idle:v1 --timeout 3", "status")
    assert (rejected["error"], rejected["code"]) == ("Rejected", 11)
    assert "verifier refused its program: R3 unbounded memory access" in rejected["message"]
    assert "-- BEGIN PROG LOAD LOG --" in "".join(rejected["log"])
    assert (never["error"], never["code"]) == ("NotAttached", 13)
    assert never["log"] == ["idle: schedkit_idle never attaches"]
    assert (status["summary"], status["managed"]) == ("idle", [])


def test_one_that_ignores_sigterm_is_killed(machine: Machine) -> None:
    _, stopped, status = play(machine, "run scx_stubborn:v1", "stop --timeout 1", "status")
    assert (stopped["killed"], stopped["was_attached"]) == (True, True)
    assert status["summary"] == "idle"


def test_switch_there_and_back_over_drivers_and_after_a_failure(machine: Machine) -> None:
    _, there, failed, status, back = play(
        machine,
        "run scx_fifo:v1 --driver podman",
        "switch scx_fifo:v2 --driver docker",
        "switch scx_reject:v1 --driver podman",
        "status",
        "switch scx_fifo:v1 --driver containerd",
    )
    assert (there["ops"], there["replaced"], there["driver"]) == ("schedkit_fifo2", "scx_fifo", "docker")
    assert there["gap"] > 0
    assert (failed["error"], failed["code"]) == ("RolledBack", 15)
    assert "verifier" in failed["message"]
    assert failed["message"].endswith("scx_fifo runs again")
    assert status["summary"] == "running"
    assert [(one["id"], one["attached"]) for one in status["managed"]] == [(there["id"], "yes")]
    assert (back["ops"], back["driver"]) == ("schedkit_fifo", "containerd")
    assert back["gap"] > 0


def test_foreign_scheduler_is_told_refused_and_detached(machine: Machine) -> None:
    machine.run("podman run -d --name foreign --privileged localhost:5000/scx_fifo:v1")
    wait_attached(machine, "schedkit_fifo")
    pid = machine.run("podman inspect -f '{{.State.Pid}}' foreign").stdout.strip()  # it ends when it is detached
    status, refused, switched, detached, after = play(
        machine, "status", "run scx_fifo:v2", "switch scx_fifo:v2", "detach", "status"
    )
    machine.run("podman rm -f foreign")

    assert (status["summary"], status["remedy"]) == ("orphaned-kernel-state", "schedctl detach")
    assert f"by process {pid} (" in status["explanation"]
    assert (refused["error"], switched["error"]) == ("SlotTaken", "SlotTaken")
    assert f"by process {pid} (" in refused["message"]
    assert "schedctl detach" in refused["hint"]
    assert detached["state"] == "disabled"
    assert after["summary"] == "idle"


def test_ours_is_not_detached_but_stopped(machine: Machine) -> None:
    _, refused = play(machine, "run scx_fifo:v1", "detach")
    assert refused["error"] == "Usage"
    assert "schedctl stop scx_fifo" in refused["hint"]


def test_run_killed_at_any_step_leaves_the_truth_and_can_be_cleaned_up(machine: Machine) -> None:
    driver = "podman"
    run = f"run scx_fifo:v1 --driver {driver} --kill-at"
    outcomes = play(
        machine,
        *(f"{run} pulling", "status"),
        *(f"{run} creating", "status"),
        *(f"{run} starting", "status"),
        *(f"run scx_fifo:v1 --driver {driver}", "stop"),  # the leftover of that name gives way
        *(f"run scx_idle:v1 --driver {driver} --kill-at waiting", "status", "stop"),
        *(f"run scx_reject:v1 --driver {driver} --kill-at removing", "status", "stop"),
        "status",
    )
    assert [one["code"] for one in outcomes if one.get("error")] == [-9] * 5
    pulling, creating, starting, waiting, removing, cleaned = (one for one in outcomes if "summary" in one)
    assert (pulling["summary"], pulling["managed"]) == ("idle", [])
    assert (creating["summary"], creating["managed"]) == ("idle", [])
    assert (starting["summary"], states(starting)) == ("idle", {"scx_fifo": "created"})
    assert f"scx_fifo ({driver}) was created and never started" in starting["explanation"]
    assert (waiting["summary"], states(waiting)) == ("managed-detached", {"scx_idle": "running"})
    assert (removing["summary"], states(removing)) == ("idle", {"scx_reject": "exited"})
    assert (cleaned["summary"], cleaned["managed"]) == ("idle", [])


def test_switch_killed_at_any_step_leaves_the_truth_and_can_be_cleaned_up(machine: Machine) -> None:
    driver = "containerd"
    switch = f"switch scx_fifo:v2 --driver {driver} --kill-at"
    outcomes = play(
        machine,
        f"run scx_fifo:v1 --driver {driver}",
        *(f"{switch} creating", "status"),
        *(f"{switch} stopping", "status"),
        # The leftover scx_fifo-2 gives way; scx_idle never attaches, so what is seen does not depend on when.
        *(f"switch scx_idle:v1 --driver {driver} --kill-at waiting", "status"),
        *(f"switch scx_fifo:v2 --driver {driver} --kill-at 'removing the container'", "status"),
        "stop-all",
        "status",
    )
    assert [one["code"] for one in outcomes if one.get("error")] == [-9] * 4
    creating, stopping, waiting, removing, cleaned = (one for one in outcomes if "summary" in one)
    assert (creating["summary"], states(creating)) == ("running", {"scx_fifo": "running"})
    assert (stopping["summary"], states(stopping)) == ("running", {"scx_fifo": "running", "scx_fifo-2": "created"})
    assert waiting["summary"] == "managed-detached"
    assert (states(waiting)["scx_fifo"], states(waiting)["scx_idle"]) == ("exited", "running")
    assert removing["summary"] == "running"
    assert (states(removing)["scx_fifo"], states(removing)["scx_idle"]) == ("running", "exited")
    assert (cleaned["summary"], cleaned["managed"]) == ("idle", [])


def test_ctrl_c_leaves_nothing_of_run_and_the_old_one_of_switch(machine: Machine) -> None:
    interrupted, status, _, again, running = play(
        machine,
        "run scx_idle:v1 --interrupt-at waiting",
        "status",
        "run scx_fifo:v1",
        "switch scx_idle:v1 --interrupt-at waiting",
        "status",
    )
    assert (interrupted["error"], again["error"]) == ("Interrupted", "Interrupted")
    assert (status["summary"], status["managed"]) == ("idle", [])
    assert (running["summary"], states(running)) == ("running", {"scx_fifo": "running"})


def test_second_schedctl_is_told_who_is_at_work(machine: Machine) -> None:
    words = json.dumps([["run", "scx_idle:v1", "--timeout", "600"]])
    machine.guest.write(f"{FOLDER}/first.json", words.encode())
    first = f"setsid {PYTHON} {SCRIPT} <{FOLDER}/first.json >/dev/null 2>&1 & echo $!"
    pid = machine.run(first).stdout.strip()

    def read_owner() -> str:
        owner = machine.run("cat /run/schedkit/lock").stdout.split()
        if not owner:
            raise NotYetError("nobody holds the lock")
        return owner[0]

    owner = wait_for("the first one to hold the lock", read_owner, 120)
    [busy] = play(machine, "stop")
    assert (busy["error"], busy["code"]) == ("Busy", 75)
    assert f"process {owner} (" in busy["message"]

    machine.run(f"kill -KILL {owner}")  # which frees the lock
    wait_for("its parent to end", lambda: _gone(machine, pid), 60)
    [status, stopped] = play(machine, "status", "stop")
    assert status["summary"] == "managed-detached"
    assert stopped["name"] == "scx_idle"


def test_failed_scheduler_is_restarted_and_then_given_up(machine: Machine) -> None:
    _, supervised, status = play(
        machine, "run scx_mortal:v1 2 --restart on-failure:1", "supervise --driver podman", "status"
    )
    notes = supervised["notes"]
    assert notes[0] == "watching over scx_mortal, restart on-failure:1"
    assert "with exit code 3: failed schedkit_mortal: its 2 seconds are over; starting it again in 1 s" in notes[1]
    assert notes[2].startswith("scx_mortal is attached again, after ")
    assert notes[3] == "scx_mortal failed again after 1 restarts: giving up"
    assert (status["summary"], states(status)) == ("idle", {"scx_mortal": "exited"})


def test_runtime_restarted_under_us_changes_nothing_in_what_is_told(machine: Machine) -> None:
    _, before = play(machine, "run scx_fifo:v1 --driver containerd", "status")
    pid = machine.run("pidof containerd | tr ' ' '\\n' | sort -n | head -1").stdout.strip()
    machine.run(f"kill -KILL {pid}")
    wait_for("containerd to be back", lambda: machine.run("ctr version >/dev/null 2>&1", check=False).code == 0, 60)
    after, stopped = play(machine, "status", "stop")
    assert (before["summary"], after["summary"]) == ("running", "running")
    assert before["managed"] == after["managed"]
    assert stopped["was_attached"]
    wait_detached(machine)


def _gone(machine: Machine, pid: str) -> bool:
    if machine.run(f"kill -0 {pid}", check=False).code == 0:
        raise NotYetError(f"{pid} is there")
    return True
