"""Replace the running scheduler by another, with the kernel without one for as short as can be."""

import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from schedkit.errors import SchedkitError, UsageError
from schedkit.host import containers
from schedkit.host.attaching import AttachAttempt
from schedkit.host.errors import NotAttachedError, NotDetachedError, RolledBackError, SchedulerError
from schedkit.host.lock import hold_lock
from schedkit.host.model import Attachment, Host, Managed, Observed, ProgressReporter, RunRequest, Switched, Verify
from schedkit.host.preparing import check_image, check_runtimes, observe_settled, pull
from schedkit.host.slot import check_free, name_ops, taken
from schedkit.host.stop import STOP_SECONDS, is_gone
from schedkit.kernel.changes import Changes
from schedkit.kernel.state import KernelState, State
from schedkit.runtimes.container import ContainerState
from schedkit.runtimes.model import Runtime
from schedkit.runtimes.view import Runtimes

_KILLED_SECONDS = 10.0  # from SIGKILL until the kernel has detached it
_BACK_SECONDS = 30.0  # what the old one gets at least to attach again


@dataclass
class _Old:
    """What is to be replaced, and whether it was told to leave."""

    managed: Managed
    runtime: Runtime
    attached: bool
    told: bool = False


def check_switch(host: Host, scheduler: str) -> Managed | None:
    """What can be known before the network is asked: what would be replaced, if it may be, and a runtime there."""
    old = _find_old(observe_settled(host), host.runtimes, scheduler)
    check_runtimes(host)
    return old.managed if old else None


def switch(
    host: Host,
    request: RunRequest,
    verify: Verify,
    *,
    stop_timeout: float = STOP_SECONDS,
    begin: Callable[[Managed | None], None] | None = None,
) -> Switched:
    """Everything that can be is done before the old one stops; if the new one does not attach, the old one comes back.

    `begin` is told, under the lock and before anything ends, what will be replaced; with it the old container is kept.
    The gap is from the moment we see the kernel detach the old scheduler to the moment we see the new one enabled.
    """
    check_image(host, request)
    verified = verify(request.image)
    pull(host, request)
    runtime = host.runtimes.chosen
    with hold_lock(host.machine.lock):
        observed = observe_settled(host)
        old = _find_old(observed, host.runtimes, request.scheduler)
        name = containers.choose_name(runtime, request, host.progress)
        spec = containers.make_spec(host.machine, request, name, verified)
        id = containers.create(runtime, request, spec, host.progress)
        try:
            if begin:
                begin(old.managed if old else None)
            switched = _exchange(host, id, request, observed, old, stop_timeout)
        except BaseException as error:
            containers.discard(runtime, id, host.progress)
            if old and old.told:
                _bring_back(host, old, request, error)
            raise
        if old and begin:
            _settle_old(old)
        elif old:
            _remove_old(old, host.progress)
            if request.replace and request.name and name != request.name:
                return _take_name(host, switched, request.name)
        return switched


def _find_old(observed: Observed, runtimes: Runtimes, scheduler: str) -> _Old | None:
    running = observed.running
    if len(running) > 1:
        raise UsageError(
            "several containers managed by schedctl run: " + ", ".join(one.container.name for one in running),
            hint="`schedctl stop` all but one of them first",
        )
    if not running:
        check_free(observed, scheduler)
        return None
    one = running[0]
    attached = observed.kernel.state is State.ENABLED
    if attached and one.attachment is Attachment.NO:
        raise taken(observed, scheduler)
    return _Old(one, runtimes.find(one.container), attached)


