"""A container's output, in files that a small logger beside its shim writes: the end of it, and more as it comes."""

import ctypes
import fcntl
import os
import re
import select
import shlex
import signal
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple
from urllib.parse import quote, urlencode

from schedkit.errors import NotFoundError, SchedkitError, UnavailableError

BLOCK_BYTES = 64 << 10
SETTLE_SECONDS = 2.0  # what a shim may take to write the last output of a process that has ended
LOOK_SECONDS = 1.0  # in case the kernel would not tell of changes
IN_MODIFY, IN_CLOSE_WRITE = 0x2, 0x8
TURN_BYTES = 4 << 20  # a log longer than this becomes the older one, in place of the one before
# Containerd itself has no bound for a log. Its shim starts this with the two outputs as files 3 and 4, and takes the
# closing of file 5 for `ready`. It keeps the log open as long as it lives, so that others can see that it does. One dd
# takes 1 MiB at most, so that a log is never longer than twice TURN_BYTES. After each, it notes the time, in seconds,
# and how long the log is then; of who says much within a second it takes 16 pieces at once, as each note costs three
# processes. Where the disk is full, it goes on reading: a scheduler must not be ended, nor stopped, by its output.
_LOGGER = """\
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
log={log}
exec 6>>"$log" 5>&-
{{ cat <&4 & cat <&3; wait; }} | {{
  has=$(wc -c <"$log") last= pieces=1
  while had=$has && dd bs=64k count=$pieces >&6 2>/dev/null && has=$(wc -c <"$log") && [ "$has" -gt "$had" ]; do
    now=$(date +%s)
    echo "$now $has" 2>/dev/null >>"$log.times"
    [ "$now" = "$last" ] && pieces=16 || pieces=1
    last=$now
    [ "$has" -lt {turn} ] || {{ mv -f "$log.times" "$log.1.times"; mv -f "$log" "$log.1" && exec 6>>"$log" && has=0; }}
  done
  cat >/dev/null
}}
"""


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


def make_logger(path: Path) -> str:
    """What containerd is told to write a container's output with: a URI."""
    script = _LOGGER.format(log=shlex.quote(str(path)), turn=TURN_BYTES)
    return f"binary:///bin/sh?{urlencode({'-c': script}, quote_via=quote)}"


def older(path: Path) -> Path:
    """Where the output is that came before."""
    return path.with_name(f"{path.name}.1")


def list_files(path: Path) -> list[Path]:
    """Everything that the logger may have written."""
    return [one for log in (path, older(path)) for one in (log, _times(log))]


class Position(NamedTuple):
    """Where to begin in a log; only where that is its beginning, there is something of the older one before it."""

    here: int = 0
    older: int = 0


BEGINNING = Position()


class Piece(NamedTuple):
    """A part of a log: where in which file it ends; None for what came while the log was followed."""

    data: bytes
    end: int
    log: Path | None = None
    position: int = 0  # where following goes on after it


def check_noted(path: Path, id: str) -> None:
    """Raise where there is output and nobody noted when it came."""
    if path.exists() and path.stat().st_size and not _times(path).exists() and not _times(older(path)).exists():
        raise UnavailableError(
            f"when the output of {id[:12]} came was not noted by the schedctl that started it",
            hint="take its last lines: --tail N",
        )


def stamp(pieces: Iterable[Piece], now: Callable[[], float] = time.time) -> Iterator[bytes]:
    """Put the time before each line, to the second, as it was noted; what is not noted yet has just come."""
    known: dict[Path, list[tuple[int, int]]] = {}
    inside = False  # of a line, that began with another piece
    for piece in pieces:
        if piece.log and piece.log not in known:
            known[piece.log] = _read_notes(piece.log) or []
        notes = known[piece.log] if piece.log else []
        offset = piece.end - len(piece.data)
        stamped = bytearray()
        for line in re.findall(rb"[^\n]*\n|[^\n]+", piece.data):
            if not inside:
                stamped += _format_second(_find_second(notes, offset) or int(now())) + b" "
            stamped += line
            inside = not line.endswith(b"\n")
            offset += len(line)
        yield bytes(stamped)


def _find_second(notes: Sequence[tuple[int, int]], offset: int) -> int | None:
    """When what is at an offset was there: by the first note after it."""
    after = bisect_right(notes, offset, key=lambda note: note[1])
    return notes[after][0] if after < len(notes) else None


def _format_second(second: int) -> bytes:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(second)).encode()


def find_position(path: Path, since: float) -> Position | None:
    """Before what came since a moment, and a second of what came before it at most; None where no times were noted."""
    here, before = _find_end(path, since), _find_end(older(path), since)
    if here is None and before is None:
        return None
    return Position(here or 0, before or 0)


