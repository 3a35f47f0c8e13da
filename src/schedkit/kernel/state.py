"""What /sys/kernel/sched_ext says at one moment."""

import time
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from schedkit.kernel.files import explain, read_text
from schedkit.unknown import Unknown


class State(StrEnum):
    """The kernel's own four words, and one more for a kernel that has no sched_ext."""

    ENABLING = "enabling"
    ENABLED = "enabled"
    DISABLING = "disabling"
    DISABLED = "disabled"
    UNSUPPORTED = "unsupported"


class KernelState(NamedTuple):
    """None is an absence that the kernel itself shows; Unknown is what could not be read."""

    state: State | Unknown
    ops: str | Unknown | None = None  # the attached scheduler's own name
    enable_seq: int | Unknown | None = None  # grows by one with each successful attach
    nr_rejected: int | Unknown | None = None
    hotplug_seq: int | Unknown | None = None
    switch_all: bool | Unknown | None = None
    events: Mapping[str, int] | Unknown | None = None  # None: before 6.15, or nothing attached
    sub_schedulers: tuple[str, ...] | Unknown = ()

    @property
    def attached(self) -> bool | Unknown:
        """Whether a scheduler is in the slot and at work."""
        if isinstance(self.state, Unknown):
            return self.state
        return self.state is State.ENABLED


_TRIES = 5
_LONGEST_NAME = 128


def read_state(root: Path = Path("/")) -> KernelState:
    """Read the state of the kernel whose /sys lies under `root`, all of it of one moment."""
    folder = root / "sys/kernel/sched_ext"
    for left in reversed(range(_TRIES)):
        before = _read_moment(folder)
        if isinstance(before[0], Unknown | None):
            return KernelState(_explain_absence(root, folder) if before[0] is None else before[0])
        state = _read_once(folder, before[0])
        if _read_moment(folder) == before and _makes_sense(state):
            return state
        if left:
            time.sleep(0.001)
    return state._replace(ops=Unknown(f"{folder} kept changing while it was read"))


def _read_moment(folder: Path) -> tuple[State | Unknown | None, int | Unknown | None]:
    """What changes when a scheduler comes or goes."""
    word = read_text(folder / "state")
    state = word if isinstance(word, Unknown | None) else _parse_state(folder / "state", word)
    return state, _read_number(folder / "enable_seq")


def _read_once(folder: Path, state: State) -> KernelState:
    switch_all = _read_number(folder / "switch_all")
    return KernelState(
        state,
        ops=_read_name(folder / "root/ops"),
        enable_seq=_read_number(folder / "enable_seq"),
        nr_rejected=_read_number(folder / "nr_rejected"),
        hotplug_seq=_read_number(folder / "hotplug_seq"),
        switch_all=bool(switch_all) if isinstance(switch_all, int) else switch_all,
        events=_read_events(folder / "root/events"),
        sub_schedulers=_read_sub_schedulers(folder / "root/sub"),
    )


def _makes_sense(state: KernelState) -> bool:
    """Enabled without a name, or disabled with one, is two moments mixed."""
    if state.state is State.ENABLED:
        return state.ops is not None
    return state.state is not State.DISABLED or state.ops is None


def _explain_absence(root: Path, folder: Path) -> State | Unknown:
    if not (root / "sys/kernel").is_dir():
        return Unknown(f"{root / 'sys'} is not mounted")
    try:
        folder.stat()
    except FileNotFoundError:
        return State.UNSUPPORTED
    except OSError as error:
        return Unknown(explain(folder, error))
    return Unknown(f"{folder / 'state'} is missing")


def _parse_state(path: Path, word: str) -> State | Unknown:
    if word in {State.ENABLING, State.ENABLED, State.DISABLING, State.DISABLED}:
        return State(word)
    return Unknown(f"{path} reads {word[:40]!r}")


def _read_number(path: Path) -> int | Unknown | None:
    word = read_text(path)
    return word if isinstance(word, Unknown | None) else _parse_number(path, word)


def _parse_number(path: Path, word: str) -> int | Unknown:
    if word.isascii() and word.removeprefix("-").isdigit() and len(word) <= 20:
        return int(word)
    return Unknown(f"{path} reads {word[:40]!r}")


def _read_name(path: Path) -> str | Unknown | None:
    name = read_text(path)
    if isinstance(name, str) and not (name.isprintable() and 0 < len(name) < _LONGEST_NAME):
        return Unknown(f"{path} reads {name[:40]!r}")
    return name


def _read_events(path: Path) -> Mapping[str, int] | Unknown | None:
    text = read_text(path)
    if not isinstance(text, str):
        return text
    events: dict[str, int] = {}
    for line in text.splitlines():
        name, _, word = line.partition(" ")
        number = _parse_number(path, word.strip())
        if isinstance(number, Unknown):
            return number
        events[name] = number
    return events


def _read_sub_schedulers(folder: Path) -> tuple[str, ...] | Unknown:
    """The names of those below, and of those below them."""
    names: list[str] = []
    try:
        children = sorted(folder.iterdir())
    except FileNotFoundError:
        return ()
    except OSError as error:
        return Unknown(explain(folder, error))
    for child in children:
        name = _read_name(child / "ops")
        if isinstance(name, Unknown):
            return name
        if name is None:  # it left while we looked
            continue
        below = _read_sub_schedulers(child / "sub")
        if isinstance(below, Unknown):
            return below
        names += [name, *below]
    return tuple(names)
