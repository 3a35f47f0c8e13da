"""The lifecycle on a real kernel with real runtimes: run, switch, stop and status, and every way in which they end."""

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.machine import Machine
from lab.schedctl import FOLDER, PYTHON, install_schedctl
from tests.e2e.conftest import Slot, read_slot

SCRIPT = f"{FOLDER}/guest_host.py"
Outcome = dict[str, Any]


@pytest.fixture(scope="module", autouse=True)
def prepared(machine: Machine) -> None:
    install_schedctl(machine)
    put_script(machine)


@pytest.fixture(autouse=True)
def cleaned(machine: Machine, prepared: None) -> Iterator[None]:
    yield
    play(machine, "stop-all --timeout 5")
    assert read_slot(machine) == Slot("disabled", "")


def put_script(machine: Machine) -> None:
    """Have what `play` needs beside schedctl."""
    machine.guest.put(Path(__file__).with_name("guest_host.py"), SCRIPT)


def play(machine: Machine, *commands: str) -> list[Outcome]:
    """Perform verbs in the guest, one after the other."""
    words = json.dumps([shlex.split(command) for command in commands])
    outcomes: list[Outcome] = json.loads(machine.run(f"{PYTHON} {SCRIPT}", input=words, timeout=900).stdout)
    assert [outcome["message"] for outcome in outcomes if outcome.get("error") == "Traceback"] == []
    return outcomes


def states(status: Outcome) -> dict[str, str]:
    return {one["name"]: one["state"] for one in status["managed"]}


def test_switch_there_and_back_over_drivers_and_after_a_failure(machine: Machine) -> None:
    _, there, failed, back = play(
        machine,
        "run scx_fifo:v1 --driver podman",
        "switch scx_fifo:v2 --driver docker",
        "switch scx_reject:v1 --driver podman",
        "switch scx_fifo:v1 --driver containerd",
    )
    assert (there["ops"], there["replaced"], there["driver"]) == ("schedkit_fifo2", "scx_fifo", "docker")
    assert there["gap"] > 0
    assert (failed["error"], failed["code"]) == ("RolledBack", 15)
    assert "verifier" in failed["message"]
    assert failed["message"].endswith("scx_fifo runs again")
    assert (back["ops"], back["driver"], back["replaced"]) == ("schedkit_fifo", "containerd", there["name"])
    assert back["gap"] > 0


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


def test_ctrl_c_leaves_the_old_one_of_switch_and_what_is_ours_is_not_detached(machine: Machine) -> None:
    _, interrupted, refused, running = play(
        machine, "run scx_fifo:v1", "switch scx_idle:v1 --interrupt-at waiting", "detach", "status"
    )
    assert interrupted["error"] == "Interrupted"
    assert refused["error"] == "Usage"
    assert "schedctl stop scx_fifo" in refused["hint"]
    assert (running["summary"], states(running)) == ("running", {"scx_fifo": "running"})
