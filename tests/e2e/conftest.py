"""What the end-to-end tests ask a guest."""

import shlex
from dataclasses import dataclass

import pytest

from lab.cluster import Cluster
from lab.errors import GuestError
from lab.machine import Machine
from lab.node import join
from lab.process import Result

LONGEST = ("test_rollouts.py", "test_lasting.py", "test_sked.py", "test_schedctl.py", "test_schedctl_reading.py")
ATTACH_SECONDS = 600  # an emulated machine beside others is slow; what comes sooner is not waited for
FIXTURES = "/opt/fixtures"
LOG = "/run/fixture.log"
SCX = "/sys/kernel/sched_ext"
# The kubelet doubles its pause before each restart, from 10 seconds to minutes; nothing here depends on how long it is.
BACK_OFF = "crashLoopBackOff: {maxContainerRestartPeriod: 5s}"


@dataclass(frozen=True)
class Slot:
    """The kernel's one place for a scheduler, as the kernel shows it."""

    state: str
    ops: str


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest, so that what comes last is short: two run at a time."""
    order = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.path.name, len(LONGEST)))


def join_impatient(machine: Machine, cluster: Cluster, name: str) -> Machine:
    """Make a machine a node whose kubelet restarts what crashed after a short while."""
    machine.run(f"echo '{BACK_OFF}' >>/etc/kubernetes/kubelet.yaml")
    join(machine, cluster, name)
    return machine


def read_slot(machine: Machine) -> Slot:
    said = machine.run(f"cat {SCX}/state; cat {SCX}/root/ops 2>/dev/null || true")
    state, _, ops = said.stdout.partition("\n")
    return Slot(state.strip(), ops.strip())


def wait_attached(machine: Machine, ops: str) -> None:
    """Until the kernel says that a scheduler whose ops name begins so is enabled."""
    _wait(machine, "enabled", f"{ops}*")


def wait_detached(machine: Machine) -> None:
    """Until the kernel says that it has no scheduler."""
    _wait(machine, "disabled", "")


def start_fixture(machine: Machine, name: str, *arguments: str, log: str = LOG) -> int:
    """Start a fixture as a plain process, its output in a file; returns its process id."""
    words = " ".join((f"{FIXTURES}/{name}", *arguments))
    return int(machine.run(f"setsid {words} >{log} 2>&1 </dev/null & echo $!").stdout)


def _wait(machine: Machine, state: str, ops: str) -> None:
    look = f"state= ops=; read -r state <{SCX}/state; {{ read -r ops <{SCX}/root/ops; }} 2>/dev/null"
    wanted = f"[[ $state == {state} && {f'$ops == {ops}' if ops else '-z $ops'} ]]"
    said = watch(machine, look, wanted, "$state $ops", ATTACH_SECONDS)
    if said.code:
        raise GuestError(f"waited for {state} {ops}; last seen: {said.stdout.strip()}")


def watch(machine: Machine, look: str, wanted: str, tell: str, seconds: float) -> Result:
    """Look in the guest again and again until it is as wanted, and tell what was seen; status 1 when it never is.

    One shell does it all and starts no program: asking from here, or a `sleep` at each turn, costs as much as what is
    waited for. It pauses by reading a pipe into which nobody writes.
    """
    loop = f"while [ $SECONDS -lt {seconds:.0f} ]; do {look}; {wanted} && break; read -rt 0.2 <&3; done"
    script = shlex.quote(f'exec 3<> <(:) && {loop}; printf %s "{tell}"; {wanted}')
    return machine.run(f"bash -c {script}", check=False, timeout=seconds * 3)
