"""Run one scheduler: everything up to the kernel saying that it is attached, or nothing at all."""

from collections.abc import Callable, Sequence

from schedkit.errors import NotFoundError
from schedkit.host import containers
from schedkit.host.attaching import AttachAttempt
from schedkit.host.lock import hold_lock
from schedkit.host.model import Host, Managed, RunRequest, RunResult, Verify
from schedkit.host.preparing import check_image, check_runtimes, observe_settled, pull
from schedkit.host.slot import check_free
from schedkit.kernel.state import State
from schedkit.runtimes.labels import Label, is_unprivileged
from schedkit.runtimes.model import ContainerSpec


def check_run(host: Host, scheduler: str) -> None:
    """What can be known before the network is asked: whether the slot is free, and a runtime there."""
    check_free(observe_settled(host), scheduler)
    check_runtimes(host)


def find_same(
    host: Host,
    find_reference: Callable[[], str],
    args: Sequence[str],
    name: str | None = None,
    files: Sequence[str] = (),
    *,
    unprivileged: bool = False,
) -> Managed | None:
    """A container that runs just this: the same image by name, with the same arguments, files and rights.

    What the image's name is may cost a catalog, so that is asked only where something runs that could be it.
    """
    wanted = containers.format_args(args), containers.format_args(files)
    alike = [
        one
        for one in observe_settled(host).running
        if (one.container.labels.get(Label.ARGS), one.container.labels.get(Label.FILES, "[]")) == wanted
        and name in (None, one.container.name)
        and is_unprivileged(one.container.labels) == unprivileged
    ]
    if not alike:
        return None
    try:
        reference = find_reference()
    except NotFoundError:
        return None  # a name that no catalog knows is not what runs, and that something does comes first
    return next((one for one in alike if one.container.labels.get(Label.IMAGE) == reference), None)


def remove_unattached(host: Host, same: Managed) -> None:
    """End what an earlier command left when it was killed before its scheduler attached."""
    with hold_lock(host.machine.lock):
        observed = observe_settled(host)
        runs = same.container.id in [one.container.id for one in observed.running]
        if runs and observed.kernel.state is State.DISABLED:
            host.progress.step(f"removing {same.container.name}, which runs and is not attached")
            containers.discard(host.runtimes.find(same.container), same.container.id, host.progress)


def run(host: Host, request: RunRequest, verify: Verify) -> RunResult:
    """Verify, pull, create, start, wait; whatever goes wrong or interrupts it leaves no container."""
    check_image(host, request)
    verified = verify(request.image)
    pull(host, request)
    runtime = host.runtimes.chosen
    with hold_lock(host.machine.lock):
        check_free(observe_settled(host), request.scheduler)  # again: resolving and pulling take their time
        name = containers.choose_name(runtime, request, host.progress)
        spec = containers.make_spec(host.machine, request, name, verified)
        id = containers.create(runtime, request, spec, host.progress)
        try:
            return _start(host, id, request, spec)
        except BaseException:
            host.progress.step(f"removing the container {name}")
            containers.discard(runtime, id, host.progress)
            raise


def _start(host: Host, id: str, request: RunRequest, spec: ContainerSpec) -> RunResult:
    runtime = host.runtimes.chosen
    with AttachAttempt(host.machine, runtime, id, request.scheduler) as attempt:
        host.progress.step(f"starting {spec.name}")
        attempt.start()
        if not request.wait:
            return RunResult(runtime.fetch_container(id), None, 0.0)
        host.progress.step(f"waiting for the kernel to attach {request.scheduler}")
        return attempt.wait(request.timeout)
