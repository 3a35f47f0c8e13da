"""What the end-to-end tests ask a guest."""

from dataclasses import dataclass

from lab.machine import Machine
from lab.waiting import NotYetError, wait_for

ATTACH_SECONDS = 60.0


@dataclass(frozen=True)
class Slot:
    """The kernel's one place for a scheduler, as the kernel shows it."""

    state: str
    ops: str


def read_slot(machine: Machine) -> Slot:
    said = machine.run("cat /sys/kernel/sched_ext/state; cat /sys/kernel/sched_ext/root/ops 2>/dev/null || true")
    state, _, ops = said.stdout.partition("\n")
    return Slot(state.strip(), ops.strip())


def wait_attached(machine: Machine, ops: str) -> None:
    """Until the kernel says that a scheduler whose ops name begins so is enabled."""

    def probe() -> bool:
        slot = read_slot(machine)
        if slot.state != "enabled" or not slot.ops.startswith(ops):
            raise NotYetError(repr(slot))
        return True

    wait_for(f"{ops} to be attached", probe, ATTACH_SECONDS)


def wait_detached(machine: Machine) -> None:
    def probe() -> bool:
        slot = read_slot(machine)
        if slot != Slot("disabled", ""):
            raise NotYetError(repr(slot))
        return True

    wait_for("the kernel to be without a scheduler", probe, ATTACH_SECONDS)
