"""Stop what we run: end it, see the kernel detach it, and remove what it leaves."""

import time
from collections.abc import Sequence
from typing import NamedTuple

from schedkit.errors import NotFoundError, SchedkitError, UsageError
from schedkit.host import containers
from schedkit.host.errors import NotDetachedError
from schedkit.host.lock import hold_lock
from schedkit.host.machine import Machine
from schedkit.host.managed import observe
from schedkit.host.model import Attachment, Host, Managed, Observed
from schedkit.host.slot import find_doubts, hint_ending, name_ops
from schedkit.kernel.changes import Changes
from schedkit.kernel.holder import describe_holder
from schedkit.kernel.state import KernelState, State
from schedkit.runtimes.container import Container
from schedkit.runtimes.view import unseen

STOP_SECONDS = 10.0
_DETACH_SECONDS = 10.0  # from the process's end until the kernel has put all tasks back


class NotStopped(NamedTuple):
    """A container that could not be stopped or removed."""

    container: Container
    error: SchedkitError


class Stopped(NamedTuple):
    """A container that is no more."""

    container: Container
    scheduler: str
    was_attached: bool
    killed: bool
    exit_code: int | None
    seconds: float


def stop(host: Host, which: str | None, *, timeout: float = STOP_SECONDS) -> Stopped:
    """Stop the one that `which` names, or the only one there is; of ended ones, remove what is left."""
    with hold_lock(host.machine.lock):
        observed = observe(host.machine, host.runtimes)
        return _stop(host, observed, find(observed, which), timeout)


def stop_all(host: Host, *, timeout: float = STOP_SECONDS) -> tuple[list[Stopped], list[NotStopped]]:
    """Stop and remove all that schedctl manages, each whatever became of the others; nothing to do is fine."""
    with hold_lock(host.machine.lock):
        observed = observe(host.machine, host.runtimes)
        for hidden in observed.hidden:
            host.progress.warn(f"{hidden}: what it runs stays")
        # The attached one last: those beside it would take the slot the moment it is free.
        ordered = sorted(observed.managed, key=lambda one: one.attachment is Attachment.YES)
        done: list[Stopped] = []
        failed: list[NotStopped] = []
        for one in ordered:
            try:
                done.append(_stop(host, observed, one, timeout))
            except SchedkitError as error:  # the others are meant as well
                failed.append(NotStopped(one.container, error))
        return done, failed


def find(observed: Observed, which: str | None) -> Managed:
    """Find a container by id or its beginning, by name, or by scheduler; what runs goes before what has ended."""
    for candidates in (observed.running, observed.managed):
        for matching in _match(candidates, which):
            if len(matching) == 1:
                return matching[0]
            if matching:
                raise UsageError(
                    "which one? " + ", ".join(_tell(one) for one in matching),
                    hint="name one of them by its id, or all with --all",
                )
    what = f"no container managed by schedctl is called {which}" if which else "schedctl has no container"
    # What holds the slot may also be in a container of a runtime that has no socket now.
    doubts = observed.hidden or find_doubts(observed)
    if doubts:
        raise unseen(what, doubts)
    if observed.managed:
        raise NotFoundError(what, hint="`schedctl ps --all` lists them")
    if observed.kernel.state in (State.ENABLED, State.ENABLING, State.DISABLING):
        attached = f"{name_ops(observed.kernel)} is attached, {describe_holder(observed.holder)}"
        raise NotFoundError(f"{what}; {attached}, not managed by schedctl", hint=hint_ending(observed.holder))
    raise NotFoundError(what, hint="`schedctl status` shows what the kernel runs")


def wait_detached(machine: Machine, changes: Changes, attached: KernelState) -> None:
    """Until the scheduler that was attached is not any more; another that came meanwhile is not its fault."""
    now = changes.wait_until(lambda now: is_gone(now, attached), _DETACH_SECONDS)
    if is_gone(now, attached):
        return
    from schedkit.kernel.holder import read_holder

    holder = describe_holder(read_holder(machine.root))
    raise NotDetachedError(
        f"{name_ops(now)} was stopped, but the kernel still says {now.state}, {holder}",
        hint="`schedctl detach` ends it in the kernel",
    )


def is_gone(now: KernelState, attached: KernelState) -> bool:
    """Whether the kernel detached what was attached."""
    return now.state in (State.DISABLED, State.UNSUPPORTED) or (
        isinstance(now.enable_seq, int)
        and isinstance(attached.enable_seq, int)
        and now.enable_seq > attached.enable_seq
    )


def _stop(host: Host, observed: Observed, one: Managed, timeout: float) -> Stopped:
    machine, progress = host.machine, host.progress
    container, runtime = one.container, host.runtimes.find(one.container)
    attached = one.attachment is Attachment.YES
    begun = time.monotonic()
    ended = containers.Ended(container.exit_code, killed=False)
    with Changes(machine.root) as changes:
        if one.running:
            progress.step(f"stopping {container.name}")
            ended = containers.end(runtime, container.id, timeout)
            if ended.killed:
                progress.warn(f"{container.name} ignored SIGTERM for {timeout:.0f} s and was killed")
        progress.step(f"removing the container {container.name}")
        runtime.remove(container.id)
        if attached:
            wait_detached(machine, changes, observed.kernel)
    return Stopped(container, one.scheduler, attached, ended.killed, ended.exit_code, time.monotonic() - begun)


def _match(candidates: Sequence[Managed], which: str | None) -> list[list[Managed]]:
    """The ways to be meant, the most exact first."""
    if which is None:
        return [list(candidates)]
    return [
        [one for one in candidates if one.container.id == which],
        [one for one in candidates if one.container.name == which],
        [one for one in candidates if one.container.id.startswith(which)] if which else [],
        [one for one in candidates if one.scheduler == which],
    ]


def _tell(one: Managed) -> str:
    return f"{one.container.name} ({one.container.driver} {one.container.id[:12]})"
