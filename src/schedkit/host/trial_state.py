"""What is noted of a trial, in a file that goes with the next boot: after it there is nothing to go back from."""

import os
import time
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from schedkit.host.machine import Machine
from schedkit.unknown import Unknown

FILE = "trial.json"  # for everybody: `status` needs no root
WHY_FILE = "trial-why"  # for root: it quotes the kernel's log, or the scheduler's


class Phase(StrEnum):
    """How far a trial is."""

    SWITCHING = "switching"  # the command that began it is at work, or was killed at it
    ON = "on"
    ENDED = "ended"  # early, or in time: noted for the next `status`


class Before(NamedTuple):
    """What ran before: its container is kept, ended, for the way back."""

    driver: str
    id: str
    name: str
    scheduler: str
    attached: bool
    unit: str | None  # that restarted it


class Trial(NamedTuple):
    """One trial; the last one that ended, too, until something else attaches."""

    mark: str  # on its container
    scheduler: str
    driver: str  # of its container
    seconds: float  # that it was given
    ends: float  # on the clock that goes on while the machine sleeps, which begins at boot
    before: Before | None
    phase: Phase = Phase.SWITCHING
    why: str | Unknown = ""  # it ended; only root can know
    at: str = ""  # when it ended, RFC 3339
    sequence: int | None = None  # the kernel's enable_seq then
    command: str = ""  # that enables what is on trial; one that an older schedctl began has none

    @property
    def left(self) -> float:
        """Seconds."""
        return max(0.0, self.ends - read_clock())

    @property
    def is_under_way(self) -> bool:
        return self.phase is not Phase.ENDED

    @property
    def back_to(self) -> str:
        """Return it as one sentence."""
        return self.before.scheduler if self.before else "the kernel's own scheduler"


def read_clock() -> float:
    """Seconds since boot, those asleep included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def read_trial(machine: Machine) -> Trial | Unknown | None:
    """The trial that is noted; None if there is none."""
    path = machine.lock.parent / FILE
    try:
        text = path.read_text()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        return Unknown(f"{path}: {getattr(error, 'strerror', None) or error}")
    import json

    try:
        fields: dict[str, Any] = json.loads(text)
        before = Before(**fields["before"]) if fields["before"] else None
        trial = Trial(**{**fields, "before": before, "phase": Phase(fields["phase"])})
    except (ValueError, KeyError, TypeError) as error:
        return Unknown(f"{path} makes no sense: {error}")
    return trial if trial.is_under_way or trial.why else trial._replace(why=_read_why(machine, trial.mark))


def _read_why(machine: Machine, mark: str) -> str | Unknown:
    """Why the trial with this mark ended."""
    path = machine.lock.parent / WHY_FILE
    try:
        whose, _, why = path.read_text().partition("\n")
    except (OSError, UnicodeDecodeError) as error:
        return Unknown(f"{path}: {getattr(error, 'strerror', None) or error}")
    return why if whose == mark else Unknown(f"{path} is of another trial")


def write_trial(machine: Machine, trial: Trial) -> None:
    """Note it, whole or not at all."""
    import json

    if isinstance(trial.why, str) and trial.why:
        _write(machine.lock.parent / WHY_FILE, f"{trial.mark}\n{trial.why}", 0o600)
    fields = trial._asdict() | {"before": trial.before._asdict() if trial.before else None, "why": ""}
    _write(machine.lock.parent / FILE, json.dumps(fields), 0o644)


def _write(path: Path, text: str, mode: int) -> None:
    new = path.with_name(f".{path.name}.{os.getpid()}")
    file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(file, "w") as stream:
        os.fchmod(file, mode)  # whatever the umask is
        stream.write(text)
    new.replace(path)


def forget_trial(machine: Machine) -> None:
    """There is none any more."""
    for name in (FILE, WHY_FILE):
        (machine.lock.parent / name).unlink(missing_ok=True)


def is_kept(machine: Machine, id: str) -> bool:
    """Whether a container that has ended is kept for the way back."""
    trial = read_trial(machine)
    if isinstance(trial, Unknown):
        return True  # what may be needed is not removed
    return trial is not None and trial.is_under_way and trial.before is not None and trial.before.id == id
