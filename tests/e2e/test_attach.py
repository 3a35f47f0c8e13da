"""On both kernels, from each runtime: the kernel says that the scheduler attached, and that it left."""

import pytest

from lab.machine import Machine
from tests.e2e.conftest import Slot, read_slot, wait_attached, wait_detached
from tests.e2e.runtimes import CONTAINERD, DOCKER, PODMAN, Runtime

pytestmark = pytest.mark.parametrize("machine", ["6.12", "newest"], indirect=True, scope="module")


@pytest.mark.parametrize("runtime", [PODMAN, DOCKER, CONTAINERD], ids=lambda runtime: runtime.name)
def test_working_scheduler_attaches_and_stop_detaches_it(machine: Machine, runtime: Runtime) -> None:
    assert read_slot(machine) == Slot("disabled", "")
    before = int(machine.run("cat /sys/kernel/sched_ext/enable_seq").stdout)

    runtime.run(machine, "scx_fifo:v1", "fifo")
    wait_attached(machine, "schedkit_fifo")
    assert int(machine.run("cat /sys/kernel/sched_ext/enable_seq").stdout) == before + 1
    assert "attached schedkit_fifo" in runtime.read_logs(machine, "fifo")

    runtime.end(machine, "fifo")
    wait_detached(machine)


def test_second_scheduler_is_refused_with_ebusy(machine: Machine) -> None:
    PODMAN.run(machine, "scx_fifo:v1", "first")
    wait_attached(machine, "schedkit_fifo")

    second = machine.run("podman run --rm --privileged localhost:5000/scx_fifo:v2", check=False)

    assert second.code == 1
    assert "EBUSY" in second.stderr
    assert read_slot(machine).ops == "schedkit_fifo"
    PODMAN.end(machine, "first")
    wait_detached(machine)


def test_stalling_scheduler_is_ejected_and_says_why(machine: Machine) -> None:
    machine.run("dmesg --clear")
    stalled = machine.run("podman run --rm --privileged localhost:5000/scx_stall:v1 1", check=False, timeout=120)

    assert stalled.code == 2
    assert "kind=1026" in stalled.stderr
    assert "runnable task stall" in stalled.stderr
    assert "schedkit_stall" in machine.run("dmesg").stdout
    wait_detached(machine)


def test_verifier_refuses_the_scheduler_that_reads_out_of_bounds(machine: Machine) -> None:
    rejected = machine.run("podman run --rm --privileged localhost:5000/scx_reject:v1", check=False)

    assert rejected.code == 1
    assert "BPF program load failed" in rejected.stderr
    assert read_slot(machine) == Slot("disabled", "")


def test_idle_scheduler_runs_without_attaching(machine: Machine) -> None:
    PODMAN.run(machine, "scx_idle:v1", "idle")

    assert machine.run("podman inspect -f '{{.State.Status}}' idle").stdout.strip() == "running"
    assert "never attaches" in PODMAN.read_logs(machine, "idle")
    assert read_slot(machine) == Slot("disabled", "")
    PODMAN.end(machine, "idle")


def test_stubborn_scheduler_leaves_only_when_killed(machine: Machine) -> None:
    PODMAN.run(machine, "scx_stubborn:v1", "stubborn")
    wait_attached(machine, "schedkit_stubborn")

    machine.run("podman kill -s TERM stubborn")
    machine.run("podman exec stubborn /none", check=False)  # by now the signal has been delivered
    assert read_slot(machine).ops == "schedkit_stubborn"

    machine.run("podman kill -s KILL stubborn")
    wait_detached(machine)
    machine.run("podman rm -f stubborn")


def test_mortal_scheduler_dies_by_itself(machine: Machine) -> None:
    died = machine.run("podman run --rm --privileged localhost:5000/scx_mortal:v1 1", check=False)

    assert died.code == 3
    assert "attached schedkit_mortal" in died.stdout
    wait_detached(machine)
