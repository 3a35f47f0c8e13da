"""What the end-to-end tests ask a guest."""

import shlex
from dataclasses import dataclass

from lab.errors import GuestError
from lab.machine import Machine

ATTACH_SECONDS = 60
FIXTURES = "/opt/fixtures"
LOG = "/run/fixture.log"
SCX = "/sys/kernel/sched_ext"


@dataclass(frozen=True)
class Slot:
    """The kernel's one place for a scheduler, as the kernel shows it."""

    state: str
    ops: str


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
    """Wait in the guest, by one shell: asking from here again and again costs as much as what is waited for."""
    look = f"state= ops=; read -r state <{SCX}/state; {{ read -r ops <{SCX}/root/ops; }} 2>/dev/null"
    wanted = f"[[ $state == {state} && {f'$ops == {ops}' if ops else '-z $ops'} ]]"
    loop = f"while [ $SECONDS -lt {ATTACH_SECONDS} ]; do {look}; {wanted} && exit 0; sleep 0.2; done"
    script = shlex.quote(f"{loop}; echo $state $ops; exit 1")
    said = machine.run(f"bash -c {script}", check=False, timeout=ATTACH_SECONDS * 3)
    if said.code:
        raise GuestError(f"waited for {state} {ops}; last seen: {said.stdout.strip()}")
