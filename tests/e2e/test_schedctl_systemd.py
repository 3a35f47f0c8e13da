"""schedctl on a machine with systemd: podman that its socket starts, and `run --attach` as a service."""

from collections.abc import Iterator

import pytest

from lab.machine import Machine
from lab.waiting import NotYetError, wait_for
from tests.e2e.conftest import Slot, read_slot, wait_attached, wait_detached
from tests.e2e.schedctl import SECONDS, SETTINGS, Schedctl

FIFO = "schedkit_fifo"
SERVICE = "scheduler.service"
UNIT = """\
[Service]
Environment={settings}
ExecStart=schedctl --driver {driver} run --timeout 120 scx_fifo --attach
Restart=on-failure
RestartSec=1
"""


@pytest.fixture(scope="module")
def schedctl(systemd_machine: Machine) -> Schedctl:
    return Schedctl.install(systemd_machine)


@pytest.fixture(autouse=True)
def clean(schedctl: Schedctl) -> Iterator[None]:
    yield
    schedctl.machine.run(f"systemctl stop {SERVICE} 2>/dev/null || true", timeout=SECONDS)
    schedctl.machine.run("journalctl --rotate --vacuum-time=1s 2>/dev/null")  # each test reads its own words
    schedctl.run("stop --all")
    assert read_slot(schedctl.machine) == Slot("disabled", "")


def test_systemd_runs_the_machine_and_all_its_units_are_well(systemd_machine: Machine) -> None:
    assert systemd_machine.run("cat /proc/1/comm").stdout == "systemd\n"
    state = systemd_machine.run("systemctl is-system-running --wait", check=False, timeout=SECONDS).stdout
    assert state == "running\n", systemd_machine.run("systemctl --failed").stdout
    assert systemd_machine.run("journalctl -q -n 1 -u docker.service").stdout
    assert systemd_machine.run("podman info --format '{{.Host.CgroupManager}}'").stdout == "systemd\n"


def be_idle(machine: Machine) -> None:
    """Ask podman nothing until its service has ended, which it does after five seconds: only its socket is there."""
    machine.run("sleep 5; while systemctl -q is-active podman.service; do sleep 1; done", timeout=SECONDS)


def test_podman_that_its_socket_starts_is_waited_for(schedctl: Schedctl) -> None:
    machine = schedctl.machine
    be_idle(machine)
    document = schedctl.read("status")
    assert document["status"] == "idle"
    assert [one for one in document["unreachable"] if not one["absent"]] == []
    be_idle(machine)
    assert schedctl.read("run scx_fifo")["container"]["driver"] == "podman"
    be_idle(machine)
    assert schedctl.read("status")["status"] == "running"


def start_service(schedctl: Schedctl, driver: str) -> int:
    """The scheduler's unit; how often a scheduler had been attached once this one was."""
    unit = UNIT.format(settings=" ".join(SETTINGS.split()), driver=driver)
    schedctl.machine.guest.write(f"/run/systemd/system/{SERVICE}", unit.encode())
    schedctl.machine.run(f"systemctl daemon-reload; systemctl start {SERVICE}", timeout=SECONDS)
    wait_attached(schedctl.machine, FIFO)
    return read_sequence(schedctl.machine)


def read_sequence(machine: Machine) -> int:
    return int(machine.run("cat /sys/kernel/sched_ext/enable_seq").stdout)


def wait_for_journal(machine: Machine, words: str) -> None:
    def probe() -> bool:
        said = machine.run(f"journalctl -u {SERVICE} -o cat --no-pager").stdout
        if words not in said:
            raise NotYetError(said[-500:])
        return True

    wait_for(f"the service to say {words!r}", probe, SECONDS)


@pytest.mark.parametrize("driver", ["podman", "containerd"])
def test_service_takes_its_scheduler_over_after_it_was_killed(schedctl: Schedctl, driver: str) -> None:
    machine = schedctl.machine
    sequence = start_service(schedctl, driver)
    wait_for_journal(machine, "is attached as")
    machine.run(f"systemctl kill --kill-whom=main --signal=KILL {SERVICE}", timeout=SECONDS)
    wait_for_journal(machine, "is attached already")
    assert (read_slot(machine), read_sequence(machine)) == (Slot("enabled", FIFO), sequence)  # it never left
    machine.run(f"systemctl stop {SERVICE}", timeout=SECONDS)
    wait_detached(machine)
    assert schedctl.read("ps --all")["containers"] == []
    assert machine.run(f"systemctl is-failed {SERVICE} || true").stdout.strip() == "inactive"


def test_scheduler_goes_on_while_containerd_is_killed_and_restarts(schedctl: Schedctl) -> None:
    machine = schedctl.machine
    sequence = start_service(schedctl, "containerd")
    wait_for_journal(machine, "is attached as")
    before = schedctl.read("ps")["containers"]
    machine.run("systemctl kill --kill-whom=main --signal=KILL containerd", timeout=SECONDS)
    wait_for_journal(machine, "containerd responds again")
    assert (read_slot(machine), read_sequence(machine)) == (Slot("enabled", FIFO), sequence)
    assert schedctl.read("status")["status"] == "running"
    assert [one["id"] for one in schedctl.read("ps")["containers"]] == [one["id"] for one in before]


def test_service_ends_in_peace_where_its_scheduler_is_replaced(schedctl: Schedctl) -> None:
    machine = schedctl.machine
    start_service(schedctl, "podman")
    wait_for_journal(machine, "is attached as")
    assert "error:" in schedctl.run("switch scx_reject", code=15).stderr  # and back
    assert read_slot(machine) == Slot("enabled", FIFO)
    assert machine.run(f"systemctl is-active {SERVICE}").stdout.strip() == "active"
    schedctl.run("switch scx_stubborn")
    wait_for_journal(machine, "was stopped or replaced by another schedctl")

    def probe() -> bool:
        state = machine.run(f"systemctl is-active {SERVICE} || true").stdout.strip()
        if state != "inactive":
            raise NotYetError(state)
        return True

    wait_for("the service to end", probe, SECONDS)
    assert [one["scheduler"] for one in schedctl.read("ps --all")["containers"]] == ["scx_stubborn"]
