"""A container's output, in the file that its shim writes: the end of it, and more as it comes."""

import ctypes
import fcntl
import os
import select
import signal
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import BinaryIO

from schedkit.errors import NotFoundError, SchedkitError

BLOCK_BYTES = 64 << 10
SETTLE_SECONDS = 2.0  # what a shim may take to write the last words of a process that has ended
LOOK_SECONDS = 1.0  # in case the kernel would not tell of changes
IN_MODIFY, IN_CLOSE_WRITE = 0x2, 0x8


class Ending:
    """The end of a container, told by another thread and heard by select."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._writer_file = os.fdopen(self._writer, "wb", buffering=0)
        self.has_come = False
        self.failure: SchedkitError | None = None  # why nobody will tell of the end

    def fileno(self) -> int:
        return self._reader

    def tell(self, failure: SchedkitError | None = None) -> None:
        """Wake whoever listens: the container has ended, or is gone, or `failure` keeps us from hearing of it."""
        self.failure = None if isinstance(failure, NotFoundError) else failure
        self.has_come = True
        self._writer_file.close()  # which makes the other end readable

    def close(self) -> None:
        os.close(self._reader)
        self._writer_file.close()


def read_log(path: Path, tail: int | None, begin: int = 0) -> Iterator[bytes]:
    """What is there now, or its last lines, once the shim is done writing if the container has ended."""
    with path.open("rb") as log:
        _seek_tail(log, tail, begin)
        yield from _read_rest(log)


def wait_settled(path: Path) -> None:
    """Until nobody has the log of an ended container open for writing; not for ever."""
    with path.open("rb") as log, closing(_Changes(path)) as changes:
        patience = time.monotonic() + SETTLE_SECONDS
        while _is_written(log) and (left := patience - time.monotonic()) > 0:
            select.select([changes.fileno()], [], [], min(left, 0.05))
            changes.forget()


def follow_log(path: Path, tail: int | None, ending: Ending, begin: int = 0) -> Iterator[tuple[bytes, int]]:
    """What is there and what comes, each piece with where it ends, until the container's end and its last words."""
    with path.open("rb") as log, closing(_Changes(path)) as changes:
        _seek_tail(log, tail, begin)
        while not ending.has_come:
            for piece in _read_rest(log):
                yield piece, log.tell()
            select.select([changes.fileno(), ending.fileno()], [], [], LOOK_SECONDS)
            changes.forget()
        if ending.failure is None:
            wait_settled(path)
        for piece in _read_rest(log):
            yield piece, log.tell()
        if ending.failure is not None:
            raise ending.failure


class _Changes:
    """inotify on one file; Python has no name for it."""

    def __init__(self, path: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd = libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        if self._fd >= 0:
            libc.inotify_add_watch(self._fd, os.fsencode(path), IN_MODIFY | IN_CLOSE_WRITE)
        else:  # none to be had: whoever waits looks again after a while
            self._fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def fileno(self) -> int:
        return int(self._fd)

    def forget(self) -> None:
        with suppress(BlockingIOError):
            while os.read(self._fd, 4096):
                pass

    def close(self) -> None:
        os.close(self._fd)


def _is_written(log: BinaryIO) -> bool:
    """Whether any process has it open for writing: the kernel refuses a read lease then."""
    try:
        fcntl.fcntl(
            log, fcntl.F_SETSIG, signal.SIGURG
        )  # should one come right now, be told by a signal that is ignored
        fcntl.fcntl(log, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except BlockingIOError:
        return True
    except OSError:
        return False  # no leases on this file system: nothing to go by
    with suppress(OSError):
        fcntl.fcntl(log, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return False


def _seek_tail(log: BinaryIO, tail: int | None, begin: int = 0) -> None:
    """To the beginning of the last `tail` lines, none of them before `begin`."""
    if tail is None:
        log.seek(begin)
        return
    end = position = log.seek(0, os.SEEK_END)
    lines = 0
    while tail > 0 and position > begin:
        start = max(begin, position - BLOCK_BYTES)
        log.seek(start)
        block = log.read(position - start)
        for index in range(len(block) - 1, -1, -1):
            # The newline at the very end ends the last line and begins no other.
            if block[index : index + 1] == b"\n" and start + index != end - 1:
                lines += 1
                if lines == tail:
                    log.seek(start + index + 1)
                    return
        position = start
    log.seek(min(begin, end) if tail > 0 else end)


def _read_rest(log: BinaryIO) -> Iterator[bytes]:
    while piece := log.read(BLOCK_BYTES):
        yield piece
