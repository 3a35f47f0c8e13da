"""What happens to the slot: each attach, detach and ejection, by the kernel's own word, and whose scheduler it was."""

import math
import select
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from datetime import datetime, timedelta
from enum import StrEnum
from types import TracebackType
from typing import NamedTuple, Self

from schedkit.host.machine import Machine
from schedkit.host.model import Managed, Observed
from schedkit.host.slot import find_attached
from schedkit.host.watching import check_supported
from schedkit.kernel.changes import Announcement, Changes
from schedkit.kernel.holder import Holder
from schedkit.kernel.log import Ejection, KernelLog, LoggedChange, read_history
from schedkit.kernel.state import KernelState, State, read_state
from schedkit.unknown import Unknown

_LOOK_SECONDS = 60.0  # an event may be lost
_WITHOUT_EVENTS_SECONDS = 0.5
_SOON_SECONDS = 0.1  # a state that passes: its end has no event


class EventKind(StrEnum):
    """What the kernel did."""

    ATTACHED = "attached"
    DETACHED = "detached"
    EJECTED = "ejected"  # detached, for an error or a stall


class Owner(NamedTuple):
    """Whose scheduler it is: a container of schedctl, or somebody else's process."""

    managed: Managed | None
    holder: Holder | Unknown | None


class KernelEvent(NamedTuple):
    """One change of the slot."""

    at: datetime
    kind: EventKind
    ops: str
    owner: Owner | Unknown
    reason: str | Unknown | None = None  # the kernel's words; None for an attach
    details: tuple[str, ...] = ()


class SlotContent(NamedTuple):
    """What is known to be attached."""

    ops: str | None = None
    attaches: int | None = None  # since boot


Change = tuple[EventKind, str]  # what happened to which scheduler


class SlotEvents:
    """Listens from the moment it is entered, so that nothing that happens after is missed.

    `look` observes kernel and runtimes: it is asked at each attach, to tell whose scheduler it is.
    """

    def __init__(self, machine: Machine, look: Callable[[], Observed], *, look_seconds: float = _LOOK_SECONDS) -> None:
        self._machine = machine
        self._look = look
        self._look_seconds = look_seconds
        self._stack = ExitStack()
        self._logged: list[LoggedChange] = []  # in the kernel's log, and not told yet
        self._owner: Owner | Unknown = Unknown("nothing was attached")
        self._slot = SlotContent()
        self._look_at = 0.0

    def __enter__(self) -> Self:
        root = self._machine.root
        with ExitStack() as stack:
            self._log = stack.enter_context(KernelLog(root))
            self._changes = stack.enter_context(Changes(root))
            kernel = read_state(root)
            check_supported(kernel)
            self._slot = _read_slot(kernel)
            if self._slot.ops:
                self._owner = self._find_owner(self._slot.ops)
            self._stack = stack.pop_all()
        self._look_at = time.monotonic() + self._pause
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def wait(self, seconds: float = math.inf) -> list[KernelEvent]:
        """Return what happened as soon as something does, oldest first; nothing if `seconds` are over before."""
        end = time.monotonic() + seconds
        while True:
            self._sleep(end)
            at = self._machine.now()
            told = [self._tell(at, change) for change in self._hear()]
            if told or time.monotonic() >= end:
                return told

    def find_log_problem(self) -> Unknown | None:
        """Why the kernel's log cannot be read: then no end has a reason, and none is known to be an ejection."""
        lines = self._log.read_lines()
        return lines if isinstance(lines, Unknown) else None

    @property
    def _pause(self) -> float:
        return self._look_seconds if self._changes.fileno() >= 0 else min(self._look_seconds, _WITHOUT_EVENTS_SECONDS)

    def _sleep(self, end: float) -> None:
        left = max(0.0, min(end, self._look_at) - time.monotonic())
        events = self._changes.fileno()
        select.select([events] if events >= 0 else [], [], [], left)

    def _hear(self) -> list[Change]:
        """What the kernel announced; where that may not be all of it, what its state says beyond that."""
        announced = self._changes.take()
        self._slot, found = follow_announcements(self._slot, announced or [])
        vague = announced is None or any(not one.ops for one in announced)
        if vague or time.monotonic() >= self._look_at:
            kernel = read_state(self._machine.root)
            self._slot, missed = compare_state(self._slot, kernel)
            found += missed
            passing = kernel.state in (State.ENABLING, State.DISABLING)
            self._look_at = time.monotonic() + (_SOON_SECONDS if passing else self._pause)
        return found

    def _tell(self, at: datetime, change: Change) -> KernelEvent:
        kind, ops = change
        if kind is EventKind.ATTACHED:
            self._skip_failures(ops)
            self._owner = self._find_owner(ops)
            return KernelEvent(at, kind, ops, self._owner)
        return _describe_end(at, ops, self._owner, self._find_ejection(ops))

    def _find_owner(self, ops: str) -> Owner | Unknown:
        observed = self._look()
        if observed.kernel.state is not State.ENABLED or observed.kernel.ops != ops:
            return Unknown("it was detached before it could be examined")
        return Owner(find_attached(observed), observed.holder)

    def _find_ejection(self, ops: str) -> Ejection | Unknown:
        said = self._log.take_changes()
        if isinstance(said, Unknown):
            return said
        self._logged += said
        for at, change in enumerate(self._logged):
            if change.ops == ops and change.ejection:
                del self._logged[at]
                return change.ejection
        return Unknown("the kernel's log does not show the reason")

    def _skip_failures(self, ops: str) -> None:
        """One that fails while it attaches is logged as disabled and never announced: that is not how this one ends."""
        said = self._log.take_changes()
        self._logged += [] if isinstance(said, Unknown) else said
        for at, change in enumerate(self._logged):
            if change.ops == ops and change.ejection is None:
                del self._logged[: at + 1]
                return