def _exchange(
    host: Host, id: str, request: RunRequest, observed: Observed, old: _Old | None, stop_timeout: float
) -> Switched:
    machine, progress = host.machine, host.progress
    with (
        AttachAttempt(machine, host.runtimes.chosen, id, request.scheduler) as attempt,
        Changes(machine.root) as changes,
    ):
        free_since = None
        if old:
            progress.step(f"stopping {old.managed.container.name}")
            free_since = _end_old(changes, old, observed.kernel, stop_timeout, progress)
        attempt.start()
        progress.step(f"waiting for the kernel to attach {request.scheduler}")
        attached = attempt.wait(request.timeout)
        gap = attempt.attached_at - free_since if old and old.attached and free_since is not None else None
        return Switched(attached, old.managed.container if old else None, gap)


def _end_old(changes: Changes, old: _Old, kernel: KernelState, timeout: float, progress: ProgressReporter) -> float:
    """Stop it and return the moment at which the kernel was seen without it; its container may take longer to end."""
    container, runtime = old.managed.container, old.runtime
    old.told = True
    if not old.attached:
        containers.end(runtime, container.id, timeout)
        return time.monotonic()
    runtime.signal(container.id, signal.SIGTERM)
    now = changes.wait_until(lambda now: is_gone(now, kernel), timeout)
    if not is_gone(now, kernel):
        progress.warn(f"{container.name} ignored SIGTERM for {timeout:.0f} s and was killed")
        runtime.signal(container.id, signal.SIGKILL)
        now = changes.wait_until(lambda now: is_gone(now, kernel), _KILLED_SECONDS)
    free_since = time.monotonic()
    if not is_gone(now, kernel):
        raise NotDetachedError(
            f"{container.name} was killed, but the kernel still says that {name_ops(now)} is attached",
            hint="`schedctl detach` ends it in the kernel",
        )
    return free_since


def _bring_back(host: Host, old: _Old, request: RunRequest, error: BaseException) -> None:
    """Restart the previous scheduler, then raise RolledBackError (NotAttachedError if that fails too)."""
    name, runtime, id = old.managed.container.name, old.runtime, old.managed.container.id
    log = error.log if isinstance(error, SchedulerError) else ()
    told = error.message if isinstance(error, SchedkitError) else "interrupted"
    host.progress.step(f"{request.scheduler} did not attach: starting {name} again")
    try:
        if runtime.fetch_container(id).state is not ContainerState.EXITED:
            containers.end(runtime, id, STOP_SECONDS)  # it may be just leaving
        with AttachAttempt(host.machine, runtime, id, old.managed.scheduler) as attempt:
            attempt.start()
            if old.attached:
                attempt.wait(max(_BACK_SECONDS, request.timeout))
    except SchedkitError as failure:
        raise NotAttachedError(
            f"{told}; and {name} did not come back: {failure.message}",
            hint=f"`schedctl status` shows what is attached now, `schedctl logs {name}` its output",
            log=log or (failure.log if isinstance(failure, SchedulerError) else ()),
        ) from error
    if isinstance(error, SchedkitError):
        raise RolledBackError(f"{told}. {name} runs again", cause=error, hint=error.hint, log=log) from error


def _settle_old(old: _Old) -> None:
    """One that is kept has ended when the lock is given back: it may be just leaving."""
    with suppress(SchedkitError):  # the new one is attached: what is wrong here shows on the way back
        if old.runtime.wait(old.managed.container.id, STOP_SECONDS) is None:
            containers.kill(old.runtime, old.managed.container.id)


def _take_name(host: Host, switched: Switched, name: str) -> Switched:
    """Rename the new container as the old one was called; as with removing that, a failure undoes nothing."""
    runtime, id = host.runtimes.chosen, switched.attached.container.id
    try:
        runtime.rename(id, name)
        return switched._replace(attached=switched.attached._replace(container=runtime.fetch_container(id)))
    except SchedkitError as error:
        host.progress.warn(f"the container keeps the name {switched.attached.container.name}: {error.message}")
        return switched


def _remove_old(old: _Old, progress: ProgressReporter) -> None:
    """After success: what cannot be removed is told, and does not undo the switch."""
    progress.step(f"removing the container {old.managed.container.name}")
    containers.discard(old.runtime, old.managed.container.id, progress)
