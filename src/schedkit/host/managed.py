"""Join what the runtimes run with what the kernel says: which of our containers is in the slot."""

import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from schedkit.host.machine import Machine
from schedkit.host.model import Attachment, Managed, Observed
from schedkit.kernel.holder import Holder, read_holder
from schedkit.kernel.names import is_same_scheduler
from schedkit.kernel.state import KernelState, State, read_state
from schedkit.runtimes.container import Container, ContainerState
from schedkit.runtimes.labels import Label
from schedkit.runtimes.view import Runtimes
from schedkit.unknown import Unknown

_TRIES = 3  # to see runtimes and kernel while nothing changes
_LINK_SECONDS = 0.3  # what lies at most between the kernel saying enabled and the link being open in its process


def observe(machine: Machine, runtimes: Runtimes) -> Observed:
    """Query the kernel and all runtimes; those that fail are reported as unreachable."""
    observed = _look(machine, runtimes)
    for _ in range(_TRIES - 1):
        now = read_state(machine.root)
        if (now.state, now.enable_seq) == (observed.kernel.state, observed.kernel.enable_seq):
            break
        observed = _look(machine, runtimes)
    return observed


def read_slot(root: Path) -> tuple[KernelState, Holder | Unknown | None]:
    """The kernel's state, and who holds its slot if one is attached."""
    kernel = read_state(root)
    if kernel.state not in (State.ENABLED, State.ENABLING, State.DISABLING):
        return kernel, None
    holder = read_holder(root)
    # The kernel says enabled a moment before the process has the link among its files.
    deadline = time.monotonic() + _LINK_SECONDS
    while holder is None and kernel.state is State.ENABLED and time.monotonic() < deadline:
        time.sleep(0.02)
        kernel, holder = read_state(root), read_holder(root)
    return kernel, holder


def join(
    containers: Iterable[Container],
    kernel: KernelState,
    holder: Holder | Unknown | None,
    watched: Mapping[str, bool],
) -> list[Managed]:
    """What each container is to the kernel; `watched` says by id whether a unit of systemd restarts it."""
    managed = []
    for container in containers:
        scheduler = name_scheduler(container)
        attachment, why = decide_attachment(container, scheduler, kernel, holder)
        restart = container.labels.get(Label.RESTART, "no")
        managed.append(
            Managed(
                container=container,
                scheduler=scheduler,
                attachment=attachment,
                verified=container.labels.get(Label.VERIFIED, ""),
                restart=restart,
                why=why,
                watched=watched.get(container.id),
            )
        )
    return managed


def name_scheduler(container: Container) -> str:
    """Read schedctl's label; the Go schedctl wrote none, and there it is the last word of the image's path."""
    named = container.labels.get(Label.SCHEDULER)
    return named or _last_word(container.labels.get(Label.IMAGE, container.image)) or container.name


def decide_attachment(
    container: Container, scheduler: str, kernel: KernelState, holder: Holder | Unknown | None
) -> tuple[Attachment, str]:
    """Whether this container's scheduler is in the slot, and why not or why nobody knows."""
    if container.state is ContainerState.CREATED:
        return Attachment.NO, "it was never started"
    if container.state is ContainerState.EXITED:
        code = "" if container.exit_code is None else f" with exit code {container.exit_code}"
        return Attachment.NO, f"it has ended{code}"
    if isinstance(kernel.state, Unknown):
        return Attachment.UNKNOWN, kernel.state.why
    if kernel.state is not State.ENABLED:
        return Attachment.NO, f"the kernel says {kernel.state}"
    if isinstance(holder, Holder):
        if is_held_by(container, holder):
            return Attachment.YES, ""
        if isinstance(holder.container, Unknown):
            return Attachment.UNKNOWN, f"process {holder.pid} ({holder.command}) holds the slot; {holder.container.why}"
        return Attachment.NO, f"process {holder.pid} ({holder.command}) holds the slot"
    if isinstance(kernel.ops, Unknown):
        return Attachment.UNKNOWN, kernel.ops.why
    same = kernel.ops is not None and is_same_scheduler(scheduler, kernel.ops)
    if isinstance(holder, Unknown):
        likely = ", likely by this container" if same else ""
        return Attachment.UNKNOWN, f"who holds {kernel.ops} could not be read{likely}: {holder.why}"
    if same:
        return Attachment.YES, ""
    return Attachment.NO, f"the kernel says {kernel.ops}"


def is_held_by(container: Container, holder: Holder) -> bool:
    """Whether the process that holds the slot is this container's, or one of its children."""
    return holder.pid == container.pid or holder.container == container.id


def _look(machine: Machine, runtimes: Runtimes) -> Observed:
    kernel, holder = read_slot(machine.root)
    containers = runtimes.fetch_containers()
    lasting = [one.id for one in containers if one.labels.get(Label.RESTART, "no") != "no"]
    watched = dict.fromkeys(lasting, bool(lasting) and _has_unit(machine.root))
    return Observed(kernel, holder, tuple(join(containers, kernel, holder, watched)), tuple(runtimes.unreachable))


def _has_unit(root: Path) -> bool:
    from schedkit.host.units import ENABLED, RERUN, is_running

    return is_running(root, ENABLED) or is_running(root, RERUN)


def _last_word(image: str) -> str:
    return image.partition("@")[0].rpartition("/")[2].partition(":")[0]