def _find_end(log: Path, since: float) -> int | None:
    """How long a log surely was before a moment; None where nobody noted that."""
    notes = _read_notes(log)
    if notes is None:
        return None
    ends = [end for when, end in notes if when + 1 <= since]
    return ends[-1] if ends else 0


def _read_notes(log: Path) -> list[tuple[int, int]] | None:
    """The seconds at which a log was how long; one that was cut off is left out."""
    try:
        notes = [line.split() for line in _times(log).read_text().splitlines()]
    except FileNotFoundError:
        return None
    whole = [note for note in notes if len(note) == 2 and all(number.isdigit() for number in note)]
    return [(int(when), int(end)) for when, end in whole]


def _times(log: Path) -> Path:
    return log.with_name(f"{log.name}.times")


def read_log(path: Path, tail: int | None, begin: Position = BEGINNING) -> Iterator[Piece]:
    """What is there now, or its last lines, once the logger is done writing if the container has ended."""
    with path.open("rb") as log:
        yield from _begin(log, path, tail, begin)
        for data in _read_rest(log):
            yield Piece(data, log.tell(), path, log.tell())


def wait_settled(path: Path) -> None:
    """Until nobody has the log of an ended container, if it can be read, open for writing; not forever."""
    with suppress(OSError), path.open("rb") as log, closing(_Changes(path)) as changes:
        patience = time.monotonic() + SETTLE_SECONDS
        while _is_written(log) and (left := patience - time.monotonic()) > 0:
            select.select([changes.fileno()], [], [], min(left, 0.05))
            changes.forget()


def follow_log(path: Path, tail: int | None, ending: Ending, begin: Position = BEGINNING) -> Iterator[Piece]:
    """What is there and what comes until all output of the ended container is read."""
    here: Path | None = path  # until it turns: then all that comes is new
    with ExitStack() as stack:
        log = stack.enter_context(path.open("rb"))
        changes = stack.enter_context(closing(_Changes(path)))
        yield from _begin(log, path, tail, begin)
        while not ending.has_come:
            turned = _has_turned(log, path)  # asked first: what came until then is all that there will be in this file
            for data in _read_rest(log):
                yield Piece(data, log.tell(), here, log.tell())
            if turned:
                here = None
                stack.close()
                log = stack.enter_context(path.open("rb"))
                changes = stack.enter_context(closing(_Changes(path)))
                continue
            select.select([changes.fileno(), ending.fileno()], [], [], LOOK_SECONDS)
            changes.forget()
        if ending.failure is None:
            wait_settled(path)
        for data in _read_rest(log):
            yield Piece(data, log.tell(), here, log.tell())
        if _has_turned(log, path):
            for piece in read_log(path, None):
                yield piece._replace(log=None)
        if ending.failure is not None:
            raise ending.failure


def _begin(log: BinaryIO, path: Path, tail: int | None, position: Position) -> Iterator[Piece]:
    """Go to where reading begins; what is to be read of the older log comes out."""
    begin = position.here
    if begin > log.seek(0, os.SEEK_END):  # there was a turn since
        begin = 0
    found = _seek_tail(log, tail, begin)
    if begin or found or not older(path).exists():
        return
    here = log.tell()
    log.seek(0)
    missing = None if tail is None else tail - sum(piece.count(b"\n") for piece in _read_rest(log))
    log.seek(here)
    with suppress(FileNotFoundError), older(path).open("rb") as before:
        before.seek(-1, os.SEEK_END)
        cut = before.read(1) != b"\n"  # a turn may come in the middle of a line, which ends in the newer log
        if missing is None or missing + cut > 0:
            _seek_tail(before, None if missing is None else missing + cut, position.older)
            for data in _read_rest(before):
                yield Piece(data, before.tell(), older(path), here)


def _has_turned(log: BinaryIO, path: Path) -> bool:
    """Whether the log at this path is another than the one that is open."""
    try:
        return path.stat().st_ino != os.fstat(log.fileno()).st_ino
    except FileNotFoundError:  # in between, or removed
        return False


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


def _seek_tail(log: BinaryIO, tail: int | None, begin: int = 0) -> bool:
    """Seek to the last `tail` lines, none of them before `begin`; return whether there are so many."""
    if tail is None:
        log.seek(begin)
        return False
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
                    return True
        position = start
    log.seek(min(begin, end) if tail > 0 else end)
    return tail == 0


def _read_rest(log: BinaryIO) -> Iterator[bytes]:
    while piece := log.read(BLOCK_BYTES):
        yield piece
