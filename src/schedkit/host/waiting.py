"""Wait until the kernel has attached a scheduler, detached it, or ejected it."""

import math
import os
import time
from collections.abc import Callable
from typing import NamedTuple

from schedkit.errors import NoAnswerError, UnavailableError, needs_root
from schedkit.host.events import EventKind, KernelEvent, Owner, SlotEvents
from schedkit.host.machine import Machine
from schedkit.host.model import Managed, Observed
from schedkit.host.slot import find_attached
from schedkit.host.watching import check_supported, identify
from schedkit.kernel.changes import Changes
from schedkit.kernel.names import is_same_scheduler
from schedkit.kernel.state import KernelState, State
from schedkit.unknown import Unknown

_OCCUPIED = (State.ENABLED, State.ENABLING, State.DISABLING)


class Waited(NamedTuple):
    """How a wait ended."""

    condition: EventKind
    kernel: KernelState | None  # None for an ejection: what is attached after it does not matter
    event: KernelEvent | None  # only for an ejection
    seconds: float


def wait_for(
    machine: Machine, look: Callable[[], Observed], condition: EventKind, which: str | None, timeout: float | None
) -> Waited:
    """Return when the kernel is in that state; NoAnswerError after `timeout` seconds (None: never).

    `which` names a container of schedctl or a scheduler; without it, any is meant. An ejection counts from now on, and
    is an UnavailableError where the kernel's log cannot be read.
    """
    begun = time.monotonic()
    seconds = math.inf if timeout is None else timeout
    if condition is EventKind.EJECTED:
        event = _wait_ejected(machine, look, which, begun + seconds)
        if event:
            return Waited(condition, None, event, time.monotonic() - begun)
    else:
        kernel = _wait_state(machine, look, condition, which, seconds)
        if kernel:
            return Waited(condition, kernel, None, time.monotonic() - begun)
    raise NoAnswerError(
        f"{which or 'a scheduler'} was not {condition} within {seconds:g} s", hint="`schedctl status` shows what is"
    )


def is_meant(which: str | None, ops: str, managed: Managed | None) -> bool:
    """Whether a name means the scheduler that the kernel calls `ops`, in this container if schedctl manages it."""
    if which is None or which == ops or is_same_scheduler(which, ops):
        return True
    if managed is None or not which:
        return False
    container = managed.container
    return which in (container.name, managed.scheduler) or container.id.startswith(which)


def _wait_state(
    machine: Machine, look: Callable[[], Observed], condition: EventKind, which: str | None, seconds: float
) -> KernelState | None:
    is_it = _Attached(look, which)

    def done(kernel: KernelState) -> bool:
        check_supported(kernel)
        if condition is EventKind.ATTACHED:
            return is_it(kernel)
        if isinstance(kernel.state, Unknown):
            return False
        return kernel.state not in _OCCUPIED or (kernel.state is State.ENABLED and is_it.is_another(kernel))

    with Changes(machine.root) as changes:
        kernel = changes.wait_until(done, seconds)
    return kernel if done(kernel) else None


class _Attached:
    """Whether what is attached is what is meant; the runtimes are asked once for each scheduler that comes."""

    def __init__(self, look: Callable[[], Observed], which: str | None) -> None:
        self._look = look
        self._which = which
        self._known: tuple[object, bool | None] = (None, None)

    def __call__(self, kernel: KernelState) -> bool:
        return self._decide(kernel) is True

    def is_another(self, kernel: KernelState) -> bool:
        """Whether it is surely another one."""
        return self._decide(kernel) is False

    def _decide(self, kernel: KernelState) -> bool | None:
        """None where that is not known, or not yet."""
        if kernel.state is not State.ENABLED or not isinstance(kernel.ops, str):
            return None
        if is_meant(self._which, kernel.ops, None):
            return True
        if self._known[0] != identify(kernel):
            self._known = (identify(kernel), self._ask(kernel))
        found = self._known[1]
        if found is None:  # its process may take a moment to have the link among its files
            self._known = (None, None)
        return found

    def _ask(self, kernel: KernelState) -> bool | None:
        observed = self._look()
        if identify(observed.kernel) != identify(kernel):
            return None
        if is_meant(self._which, str(kernel.ops), find_attached(observed)):
            return True
        return None if observed.holder is None or isinstance(observed.holder, Unknown) else False


def _wait_ejected(
    machine: Machine, look: Callable[[], Observed], which: str | None, deadline: float
) -> KernelEvent | None:
    with SlotEvents(machine, look) as events:
        if (problem := events.find_log_problem()) is not None:
            if os.geteuid() != 0:
                raise needs_root("waiting for an ejection")
            raise UnavailableError(f"cannot distinguish an ejection from a detach: {problem.why}")
        while True:
            for event in events.wait(max(0.0, deadline - time.monotonic())):
                managed = event.owner.managed if isinstance(event.owner, Owner) else None
                if event.kind is EventKind.EJECTED and is_meant(which, event.ops, managed):
                    return event
            if time.monotonic() >= deadline:
                return None
