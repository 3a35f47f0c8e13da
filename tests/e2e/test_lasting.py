"""Schedulers that last: enabled over a reboot, restarted up to the limit, on trial; by a real machine's systemd."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.errors import GuestError
from lab.machine import Machine
from lab.schedctl import furnish
from lab.store import Store
from lab.waiting import NotYetError, wait_for
from tests.e2e.conftest import SCX, Slot, read_slot
from tests.e2e.runtimes import REGISTRY
from tests.e2e.schedctl import SECONDS, Schedctl

FIFO, FIFO2, STUBBORN = "schedkit_fifo", "schedkit_fifo2", "schedkit_stubborn"
FEW = Path("/etc/systemd/system/schedkit.service.d/few.conf")
UNITS = "find /etc/systemd/system /run/systemd -name 'schedkit*'"


class Signed(Schedctl):
    """schedctl as the lab sets it up for people: signed images, a policy, and everything by its configuration file."""

    def line(self, words: str) -> str:
        command, _, rest = words.partition(" ")
        patience = "--timeout 120 " if command in ("run", "switch", "enable", "trial", "restart") else ""
        return f"schedctl --driver {self.driver} {command} {patience}{rest}"


@pytest.fixture(scope="module")
def schedctl(systemd_machine: Machine, store: Store, lab_folder: Path) -> Schedctl:
    furnish(store, systemd_machine, lab_folder / "furnished", real=False)
    # Podman starts on demand, and slowly here; test_schedctl_systemd.py is about that.
    systemd_machine.run("systemctl disable --now podman.socket; rm -f /run/podman/podman.sock", timeout=SECONDS)
    return Signed(systemd_machine, "containerd")


@pytest.fixture(autouse=True)
def clean(schedctl: Schedctl) -> Iterator[None]:
    yield
    machine = schedctl.machine
    machine.run("systemctl stop 'schedkit*' || true", timeout=SECONDS)
    schedctl.run("stop --all")
    machine.run(f"{UNITS} -delete; rm -f /run/schedkit/trial*; systemctl daemon-reload", timeout=SECONDS)
    assert read_slot(machine) == Slot("disabled", "")


def wait_for_slot(machine: Machine, slot: Slot) -> None:
    def probe() -> bool:
        now = read_slot(machine)
        if now != slot:
            raise NotYetError(f"{now}; {machine.run('journalctl -n 15 -o cat --no-pager').stdout}")
        return True

    wait_for(f"the kernel to say {slot}", probe, SECONDS, interval=1)


def read_sequence(machine: Machine) -> int:
    return int(machine.run(f"cat {SCX}/enable_seq").stdout)


def reboot(machine: Machine) -> None:
    """As a person does it; qemu, which ends then otherwise, is told to go on."""
    before = read_boot(machine)
    with machine.monitor() as monitor:
        monitor.execute("set-action", reboot="reset")
    machine.run("systemctl --no-block reboot", timeout=SECONDS)
    machine.guest.disconnect()

    def probe() -> bool:
        try:
            now = read_boot(machine)
        except GuestError as error:
            machine.guest.disconnect()
            raise NotYetError(error.message) from error
        if now == before:
            raise NotYetError("it has not gone down yet")
        return True

    wait_for("the machine to come back", probe, SECONDS, interval=1)


def read_boot(machine: Machine) -> str:
    return machine.guest.run("cat /proc/sys/kernel/random/boot_id", timeout=20).stdout


def test_enabled_scheduler_is_there_after_a_reboot_without_its_registry_and_after_each_kill(schedctl: Schedctl) -> None:
    machine = schedctl.machine
    document = schedctl.read("enable scx_fifo")
    assert document["enabled"]["verified"].startswith("key SHA256:")
    assert machine.run("systemd-analyze verify schedkit.service 2>&1", timeout=SECONDS).stdout == ""
    # A reboot ends a trial: back to what is enabled, and nothing is left of it.
    schedctl.run(f"trial {REGISTRY}/scx_fifo:v2 --for 1h")
    assert read_slot(machine) == Slot("enabled", FIFO2)
    machine.run("systemctl disable lab-registry.service", timeout=SECONDS)
    reboot(machine)
    assert machine.run("systemctl is-active lab-registry.service || true").stdout.strip() == "inactive"
    wait_for_slot(machine, Slot("enabled", FIFO))
    assert [one["name"] for one in schedctl.read("status")["managed"]] == ["scx_fifo"]
    assert len(machine.run("ctr -n schedkit containers ls -q").stdout.split()) == 1
    for number in range(2, 12):
        machine.run("systemctl reset-failed schedkit.service")  # a person who kills so often is not to reach the limit
        machine.run("kill -9 $(pgrep -x scx_fifo)")

        def probe(wanted: int = number) -> bool:
            if read_sequence(machine) != wanted or read_slot(machine) != Slot("enabled", FIFO):
                raise NotYetError(machine.run("journalctl -u schedkit -n 10 -o cat --no-pager").stdout)
            return True

        wait_for("it to be attached again", probe, SECONDS, interval=1)
    status = schedctl.read("status")
    enabled = status["enabled"]
    assert (status["status"], enabled["at_boot"], enabled["running"]) == ("running", True, True)
    assert status["managed"][0]["supervised"] is True
    machine.run("systemctl enable --now lab-registry.service", timeout=SECONDS)
    assert schedctl.read("disable")["stopped"] is True
    assert read_slot(machine) == Slot("disabled", "")
    assert machine.run(UNITS).stdout == ""
    assert machine.run("ctr -n schedkit containers ls -q").stdout == ""
    assert "schedkit" not in machine.run("systemctl list-units --all --plain --no-legend").stdout


@pytest.mark.parametrize(
    ("command", "unit", "key", "told"),
    [
        (
            "run scx_stall --restart on-failure:1 -- 5",
            "schedkit-run.service",
            "restarted",
            "is not started again any more",
        ),
        ("enable scx_stall -- 5", "schedkit.service", "enabled", "is enabled and does not run"),
    ],
)
def test_scheduler_that_stalls_again_and_again_is_given_up_and_status_says_so(
    schedctl: Schedctl, command: str, unit: str, key: str, told: str
) -> None:
    machine = schedctl.machine
    if key == "enabled":  # five more stalls would take minutes here: one more, as an administrator would say it
        few = f"mkdir -p {FEW.parent} && printf '[Unit]\\nStartLimitBurst=2\\n' >{FEW}"
        machine.run(few, timeout=SECONDS)
    schedctl.run(command)

    def probe() -> bool:
        state = machine.run(f"systemctl is-failed {unit} || true", timeout=SECONDS).stdout.strip()
        if state != "failed":
            raise NotYetError(f"{state}: {machine.run('journalctl -n 10 -o cat --no-pager').stdout}")
        return True

    wait_for("systemd to give up", probe, 2 * SECONDS, interval=1)
    assert read_slot(machine) == Slot("disabled", "")
    status = schedctl.read("status")
    assert (status[key]["state"], status[key]["exit_code"]) == ("failed", 12)
    assert f"scx_stall {told}: systemd gave up on it (exit code 12, EJECTED)" in status["explanation"]
    assert status["remedy"] == f"journalctl -u {unit}"
    assert "the kernel ejected" in machine.run(f"journalctl -u {unit} -o cat --no-pager").stdout
    if key == "enabled":
        schedctl.run("disable")
        machine.run(f"rm -r {FEW.parent}")


def test_trial_goes_back_though_everything_is_killed_and_at_once_when_it_is_ejected(schedctl: Schedctl) -> None:
    machine = schedctl.machine
    schedctl.run("enable scx_fifo")
    # Long enough for a slow machine to be killed twice in it.
    trial = schedctl.read("trial scx_stubborn --for 30s")
    assert (trial["trial"]["back_to"], trial["replaced"]["name"]) == ("scx_fifo", "scx_fifo")
    ended = time.monotonic() + 10
    while time.monotonic() < ended:
        machine.run("systemctl kill --signal=KILL schedkit-trial.service || true", timeout=SECONDS)
        time.sleep(3)
    wait_for_slot(machine, Slot("enabled", FIFO))
    assert "its 30 s are over; back to scx_fifo" in machine.run("journalctl -u schedkit-trial -o cat --no-pager").stdout
    wait_for("its unit to look after it again", lambda: is_active(machine, "schedkit.service"), SECONDS, interval=1)
    schedctl.run("trial scx_stall --for 10m -- 15")  # seconds, so that it is seen attached first

    def probe() -> bool:
        if read_slot(machine) != Slot("enabled", FIFO):
            raise NotYetError("scx_fifo is not back")
        told = schedctl.read("status")
        if told["status"] != "running" or told["trial"]["phase"] != "ended":
            raise NotYetError(str(told["explanation"]))
        assert "stall" in told["trial"]["why"]
        assert told["trial"]["seconds_left"] == 0
        return True

    wait_for("the trial to end", probe, SECONDS, interval=1)
    assert read_slot(machine) == Slot("enabled", FIFO)
    schedctl.run("trial scx_stubborn --for 10m")
    schedctl.run("keep")
    assert read_slot(machine) == Slot("enabled", STUBBORN)
    assert [one["name"] for one in schedctl.read("ps --all")["containers"]] == ["scx_stubborn"]
    assert schedctl.read("restore")["replaced"]["name"] == "scx_stubborn"
    assert read_slot(machine) == Slot("enabled", FIFO)


def test_update_takes_the_newer_version_and_the_unit_goes_on_with_it(schedctl: Schedctl) -> None:
    machine = schedctl.machine
    before = schedctl.read("enable scx_fifo")["enabled"]
    newer = {"scx_fifo": {"imageURI": f"{REGISTRY}/scx_fifo:v2"}}
    machine.guest.write("/root/newer.json", json.dumps(newer).encode())
    assert schedctl.read("update --check")["newer"] is False
    told = schedctl.read("update --check --catalog /root/newer.json", code=19)
    assert (told["digest"], told["unit"]) == (before["digest"], "schedkit.service")
    steps = schedctl.run("update --dry-run --catalog /root/newer.json").stdout
    assert f"would have schedkit.service start {told['newest_digest']} at boot, in place of {before['digest']}" in steps
    assert read_slot(machine) == Slot("enabled", FIFO)

    updated = schedctl.read("update --catalog /root/newer.json")
    assert (updated["replaced"]["name"], updated["gap_seconds"] > 0) == ("scx_fifo", True)
    assert read_slot(machine) == Slot("enabled", FIFO2)
    enabled = schedctl.read("status")["enabled"]
    assert (enabled["digest"], enabled["verified"]) == (told["newest_digest"], before["verified"])
    wait_for("its unit to look after it", lambda: is_active(machine, "schedkit.service"), SECONDS, interval=1)
    machine.run("systemctl restart schedkit.service", timeout=SECONDS)
    wait_for_slot(machine, Slot("enabled", FIFO2))


def is_active(machine: Machine, unit: str) -> bool:
    state = machine.run(f"systemctl is-active {unit} || true", timeout=SECONDS).stdout.strip()
    if state != "active":
        raise NotYetError(state)
    return True