def follow_announcements(slot: SlotContent, announced: Iterable[Announcement]) -> tuple[SlotContent, list[Change]]:
    """Pure: the slot after what the kernel announced, and the changes; what is known already is no change."""
    found: list[Change] = []
    for action, ops in announced:
        if action == "add" and ops and ops != slot.ops:
            found += [(EventKind.DETACHED, slot.ops)] if slot.ops else []
            found.append((EventKind.ATTACHED, ops))
            slot = SlotContent(ops, None if slot.attaches is None else slot.attaches + 1)
        elif action == "remove" and ops and ops == slot.ops:
            found.append((EventKind.DETACHED, ops))
            slot = slot._replace(ops=None)
    return slot, found


def compare_state(slot: SlotContent, kernel: KernelState) -> tuple[SlotContent, list[Change]]:
    """Pure: the slot as the kernel's state shows it, and the changes that nobody announced."""
    if kernel.state not in (State.ENABLED, State.DISABLED):
        return slot, []
    now = _read_slot(kernel)
    if kernel.state is State.ENABLED and now.ops is None:  # its name could not be read
        return slot, []
    another = now.ops != slot.ops or (
        slot.attaches is not None and now.attaches is not None and now.attaches > slot.attaches
    )
    if not another:
        return slot, []
    gone: list[Change] = [(EventKind.DETACHED, slot.ops)] if slot.ops else []
    return now, gone + ([(EventKind.ATTACHED, now.ops)] if now.ops else [])


def read_past_events(machine: Machine, since: float) -> list[KernelEvent] | Unknown:
    """What the kernel's log has since a moment; whose schedulers those were, it does not say."""
    history = read_history(machine.root)
    if isinstance(history, Unknown):
        return history
    boot = machine.now() - timedelta(seconds=time.monotonic())
    nobody = Unknown("only the kernel's log shows it")
    told = []
    for change in history:
        at = boot + timedelta(seconds=change.seconds)
        if at.timestamp() >= since:
            told.append(
                _describe_end(at, change.ops, nobody, change.ejection)
                if change.ejection
                else KernelEvent(at, EventKind.ATTACHED, change.ops, nobody)
            )
    return told


def _describe_end(at: datetime, ops: str, owner: Owner | Unknown, ejection: Ejection | Unknown) -> KernelEvent:
    if isinstance(ejection, Unknown):
        return KernelEvent(at, EventKind.DETACHED, ops, owner, ejection)
    kind = EventKind.EJECTED if ejection.is_fault else EventKind.DETACHED
    return KernelEvent(at, kind, ops, owner, ejection.reason, ejection.details)


def _read_slot(kernel: KernelState) -> SlotContent:
    attached = kernel.state is State.ENABLED and isinstance(kernel.ops, str)
    return SlotContent(
        kernel.ops if attached and isinstance(kernel.ops, str) else None,
        kernel.enable_seq if isinstance(kernel.enable_seq, int) else None,
    )
