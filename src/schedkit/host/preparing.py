"""What `run` and `switch` look at before they change anything, and the pull."""

from schedkit.host.errors import KernelUnfitError
from schedkit.host.machine import Machine
from schedkit.host.managed import observe
from schedkit.host.model import Host, Observed, RunRequest
from schedkit.kernel.changes import Changes
from schedkit.kernel.check import Outcome
from schedkit.kernel.preflight import OLDEST_KERNEL, find_obstacles
from schedkit.kernel.state import State, read_state
from schedkit.runtimes.labels import MIN_KERNEL

_SETTLE_SECONDS = 5.0  # an attach or detach that is under way ends by then


def check_kernel(machine: Machine, scheduler: str, wanted: str = OLDEST_KERNEL) -> None:
    """Everything that would keep it from loading and can be known before."""
    blocking = [one for one in find_obstacles(machine.root, min_version=wanted) if one.outcome is Outcome.ERROR]
    if blocking:
        raise KernelUnfitError(
            f"{scheduler} cannot run on this machine: " + "; ".join(one.seen for one in blocking),
            hint=blocking[0].fix,
        )


def check_image(host: Host, request: RunRequest) -> None:
    """Whether this kernel is new enough for the image, which says so once it is resolved."""
    check_kernel(host.machine, request.scheduler, request.image.labels.get(MIN_KERNEL) or OLDEST_KERNEL)


def observe_settled(host: Host) -> Observed:
    """What is there once an attach or detach that is under way has ended."""
    root = host.machine.root
    if read_state(root).state in (State.ENABLING, State.DISABLING):
        with Changes(root) as changes:
            changes.wait_until(lambda now: now.state not in (State.ENABLING, State.DISABLING), _SETTLE_SECONDS)
    return observe(host.machine, host.runtimes)


def check_runtimes(host: Host) -> None:
    """There must be a runtime for the new container; those that cannot be asked are told."""
    chosen = host.runtimes.chosen
    for one in host.runtimes.hidden:
        host.progress.warn(f"{one}: what it runs is not known; {chosen.driver} is used")


def pull(host: Host, request: RunRequest) -> None:
    """Pull the image."""
    runtime = host.runtimes.chosen
    host.progress.step(f"pulling {request.image.reference} ({request.image.size / 1e6:.0f} MB) with {runtime.driver}")
    runtime.pull(request.image, host.progress.progress)
