"""What lasts on this machine: the scheduler that is enabled, the one that is restarted, and the one on trial."""

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from schedkit.errors import ExitCode, SchedkitError
from schedkit.host import units
from schedkit.host.machine import Machine
from schedkit.host.model import Attachment, Host, Managed
from schedkit.host.units import ENABLED, FILES, RERUN, Choice
from schedkit.runtimes.labels import Label, is_unprivileged
from schedkit.unknown import Unknown

if TYPE_CHECKING:
    from schedkit.host.systemd import UnitState
    from schedkit.host.trial_state import Trial


class Service(NamedTuple):
    """A unit of schedctl and how it is; `state` is asked for only where the unit has no process."""

    unit: str
    choice: Choice | Unknown
    running: bool
    state: "UnitState | Unknown | None" = None

    @property
    def gave_up(self) -> bool:
        """Whether systemd has stopped starting it again."""
        return self.state is not None and not isinstance(self.state, Unknown) and self.state.active == "failed"

    def describe(self) -> str:
        """How it is, in a few words."""
        state = self.state
        if self.running:
            return "running"
        if state is None or isinstance(state, Unknown):
            return f"unknown ({state.why})" if state else "unknown"
        code = _name_code(state.exit_code)
        if self.gave_up:
            return f"systemd gave up on it{code}"
        return f"failed{code}, to be started again" if state.is_waiting else "not running"

    def explain_failure(self) -> str:
        """A sentence of `status`, of one that systemd gave up on."""
        name = self.unit if isinstance(self.choice, Unknown) else self.choice.scheduler
        if self.unit == ENABLED:
            return f" {name} is enabled and does not run: {self.describe()}; `schedctl restore` tries again."
        return f" {name} is not started again any more: {self.describe()}."


def _name_code(code: int | None) -> str:
    if not code:
        return ""
    names = {one.value: one.name for one in ExitCode}
    return f" (exit code {code}{f', {names[code]}' if code in names else ''})"


class Lasting(NamedTuple):
    """All of it."""

    enabled: Service | None = None
    at_boot: bool = False
    rerun: Service | None = None
    trial: "Trial | Unknown | None" = None

    @property
    def failed(self) -> Service | None:
        """What shall last and does not, since systemd gave up on it."""
        return next((one for one in (self.enabled, self.rerun) if one and one.gave_up), None)

    @property
    def kept(self) -> str | None:
        """The container that a trial keeps for the way back."""
        trial = self.trial
        if trial is None or isinstance(trial, Unknown) or not trial.is_under_way or trial.before is None:
            return None
        return trial.before.id


def read_lasting(machine: Machine) -> Lasting:
    """A few small files, most of which are not there; systemd is asked only where what should run does not."""
    from schedkit.host.trial_state import read_trial

    return Lasting(
        enabled=read_service(machine, ENABLED),
        at_boot=units.is_at_boot(machine.root),
        rerun=read_service(machine, RERUN),
        trial=read_trial(machine),
    )


def read_service(machine: Machine, unit: str) -> Service | None:
    """One unit; None where it has no file."""
    choice = units.read_choice(machine.root, unit)
    if choice is None:
        return None
    running = units.is_running(machine.root, unit)
    if running:
        return Service(unit, choice, running)
    from schedkit.host.systemd import fetch_state

    return Service(unit, choice, running, fetch_state(unit))


def start_lasting(machine: Machine, choice: Choice, program: Sequence[str], unit: str, *, now: bool = True) -> None:
    """Write a unit, have ENABLED started at boot, and, if `now`, start it: it takes over what is attached."""
    from schedkit.host.systemd import call

    path = machine.root / FILES[unit]
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{os.getpid()}")
    # Variables of a scheduler may be secrets; what else is in it may be seen by everybody, as other units.
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(units.render_unit(choice, program, unit))
        file.flush()
        os.fsync(file.fileno())
    new.chmod(0o600 if choice.env else 0o644)
    new.replace(path)
    call("systemctl", "daemon-reload")
    if unit == ENABLED:
        call("systemctl", "enable", "--quiet", unit)
    if now:
        resume_lasting(unit)


def resume_lasting(unit: str) -> None:
    """Start a unit, whatever became of it before."""
    from schedkit.host.systemd import call

    with suppress(SchedkitError):  # there may be nothing to forget
        call("systemctl", "reset-failed", unit)
    call("systemctl", "restart", unit)


def end_lasting(machine: Machine, unit: str) -> bool:
    """Stop a unit, with its scheduler if it runs one, and remove it; False if there is none."""
    from schedkit.host.systemd import call, stop_unit

    path = machine.root / FILES[unit]
    if not os.path.lexists(path):
        return False
    stop_unit(unit)
    if unit == ENABLED:
        call("systemctl", "disable", "--quiet", unit)
    path.unlink(missing_ok=True)
    call("systemctl", "daemon-reload")
    with suppress(SchedkitError):
        call("systemctl", "reset-failed", unit)
    return True


def find_waiting(machine: Machine) -> list[Service]:
    """The units that are about to start a scheduler."""
    from schedkit.host.systemd import UnitState

    found = [read_service(machine, unit) for unit in (ENABLED, RERUN)]
    return [one for one in found if one and isinstance(one.state, UnitState) and one.state.is_waiting]


def end_waiting(machine: Machine) -> list[Service]:
    """Stop those: what is stopped now shall stay so."""
    from schedkit.host.systemd import stop_unit

    waiting = find_waiting(machine)
    for one in waiting:
        stop_unit(one.unit)
    return waiting


def find_unit(machine: Machine) -> str | None:
    """The unit that restarts what runs; the kernel has one slot, so there is one."""
    return next((unit for unit in (ENABLED, RERUN) if units.is_running(machine.root, unit)), None)


def find_chosen(host: Host, choice: Choice) -> Managed | None:
    """A container that runs just this choice, whoever started it."""
    from schedkit.host.preparing import observe_settled

    return next((one for one in observe_settled(host).running if runs_choice(one, choice)), None)


def runs_choice(managed: Managed, choice: Choice) -> bool:
    """Whether a container was made of just this choice."""
    from schedkit.host.containers import format_args

    if is_unprivileged(managed.container.labels) != choice.unprivileged:
        return False
    wanted = choice.digest, format_args(choice.args), format_args(choice.files) if choice.files else None
    return wanted == tuple(map(managed.container.labels.get, (Label.DIGEST, Label.ARGS, Label.FILES)))


def is_chosen(managed: Managed | None) -> bool:
    """Whether that container's scheduler is in the slot."""
    return managed is not None and managed.attachment is Attachment.YES
