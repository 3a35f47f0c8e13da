"""End a scheduler that nobody manages."""

import errno
import os
from pathlib import Path
from typing import NamedTuple

from schedkit.errors import NoPermissionError, SchedkitError
from schedkit.kernel.bpf import Bpf, StructOps
from schedkit.kernel.files import explain
from schedkit.kernel.holder import Registration, find_registration
from schedkit.kernel.state import State, read_state
from schedkit.unknown import Unknown


class Way(NamedTuple):
    """How it will be done, for people to agree to: `detach BPF link 17`, `SysRq S`."""

    text: str
    link: int | None = None  # None: SysRq


def find_way(root: Path = Path("/"), *, struct_ops: StructOps | None = None) -> Way | Unknown:
    """The attached scheduler's link if it can be found, else SysRq if that is to be had; Unknown says why neither."""
    state = read_state(root).state
    if isinstance(state, Unknown):
        return state
    if state in (State.DISABLED, State.UNSUPPORTED):
        return Unknown("no scheduler is attached")
    registration = find_registration(root, struct_ops or Bpf())
    if isinstance(registration, Registration) and registration.link is not None:
        return Way(f"detach BPF link {registration.link}", registration.link)
    trigger = _trigger(root)
    if trigger.exists() and os.access(trigger, os.W_OK):
        return Way("SysRq S")
    why = registration.why if isinstance(registration, Unknown) else "it has no BPF link"
    return Unknown(f"{why}, and {trigger} {'may not be written' if trigger.exists() else 'is not there'}")


def detach(way: Way, root: Path = Path("/"), *, struct_ops: StructOps | None = None) -> None:
    """Do it; the caller waits for the kernel to say that it is done."""
    try:
        if way.link is None:
            _write_trigger(_trigger(root))
        else:
            (struct_ops or Bpf()).detach(way.link)
    except OSError as error:
        if way.link is not None and error.errno in (errno.ENOENT, errno.ENOLINK):
            return  # it left by itself: what was asked for is so
        if error.errno in (errno.EPERM, errno.EACCES):
            raise NoPermissionError(f"cannot {_verb(way)}: only root may", hint="run it with sudo") from error
        hint = "" if way.link is None else f"SysRq S ends any scheduler: echo S > {_trigger(root)}"
        raise SchedkitError(f"cannot {_verb(way)}: {explain('the kernel says', error)}", hint=hint) from error


def _verb(way: Way) -> str:
    return way.text if way.link is not None else f"send {way.text}"


def _trigger(root: Path) -> Path:
    return root / "proc/sysrq-trigger"


def _write_trigger(trigger: Path) -> None:
    file = os.open(trigger, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(file, b"S")
    finally:
        os.close(file)
