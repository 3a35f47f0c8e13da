"""The kernel's own words about sched_ext, from /dev/kmsg."""

import os
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from schedkit.kernel.files import explain
from schedkit.unknown import Unknown

_MARK = "sched_ext: "
_CHANGED = _MARK + 'BPF scheduler "'
_LONGEST_RECORD = 16384
_MOST_LINES = 1000
# All other reasons are errors: what the kernel adds one day is more likely to be one of those.
_ASKED_TO_LEAVE = ("unregistered from ", "disabled by sysrq", "parent exiting", "killed by parent scheduler")


class Ejection(NamedTuple):
    """Why the kernel ended a scheduler, as it said itself."""

    ops: str
    reason: str  # `runnable task stall`, `runtime error`, `unregistered from user space` …
    details: tuple[str, ...] = ()

    @property
    def is_fault(self) -> bool:
        """Whether it was ejected, and not just told to leave."""
        return not self.reason.startswith(_ASKED_TO_LEAVE)

    @property
    def sentence(self) -> str:
        """What a person is told of it."""
        details = "; ".join(self.details)
        return f"the kernel ejected {self.ops}: {self.reason}{f' ({details})' if details else ''}"


class LoggedChange(NamedTuple):
    """A scheduler that came or went, as the kernel's log has it."""

    seconds: float  # since boot, on a clock that stops while the machine sleeps
    ops: str
    ejection: Ejection | None = None  # None: it attached


class KernelLog:
    """Sees what the kernel says from the moment it is entered; entered before a scheduler is started."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._path = root / "dev/kmsg"
        self._file: int | Unknown = Unknown(f"{self._path} was not opened")
        self._lines: deque[str] = deque(maxlen=_MOST_LINES)
        self._lost = False

    def __enter__(self) -> Self:
        try:
            self._file = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(self._file, 0, os.SEEK_END)
        except OSError as error:
            self._close(explain(self._path, error))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close(f"{self._path} was closed")

    def forget(self) -> None:
        """What was said until now is not about what comes."""
        self.read_lines()
        self._lines.clear()

    def take_changes(self) -> list[LoggedChange] | Unknown:
        """All `enabled` and `disabled` since it was entered, or since they were last taken; without their times."""
        lines = self.read_lines()
        if isinstance(lines, Unknown):
            return lines
        self._lines.clear()
        return parse_history((0.0, line) for line in lines)

    def read_lines(self) -> list[str] | Unknown:
        """All sched_ext lines since it was entered."""
        if isinstance(self._file, Unknown):
            return self._file
        try:
            self._read_new(self._file)
        except OSError as error:
            return Unknown(explain(self._path, error))
        return list(self._lines)

    def read_ejection(self) -> Ejection | Unknown | None:
        """The last `disabled` since it was entered."""
        lines = self.read_lines()
        if isinstance(lines, Unknown):
            return lines
        ejection = parse_ejection(lines)
        if ejection is None and self._lost:
            return Unknown(f"{self._path}: the kernel said more than its log holds")
        return ejection

    def _read_new(self, file: int) -> None:
        while True:
            try:
                record = os.read(file, _LONGEST_RECORD)
            except BlockingIOError:
                return
            except BrokenPipeError:  # what we had not read yet was overwritten; the next read goes on after it
                self._lost = True
                continue
            if not record:
                return
            self._lines.extend(parse_records(record.decode(errors="replace")))

    def _close(self, why: str) -> None:
        if isinstance(self._file, int):
            os.close(self._file)
        self._file = Unknown(why)


def read_history(root: Path = Path("/")) -> list[LoggedChange] | Unknown:
    """What came and went since boot, as far back as the kernel's log reaches."""
    path = root / "dev/kmsg"
    records: list[str] = []
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        return Unknown(explain(path, error))
    try:
        while True:
            try:
                record = os.read(file, _LONGEST_RECORD)
            except BlockingIOError:
                break
            except BrokenPipeError:  # overwritten before it was read; the next read goes on after it
                continue
            if not record:
                break
            records.append(record.decode(errors="replace"))
    except OSError as error:
        return Unknown(explain(path, error))
    finally:
        os.close(file)
    return parse_history(_parse_timed("".join(records)))


def parse_records(text: str) -> Iterable[str]:
    """The sched_ext messages of records like `6,278,63001386,-;message`, those of the kernel itself only."""
    return (message for _, message in _parse_timed(text))


def _parse_timed(text: str) -> Iterable[tuple[float, str]]:
    """Each with its time, in seconds since boot."""
    for line in text.splitlines():
        header, _, message = line.partition(";")
        priority, _, rest = header.partition(",")
        # Lines that begin with a blank carry a record's properties. From 8 on it is a program that wrote it.
        if message.startswith(_MARK) and priority.isdecimal() and int(priority) < 8:
            when = rest.split(",")[1:2]
            yield int(when[0]) / 1e6 if when and when[0].isdecimal() else 0.0, message


def parse_ejection(lines: Iterable[str]) -> Ejection | None:
    """The last `disabled`, and what was said of that scheduler right after it."""
    history = parse_history((0.0, line) for line in lines)
    return next((change.ejection for change in reversed(history) if change.ejection), None)


def parse_history(lines: Iterable[tuple[float, str]]) -> list[LoggedChange]:
    """Every scheduler that came or went, in order, from lines with their times."""
    found: list[LoggedChange] = []
    for seconds, line in lines:
        change = _parse_change(seconds, line)
        ejection = found[-1].ejection if found else None
        if change:
            found.append(change)
        elif ejection and line.startswith(f"{_MARK}{ejection.ops}: "):
            detail = line.removeprefix(f"{_MARK}{ejection.ops}: ")
            found[-1] = found[-1]._replace(ejection=ejection._replace(details=(*ejection.details, detail)))
    return found


def _parse_change(seconds: float, line: str) -> LoggedChange | None:
    """Parse `sched_ext: BPF scheduler "NAME" enabled`, and the same with `disabled (REASON)`."""
    ops, quote, what = line.removeprefix(_CHANGED).partition('" ') if line.startswith(_CHANGED) else ("", "", "")
    if quote and what.startswith("disabled ("):
        return LoggedChange(seconds, ops, Ejection(ops, what.removeprefix("disabled (").removesuffix(")")))
    return LoggedChange(seconds, ops) if quote and what.startswith("enabled") else None
