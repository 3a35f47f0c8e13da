"""The machine as distributions have it: systemd is pid 1, and podman's service starts when somebody asks for it."""

import json

import pytest

from lab.machine import Machine
from lab.schedctl import furnish
from lab.store import Store
from lab.waiting import wait_for

IDLE_SECONDS = 10  # podman's service ends after 5 seconds in which nobody asked
SERVICE = "systemctl is-active podman.service"


@pytest.fixture(scope="module")
def machine_with_schedctl(systemd_machine: Machine, store: Store, tmp_path_factory: pytest.TempPathFactory) -> Machine:
    furnish(store, systemd_machine, tmp_path_factory.mktemp("signing"), real=True)
    return systemd_machine


def test_systemd_runs_the_machine_and_all_its_units_are_well(systemd_machine: Machine) -> None:
    assert systemd_machine.run("cat /proc/1/comm").stdout == "systemd\n"
    state = wait_for("systemd to have started everything", lambda: _read_settled(systemd_machine), 120)
    assert state == "running", systemd_machine.run("systemctl --failed").stdout
    assert systemd_machine.run("journalctl -q -n 1 -u docker.service").stdout
    assert systemd_machine.run("podman info --format '{{.Host.CgroupManager}}'").stdout == "systemd\n"


def test_first_status_after_ten_idle_seconds_sees_podman(machine_with_schedctl: Machine) -> None:
    machine = machine_with_schedctl
    machine.run("schedctl run --driver podman scx_fifo", timeout=180)
    machine.run(f"sleep {IDLE_SECONDS}")
    assert machine.run(SERVICE, check=False).stdout == "inactive\n", "else this proves nothing"

    said = json.loads(machine.run("schedctl status -o json", timeout=120).stdout)

    assert said["status"] == "running"
    assert [one["driver"] for one in said["managed"]] == ["podman"]
    assert machine.run(SERVICE, check=False).stdout == "active\n"
    machine.run("schedctl stop", timeout=120)


def _read_settled(machine: Machine) -> str:
    state = machine.run("systemctl is-system-running", check=False).stdout.strip()
    return "" if state in ("initializing", "starting") else state
