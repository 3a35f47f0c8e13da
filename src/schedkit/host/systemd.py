"""systemd, by its own tools: every call is a child process that ends."""

import os
import subprocess
from pathlib import Path
from typing import NamedTuple

from schedkit.errors import NoAnswerError, SchedkitError, UnavailableError
from schedkit.unknown import Unknown

CALL_SECONDS = 120.0  # a unit that is stopped may take its time
LOOK_SECONDS = 10.0
_SHOWN = ("LoadState", "ActiveState", "SubState", "Result", "NRestarts", "ExecMainStatus")


class UnitState(NamedTuple):
    """What systemd says of one unit."""

    active: str  # active, inactive, activating, deactivating, failed
    sub: str
    restarts: int
    exit_code: int | None  # of its last process, where that ended

    @property
    def is_waiting(self) -> bool:
        """Whether it is on its way, or waits to be started again."""
        return self.active == "activating"


def check_systemd(root: Path, what: str, hint: str) -> None:
    """UnavailableError where systemd does not run this machine; `hint` says what to use instead."""
    if not (root / "run/systemd/system").is_dir():
        raise UnavailableError(f"{what} needs systemd, which is not running", hint=hint)


def call(program: str, *words: str, seconds: float = CALL_SECONDS) -> str:
    """What systemctl or systemd-run prints; its complaint is the error."""
    command = [program, *words]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            check=False,
            text=True,
            errors="replace",
            env={**os.environ, "LC_ALL": "C", "SYSTEMD_PAGER": "", "SYSTEMD_COLORS": "0"},
        )
    except FileNotFoundError as error:
        raise UnavailableError(f"{program} is not installed", hint="it comes with systemd") from error
    except subprocess.TimeoutExpired as error:
        raise NoAnswerError(f"{' '.join(command)} did not end within {seconds:.0f} s") from error
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"]
        raise SchedkitError(f"{' '.join(command[:3])} failed: {said[0]}", hint="; ".join(said[1:]))
    return done.stdout


def stop_unit(unit: str) -> None:
    """Stop it; one that is not there has stopped."""
    try:
        call("systemctl", "stop", unit)
    except (UnavailableError, NoAnswerError):
        raise
    except SchedkitError as error:
        if "not loaded" not in error.message:
            raise


def fetch_state(unit: str) -> UnitState | Unknown:
    """How a unit is; a unit that does not exist is inactive."""
    try:
        said = call("systemctl", "show", unit, "--property", ",".join(_SHOWN), seconds=LOOK_SECONDS)
    except SchedkitError as error:
        return Unknown(error.message)
    fields = dict(line.partition("=")[::2] for line in said.splitlines())
    if "ActiveState" not in fields:
        return Unknown(f"systemctl does not report the state of {unit}")
    restarts, code = fields.get("NRestarts", ""), fields.get("ExecMainStatus", "")
    return UnitState(
        fields["ActiveState"],
        fields.get("SubState", ""),
        int(restarts) if restarts.isdigit() else 0,
        int(code) if code.isdigit() else None,
    )
