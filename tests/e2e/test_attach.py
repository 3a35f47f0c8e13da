"""Each fixture on both kernels: what the kernel says of it is what the other tests count on.

They run as plain processes here; that a container of each runtime attaches too is shown in test_kernel.py.
"""

import pytest

from lab.machine import Machine
from lab.process import Result
from tests.e2e.conftest import FIXTURES, LOG, Slot, read_slot, start_fixture, wait_attached, wait_detached

pytestmark = pytest.mark.parametrize("machine", ["6.12", "newest"], indirect=True, scope="module")


def run_fixture(machine: Machine, name: str, *arguments: str) -> Result:
    """Run a fixture until it ends by itself."""
    return machine.run(" ".join((f"{FIXTURES}/{name}", *arguments)), check=False, timeout=120)


def read_enable_seq(machine: Machine) -> int:
    return int(machine.run("cat /sys/kernel/sched_ext/enable_seq").stdout)


def test_working_scheduler_attaches_and_leaves_when_told(machine: Machine) -> None:
    assert read_slot(machine) == Slot("disabled", "")
    before = read_enable_seq(machine)

    pid = start_fixture(machine, "scx_fifo-v1")
    wait_attached(machine, "schedkit_fifo")
    assert read_enable_seq(machine) == before + 1
    assert "attached schedkit_fifo" in machine.run(f"cat {LOG}").stdout

    second = run_fixture(machine, "scx_fifo-v2")
    assert second.code == 1
    assert "EBUSY" in second.stderr
    assert read_slot(machine).ops == "schedkit_fifo"

    machine.run(f"kill {pid}")
    wait_detached(machine)


def test_stalling_scheduler_is_ejected_and_says_why(machine: Machine) -> None:
    machine.run("dmesg --clear")
    stalled = run_fixture(machine, "scx_stall-v1", "1")

    assert stalled.code == 2
    assert "kind=1026" in stalled.stderr
    assert "runnable task stall" in stalled.stderr
    assert "schedkit_stall" in machine.run("dmesg").stdout
    wait_detached(machine)


def test_verifier_refuses_the_scheduler_that_reads_out_of_bounds(machine: Machine) -> None:
    rejected = run_fixture(machine, "scx_reject-v1")

    assert rejected.code == 1
    assert "BPF program load failed" in rejected.stderr
    assert read_slot(machine) == Slot("disabled", "")


def test_idle_scheduler_runs_without_attaching(machine: Machine) -> None:
    pid = start_fixture(machine, "scx_idle-v1")

    machine.run(f"until grep -q 'never attaches' {LOG}; do sleep 0.1; done; kill -0 {pid}")
    assert read_slot(machine) == Slot("disabled", "")
    machine.run(f"kill {pid}")


def test_stubborn_scheduler_leaves_only_when_killed(machine: Machine) -> None:
    pid = start_fixture(machine, "scx_stubborn-v1")
    wait_attached(machine, "schedkit_stubborn")

    machine.run(f"kill -TERM {pid}; true; kill -0 {pid}")  # by the second signal the first has been delivered
    assert read_slot(machine).ops == "schedkit_stubborn"

    machine.run(f"kill -KILL {pid}")
    wait_detached(machine)


def test_mortal_scheduler_dies_by_itself(machine: Machine) -> None:
    died = run_fixture(machine, "scx_mortal-v1", "1")

    assert died.code == 3
    assert "attached schedkit_mortal" in died.stdout
    wait_detached(machine)
