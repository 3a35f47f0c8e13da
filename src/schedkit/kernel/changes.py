"""Wait for the kernel's slot to change, without busy polling."""

import errno
import select
import struct
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self

from schedkit.kernel.state import KernelState, State, read_state

if TYPE_CHECKING:
    import socket

_KOBJECT_UEVENT = 15  # NETLINK_KOBJECT_UEVENT, which the socket module does not name
_KERNEL_GROUP = 1
_SO_ATTACH_FILTER = 26
_FOLDER = b"@/kernel/sched_ext"
_SHORTEST, _LONGEST = 0.02, 0.25  # pauses where there are no events
_LISTENING = 1.0  # an event may be lost, or never come into this namespace


class Announcement(NamedTuple):
    """The kernel's own word that a scheduler came (`add`) or went (`remove`)."""

    action: str
    ops: str  # empty where it says none


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

    def take(self) -> list[Announcement] | None:
        """Take all announcements that wait, without waiting; None when some were lost."""
        return _take(self._socket) if self._socket else []

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
            if _take(self._socket) != []:
                return True
        return False


def open_uevents() -> "socket.socket | None":
    """The kernel's announcements of schedulers; None where they are not to be had."""
    import socket

    try:
        uevents = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, _KOBJECT_UEVENT)
    except OSError:
        return None
    _filter(uevents)
    try:
        uevents.bind((0, _KERNEL_GROUP))
    except OSError:
        uevents.close()
        return None
    return uevents


def _filter(uevents: "socket.socket") -> None:
    """Have the kernel keep back what is about other things, so that a busy machine's devices do not wake us.

    Where it does not take the filter, what is not ours is dropped here.
    """
    import socket
    from array import array

    program = array("B", build_filter())
    at, _ = program.buffer_info()
    try:
        uevents.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HL", len(program) // 8, at))
    except OSError:
        return


def build_filter() -> bytes:
    """A classic BPF program that lets through what begins with `add` or `remove` and our folder."""
    load, equal, done = 0x20, 0x15, 0x06  # BPF_LD|BPF_W|BPF_ABS, BPF_JMP|BPF_JEQ|BPF_K, BPF_RET|BPF_K
    code: list[tuple[int, int, int, int]] = []
    for action in (b"add", b"remove"):
        start = action + _FOLDER
        words = [start[at : at + 4] for at in range(0, len(start) // 4 * 4, 4)]
        for number, word in enumerate(words):
            # One that differs goes on to the next action: past the rest of these, and past `take it`.
            past = 2 * (len(words) - number - 1) + 1
            code += [(load, 0, 0, 4 * number), (equal, 0, past, int.from_bytes(word, "big"))]
        code.append((done, 0, 0, 0xFFFFFFFF))
    code.append((done, 0, 0, 0))
    return b"".join(struct.pack("HBBI", *instruction) for instruction in code)


def _take(uevents: "socket.socket") -> list[Announcement] | None:
    """Take all that wait; those about schedulers, or None when some were lost."""
    ours: list[Announcement] | None = []
    while True:
        try:
            message = uevents.recv(65536)
        except BlockingIOError:
            return ours
        except OSError as error:
            ours = None
            if error.errno != errno.ENOBUFS:  # more came than the socket holds
                return None
            continue
        if ours is not None and (announcement := parse_announcement(message)):
            ours.append(announcement)


def parse_announcement(message: bytes) -> Announcement | None:
    """Parse `add@/kernel/sched_ext/root`, and after it `SCXOPS=NAME` among NUL-ended variables; None: not ours."""
    first, *variables = message.split(b"\0")
    action, at, path = first.partition(b"@")
    if not (at + path).startswith(_FOLDER):
        return None
    names = [variable[7:] for variable in variables if variable.startswith(b"SCXOPS=")]
    # A scheduler below another one has a folder of its own further down.
    ops = names[0].decode(errors="replace") if names and path == _FOLDER[1:] + b"/root" else ""
    return Announcement(action.decode(errors="replace"), ops)
