"""Stop what we run: end it, see the kernel let go of it, and remove what it leaves."""

import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from schedkit.errors import NotFoundError, UsageError
from schedkit.host import containers
from schedkit.host.errors import NotDetachedError
from schedkit.host.lock import hold_lock
from schedkit.host.managed import observe
from schedkit.host.model import Attachment, Machine, Managed, Observed, Talk
from schedkit.host.slot import describe_holder, name_ops
from schedkit.kernel.changes import Changes
from schedkit.kernel.state import KernelState, State
from schedkit.runtimes.container import Container
from schedkit.runtimes.drivers import Silent
from schedkit.runtimes.model import Runtime

STOP_SECONDS = 10.0
_DETACH_SECONDS = 10.0  # from the process's end until the kernel has put all tasks back


class Stopped(NamedTuple):
    """A container that is no more."""

    container: Container
    scheduler: str
    was_attached: bool
    killed: bool
    exit_code: int | None
    seconds: float


def stop(
    machine: Machine,
    runtimes: Sequence[Runtime],
    which: str | None,
    talk: Talk,
    *,
    timeout: float = STOP_SECONDS,
    silent: Iterable[Silent] = (),
) -> Stopped:
    """Stop the one that `which` names, or the only one there is; of ended ones, remove what is left."""
    with hold_lock(machine.lock):
        observed = observe(machine, runtimes, silent)
        return _stop(machine, runtimes, observed, find(observed, which), timeout, talk)


def stop_all(
    machine: Machine,
    runtimes: Sequence[Runtime],
    talk: Talk,
    *,
    timeout: float = STOP_SECONDS,
    silent: Iterable[Silent] = (),
) -> list[Stopped]:
    """Stop and remove everything of ours; nothing to do is fine."""
    with hold_lock(machine.lock):
        observed = observe(machine, runtimes, silent)
        for one in observed.silent:
            if not one.absent:
                talk.warn(f"{one.driver} does not answer ({one.why}): what it runs stays")
        # The attached one last: those beside it would take the slot the moment it is free.
        ordered = sorted(observed.managed, key=lambda one: one.attachment is Attachment.YES)
        return [_stop(machine, runtimes, observed, one, timeout, talk) for one in ordered]


def find(observed: Observed, which: str | None) -> Managed:
    """By id or its beginning, by name, or by scheduler; what runs goes before what has ended."""
    for candidates in (observed.running, observed.managed):
        for matching in _match(candidates, which):
            if len(matching) == 1:
                return matching[0]
            if matching:
                raise UsageError(
                    "which one? " + ", ".join(_tell(one) for one in matching),
                    hint="name one of them by its id, or all with --all",
                )
    unseen = ", ".join(one.driver for one in observed.silent if not one.absent)
    raise NotFoundError(
        f"no container of ours is called {which}" if which else "no container of ours is here",
        hint=f"{unseen} could not be asked; `schedctl doctor` tells why" if unseen else "`schedctl ps` lists them",
    )


def find_runtime(runtimes: Sequence[Runtime], container: Container) -> Runtime:
    """The one that runs it."""
    return next(one for one in runtimes if one.driver == container.driver)


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
    """Whether the kernel let go of what was attached."""
    return now.state in (State.DISABLED, State.UNSUPPORTED) or (
        isinstance(now.enable_seq, int)
        and isinstance(attached.enable_seq, int)
        and now.enable_seq > attached.enable_seq
    )


def _stop(
    machine: Machine, runtimes: Sequence[Runtime], observed: Observed, one: Managed, timeout: float, talk: Talk
) -> Stopped:
    container, runtime = one.container, find_runtime(runtimes, one.container)
    attached = one.attachment is Attachment.YES
    begun = time.monotonic()
    ended = containers.Ended(container.exit_code, killed=False)
    with Changes(machine.root) as changes:
        if one.running:
            talk.step(f"stopping {container.name}")
            ended = containers.end(runtime, container.id, timeout)
            if ended.killed:
                talk.warn(f"{container.name} ignored SIGTERM for {timeout:.0f} s and was killed")
        talk.step(f"removing the container {container.name}")
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
