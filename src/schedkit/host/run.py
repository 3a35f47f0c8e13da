"""Run one scheduler: everything up to the kernel saying that it is attached, or nothing at all."""

from collections.abc import Sequence

from schedkit.host import containers
from schedkit.host.attaching import Attempt
from schedkit.host.errors import KernelUnfitError
from schedkit.host.lock import hold_lock
from schedkit.host.managed import observe
from schedkit.host.model import Attached, Machine, Observed, RunRequest, Talk, Verify
from schedkit.host.slot import check_free
from schedkit.kernel.changes import Changes
from schedkit.kernel.check import Outcome
from schedkit.kernel.preflight import find_obstacles
from schedkit.kernel.state import State, read_state
from schedkit.runtimes.labels import MIN_KERNEL
from schedkit.runtimes.model import ContainerSpec, Runtime

OLDEST_KERNEL = "6.12"
_SETTLE_SECONDS = 5.0  # an attach or detach that is under way ends by then


def run(
    machine: Machine,
    runtime: Runtime,
    all_runtimes: Sequence[Runtime],
    request: RunRequest,
    verify: Verify,
    talk: Talk,
) -> Attached:
    """Preflight, slot, verify, pull, create, start, wait; whatever goes wrong or interrupts it leaves no container."""
    check_kernel(machine, request)
    # Before the pull, so that nobody waits for one in vain; again under the lock, as a pull takes its time.
    check_free(look(machine, all_runtimes), request.scheduler)
    verified = verify(request.image)
    pull(runtime, request, talk)
    with hold_lock(machine.lock):
        check_free(look(machine, all_runtimes), request.scheduler)
        name = containers.choose_name(runtime, request, talk)
        spec = containers.make_spec(machine, request, name, verified)
        id = containers.create(runtime, request, spec, talk)
        try:
            return _start(machine, runtime, id, request, spec, talk)
        except BaseException:
            talk.step(f"removing the container {name}")
            containers.discard(runtime, id, talk)
            raise


def check_kernel(machine: Machine, request: RunRequest) -> None:
    """Everything that would keep it from loading and can be known before."""
    wanted = request.image.labels.get(MIN_KERNEL) or OLDEST_KERNEL
    blocking = [one for one in find_obstacles(machine.root, min_version=wanted) if one.outcome is Outcome.ERROR]
    if blocking:
        raise KernelUnfitError(
            f"{request.scheduler} cannot run on this machine: " + "; ".join(one.seen for one in blocking),
            hint=blocking[0].fix,
        )


def look(machine: Machine, runtimes: Sequence[Runtime]) -> Observed:
    """What is there once an attach or detach that is under way has ended."""
    if read_state(machine.root).state in (State.ENABLING, State.DISABLING):
        with Changes(machine.root) as changes:
            changes.wait_until(lambda now: now.state not in (State.ENABLING, State.DISABLING), _SETTLE_SECONDS)
    return observe(machine, runtimes)


def pull(runtime: Runtime, request: RunRequest, talk: Talk) -> None:
    """Have the image here."""
    talk.step(f"pulling {request.image.reference} ({request.image.size / 1e6:.0f} MB) with {runtime.driver}")
    runtime.pull(request.image, talk.progress)


def _start(
    machine: Machine, runtime: Runtime, id: str, request: RunRequest, spec: ContainerSpec, talk: Talk
) -> Attached:
    with Attempt(machine, runtime, id, request.scheduler) as attempt:
        talk.step(f"starting {spec.name}")
        attempt.start()
        if not request.wait:
            return Attached(runtime.fetch_container(id), None, 0.0)
        talk.step(f"waiting for the kernel to attach {request.scheduler}")
        return attempt.wait(request.timeout)
