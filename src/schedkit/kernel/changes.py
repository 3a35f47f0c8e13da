"""Wait for the kernel's slot to change, without busy polling."""

import select
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from schedkit.kernel.state import KernelState, State, read_state

if TYPE_CHECKING:
    import socket

_KOBJECT_UEVENT = 15  # NETLINK_KOBJECT_UEVENT, which the socket module does not name
_KERNEL_GROUP = 1
_SHORTEST, _LONGEST = 0.02, 0.25  # pauses where there are no events
_LISTENING = 1.0  # an event may be lost, or never come into this namespace


class Changes:
    """Listens from the moment it is entered, so that nothing that happens after is missed.

    Attach and detach send uevents; where the socket cannot be had, or for what has no event, it looks again
    after short pauses.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._socket: socket.socket | None = None

    def __enter__(self) -> Self:
        self._socket = open_uevents()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._socket:
            self._socket.close()
            self._socket = None

    def fileno(self) -> int:
        """Readable when something may have changed; -1 where there is only looking again."""
        return self._socket.fileno() if self._socket else -1

    def wait(self, seconds: float) -> None:
        """Return when something may have changed, or after `seconds` (an upper bound; it may return sooner)."""
        self._hear(seconds if self._socket else min(seconds, _LONGEST))

    def wait_until(self, done: Callable[[KernelState], bool], seconds: float) -> KernelState:
        """Return the first state for which `done`, or the last one seen when `seconds` are over."""
        end = time.monotonic() + seconds
        pause = _SHORTEST
        while True:
            # What happens after this reading is waiting in the socket when we come to wait for it.
            state = read_state(self._root)
            left = end - time.monotonic()
            if done(state) or left <= 0:
                return state
            if self._hear(min(left, pause)) or state.state in (State.ENABLING, State.DISABLING):
                # The event comes a little before enable_seq has grown, and the end of a passing state has none.
                pause = _SHORTEST
            else:
                pause = min(pause * 2, _LISTENING if self._socket else _LONGEST)

    def _hear(self, seconds: float) -> bool:
        """Whether the kernel said something within `seconds`."""
        if not self._socket:
            time.sleep(max(0.0, seconds))
            return False
        end = time.monotonic() + seconds
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        while poll.poll(max(0.0, end - time.monotonic()) * 1000):
            if _is_any_ours(self._socket):
                return True
        return False


def open_uevents() -> "socket.socket | None":
    """The kernel's announcements of devices and such; None where they are not to be had."""
    import socket

    try:
        uevents = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, _KOBJECT_UEVENT)
    except OSError:
        return None
    try:
        uevents.bind((0, _KERNEL_GROUP))
    except OSError:
        uevents.close()
        return None
    return uevents


def _is_any_ours(uevents: "socket.socket") -> bool:
    """Take all that wait; whether one was about sched_ext, or some were lost."""
    ours = False
    while True:
        try:
            message = uevents.recv(65536)
        except BlockingIOError:
            return ours
        except OSError:  # ENOBUFS: more came than the socket holds
            return True
        ours = ours or b"@/kernel/sched_ext" in message
