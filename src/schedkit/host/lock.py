"""One schedctl at a time changes this machine; the kernel frees the lock of one that was killed."""

import errno
import fcntl
import os
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from schedkit.errors import BusyError, NoPermissionError, SchedkitError, sudo_hint

PATIENCE_SECONDS = 10.0  # how long one waits for another's lock
_PAUSE_SECONDS = 0.05
_MOST_BYTES = 4096
_FOLDER_MODE = 0o711  # `status` of any user looks for a trial in it, and nobody else lists it or writes to it


@contextmanager
def hold_lock(path: Path, *, patience: float = PATIENCE_SECONDS, command: str | None = None) -> Iterator[None]:
    """Hold the lock while the block runs; BusyError names who has it when `patience` seconds were not enough."""
    file = _open(path)
    try:
        _take(file, path, patience)
        _note_owner(file, f"{os.getpid()} {command or _own_command()}\n")
        try:
            yield
        finally:
            # The file stays: were it removed, two could hold locks on two files of one name.
            _note_owner(file, "")
    finally:
        os.close(file)


def _open(path: Path) -> int:
    try:
        # Whoever can open a file can lock it, also one that may only read it: nobody else shall.
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        os.fchmod(file, 0o600)
        if stat.S_IMODE(path.parent.stat().st_mode) != _FOLDER_MODE:
            path.parent.chmod(_FOLDER_MODE)
    except PermissionError as error:
        raise NoPermissionError(f"the lock {path} cannot be opened: permission denied", hint=sudo_hint()) from error
    except OSError as error:
        raise SchedkitError(f"the lock {path} cannot be opened: {error.strerror}") from error
    return file


def _take(file: int, path: Path, patience: float) -> None:
    deadline = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EINTR):
                raise
        else:
            return
        if time.monotonic() >= deadline:
            raise BusyError(
                f"another schedctl is running: {_read_owner(file)} holds {path}",
                hint="try again when it is done",
            )
        time.sleep(_PAUSE_SECONDS)


def _note_owner(file: int, owner: str) -> None:
    """Say who has the lock. It holds without that: a full disk must not keep anybody from stopping a scheduler."""
    with suppress(OSError):
        os.ftruncate(file, 0)
        os.pwrite(file, owner.encode(errors="replace"), 0)


def _read_owner(file: int) -> str:
    pid, _, command = os.pread(file, _MOST_BYTES, 0).decode(errors="replace").strip().partition(" ")
    if not pid:
        return "a process that has not said who it is"
    return f"process {pid} ({command})"


def _own_command() -> str:
    # Two words are enough to know it by; more might be secret.
    return " ".join(["schedctl", *sys.argv[1:3]])
