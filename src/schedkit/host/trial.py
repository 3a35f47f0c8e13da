"""A scheduler on trial: unless somebody keeps it, the machine goes back to what was before.

A unit of systemd is there from before the first change until the way back is done, and is started again when it is
killed: whatever becomes of the command that began the trial, or of its terminal, somebody looks after it.
"""

import secrets
from collections.abc import Callable, Sequence

from schedkit.errors import NotFoundError, SchedkitError, UnavailableError, UsageError
from schedkit.host import containers
from schedkit.host.attaching import AttachAttempt
from schedkit.host.errors import EjectedError, RolledBackError
from schedkit.host.explain import explain_end
from schedkit.host.lasting import find_unit
from schedkit.host.lock import hold_lock
from schedkit.host.machine import Machine
from schedkit.host.managed import observe
from schedkit.host.model import Attachment, Host, Managed, Observed, RunRequest, Switched, Verify
from schedkit.host.stop import is_gone, wait_detached
from schedkit.host.switch import switch
from schedkit.host.systemd import call, stop_unit
from schedkit.host.trial_state import Before, Phase, Trial, forget_trial, read_clock, read_trial, write_trial
from schedkit.host.units import ENABLED, TRIAL, is_at_boot
from schedkit.kernel.changes import Changes
from schedkit.kernel.log import Ejection, KernelLog
from schedkit.kernel.state import KernelState, read_state
from schedkit.runtimes.container import NOT_RUNNING, Container, ContainerState
from schedkit.runtimes.labels import Label
from schedkit.unknown import Unknown

_LOCK_SECONDS = 600.0  # a switch that goes on, its way back included
_LOOK_SECONDS = 60.0  # the clock goes on while the machine sleeps, and what waits here does not
_BACK_SECONDS = 60.0  # what the old one gets to attach again
_ENDING_SECONDS = 2.0  # one that ends is not attached a moment before its container has ended

Note = Callable[[str], None]  # a line for the journal


def find_trial(machine: Machine) -> Trial | None:
    """The trial that is under way, if one is."""
    trial = read_trial(machine)
    return trial if isinstance(trial, Trial) and trial.is_under_way else None


def check_trial(machine: Machine) -> None:
    """One trial at a time: two would not agree on what was before."""
    trial = find_trial(machine)
    if trial:
        raise UsageError(
            f"{trial.scheduler} is on trial already, for another {trial.left:.0f} s",
            hint="`schedctl keep` ends the trial and keeps it, `schedctl restore` goes back now",
        )


def begin_trial(
    host: Host, request: RunRequest, verify: Verify, seconds: float, program: Sequence[str], *, command: str = ""
) -> tuple[Switched, Trial]:
    """Switch, with the unit that goes back in place before anything ends; `command` enables the same scheduler."""
    machine = host.machine
    mark = secrets.token_hex(8)
    driver, ends = host.runtimes.chosen.driver, read_clock() + seconds
    trial = Trial(mark, request.scheduler, driver, seconds, ends, None, command=command)

    def begin(old: Managed | None) -> None:
        nonlocal trial
        check_trial(machine)  # again, under the lock: another command may have been quicker
        trial = trial._replace(before=_describe(machine, old) if old else None)
        write_trial(machine, trial)
        _start_unit(program)

    try:
        switched = switch(host, request._replace(trial=mark), verify, begin=begin)
    except BaseException:
        # What was before runs again, or it is the unit that brings it back.
        with hold_lock(machine.lock, patience=_LOCK_SECONDS):
            _close(host, mark)
        raise
    with hold_lock(machine.lock, patience=_LOCK_SECONDS):
        noted = read_trial(machine)
        if isinstance(noted, Trial) and noted.mark == mark and not noted.is_under_way:  # its unit was quicker
            why = noted.why.why if isinstance(noted.why, Unknown) else noted.why
            cause = EjectedError(f"{trial.scheduler} attached and did not stay: {why}")
            raise RolledBackError(f"{cause.message}. Back to {trial.back_to}", cause=cause)
        trial = trial._replace(phase=Phase.ON, ends=read_clock() + seconds)
        write_trial(machine, trial)
    return switched, trial


def keep(host: Host) -> Trial:
    """End the trial and leave what is on trial where it is."""
    machine = host.machine
    with hold_lock(machine.lock, patience=_LOCK_SECONDS):
        trial = require_trial(machine)
        forget_trial(machine)  # from here on nobody goes back
        _discard_before(host, trial)
    stop_unit(TRIAL)
    return trial


def keep_if_on_trial(host: Host, container: Container) -> None:
    """End the trial that a container belongs to, if to one: it is wanted now."""
    trial = find_trial(host.machine)
    if trial and container.labels.get(Label.TRIAL) == trial.mark:
        keep(host)


def end_trial(host: Host, note: Note) -> Trial | None:
    """Go back now, if a trial is under way."""
    trial = find_trial(host.machine)
    return go_back(host, trial.mark, note, why="`schedctl restore` ended it") if trial else None


def find_on_trial(host: Host, trial: Trial) -> Managed | None:
    """What is on trial, if it is still there; UnavailableError where that cannot be seen."""
    return _find_marked(_observe(host, trial), trial)


def require_trial(machine: Machine) -> Trial:
    """The trial that is under way."""
    trial = read_trial(machine)
    if isinstance(trial, Unknown):
        raise UnavailableError(f"whether a trial is under way could not be read: {trial.why}")
    if trial is None or not trial.is_under_way:
        raise NotFoundError("no trial is under way", hint="`schedctl trial NAME --for 10m` begins one")
    return trial


def watch_trial(host: Host, note: Note) -> None:
    """Wait for the end of the trial, for its scheduler's, or for a person to decide; then do what is to be done."""
    machine = host.machine
    told = False
    with KernelLog(machine.root) as log, Changes(machine.root) as changes:
        while True:
            # Who began it holds the lock until it is attached, or is gone; so does who stops, replaces or restarts it.
            with hold_lock(machine.lock, patience=_LOCK_SECONDS):
                trial = read_trial(machine)
                if isinstance(trial, Unknown):
                    raise UnavailableError(f"the trial that is under way could not be read: {trial.why}")
                if trial is None or not trial.is_under_way:
                    return
                observed = _observe(host, trial)
                attached = _is_attached(observed, trial)
                if attached and trial.phase is Phase.SWITCHING:
                    trial = trial._replace(phase=Phase.ON)
                    write_trial(machine, trial)
            if not attached:
                go_back(host, trial.mark, note, log=log)
                return
            if not told:
                note(f"{trial.scheduler} is on trial for {trial.left:.0f} s, then back to {trial.back_to}")
            told = True
            if _wait(machine, changes, trial, observed.kernel):
                go_back(host, trial.mark, note, why=f"its {trial.seconds:.0f} s are over")
                return


def _wait(machine: Machine, changes: Changes, trial: Trial, attached: KernelState) -> bool:
    """Until its time is over, True, or something else has happened, which may be that somebody set the time."""
    while trial.left > 0:
        if is_gone(changes.wait_until(lambda now: is_gone(now, attached), min(trial.left, _LOOK_SECONDS)), attached):
            return False
        if read_trial(machine) != trial:
            return False
    return True


def go_back(host: Host, mark: str, note: Note, *, why: str = "", log: KernelLog | None = None) -> Trial | None:
    """Undo a trial, if it is still under way; None if it is not. Without `why`, its end is looked for and told."""
    machine = host.machine
    with hold_lock(machine.lock, patience=_LOCK_SECONDS):
        trial = read_trial(machine)
        if not isinstance(trial, Trial) or not trial.is_under_way or trial.mark != mark:
            return None
        observed = _observe(host, trial)
        mine = _find_marked(observed, trial)
        if mine is None and trial.phase is Phase.ON:
            note(f"{trial.scheduler} was stopped or replaced: the trial is over")
            _discard_before(host, trial)
            forget_trial(machine)
            return None
        if not why:
            why = _explain(host, mine, log) if mine else "it did not attach"
            observed = _observe(host, trial)  # that may have taken a moment
            mine = _find_marked(observed, trial)
        note(f"{trial.scheduler}: {why}; back to {trial.back_to}")
        if mine:
            containers.discard(host.runtimes.find(mine.container), mine.container.id, host.progress)
            if mine.attachment is Attachment.YES:
                with Changes(machine.root) as changes:
                    wait_detached(machine, changes, observed.kernel)
        unit, failure = _bring_back(host, observed, trial.before)
        sequence = read_state(machine.root).enable_seq
        trial = trial._replace(
            phase=Phase.ENDED,
            why=f"{why}; {failure}" if failure else why,
            at=machine.now().isoformat(timespec="seconds"),
            sequence=sequence if isinstance(sequence, int) else None,
        )
        write_trial(machine, trial)
    if failure:
        note(failure)
    if unit:
        call("systemctl", "start", "--no-block", unit)
    return trial


def remove_leftovers(host: Host) -> None:
    """Remove the ended containers of trials that are over: a reboot ends a trial, and nobody removes its container."""
    with hold_lock(host.machine.lock, patience=_LOCK_SECONDS):
        trial = read_trial(host.machine)
        if isinstance(trial, Unknown) or (trial and trial.is_under_way):
            return
        for one in host.runtimes.fetch_containers():
            if Label.TRIAL in one.labels and one.state in NOT_RUNNING:
                host.progress.step(f"removing {one.name}, left over from a trial")
                containers.discard(host.runtimes.find(one), one.id, host.progress)


def _observe(host: Host, trial: Trial) -> Observed:
    """What is there; UnavailableError unless those that matter can be asked: what is unknown is not gone."""
    observed = observe(host.machine, host.runtimes)
    needed = {trial.driver} | ({trial.before.driver} if trial.before else set())
    missing = [one for one in observed.unreachable if one.driver in needed]
    if missing:
        raise UnavailableError(f"{missing[0]}: the trial of {trial.scheduler} cannot be ended")
    return observed


def _bring_back(host: Host, observed: Observed, before: Before | None) -> tuple[str | None, str]:
    """Start what was before again; the unit that is to look after it, and what went wrong."""
    machine = host.machine
    if before is None:
        return None, ""
    old = next((one for one in observed.managed if one.container.id == before.id), None)
    otherwise = ENABLED if is_at_boot(machine.root) else None
    if old is None:
        return otherwise, f"{before.name} is gone"
    if old.running:
        return before.unit, ""
    runtime = host.runtimes.find(old.container)
    try:
        with AttachAttempt(machine, runtime, before.id, before.scheduler) as attempt:
            attempt.start()
            if before.attached:
                attempt.wait(_BACK_SECONDS)
    except SchedkitError as error:
        containers.discard(runtime, before.id, host.progress)
        return otherwise, f"{before.name} did not come back: {error.message}"
    return before.unit, ""


def _close(host: Host, mark: str) -> None:
    """End a trial whose switch failed; one whose way back failed too is left to the unit, which goes on trying."""
    trial = read_trial(host.machine)
    if not isinstance(trial, Trial) or trial.mark != mark:
        return
    observed = observe(host.machine, host.runtimes)
    back = trial.before is None or any(one.container.id == trial.before.id for one in observed.running)
    if back and _find_marked(observed, trial) is None:
        forget_trial(host.machine)


def _start_unit(program: Sequence[str]) -> None:
    """One of systemd's transient ones: it is gone when it ends, and started again if it is killed or fails."""
    properties = ("Restart=on-failure", "RestartSec=1", "StartLimitIntervalSec=0", "SuccessExitStatus=130")
    words = [word for one in properties for word in ("--property", one)]
    about = "Goes back from a CPU scheduler on trial (sched_ext)"
    stop_unit(TRIAL)  # of a trial that is over and has not noticed
    call(
        "systemd-run",
        "--quiet",
        "--collect",
        f"--unit={TRIAL}",
        f"--description={about}",
        *words,
        *program,
        "service",
        TRIAL,
    )


def _describe(machine: Machine, old: Managed) -> Before:
    container = old.container
    attached = old.attachment is Attachment.YES
    return Before(container.driver, container.id, container.name, old.scheduler, attached, find_unit(machine))


def _find_marked(observed: Observed, trial: Trial) -> Managed | None:
    return next((one for one in observed.managed if one.container.labels.get(Label.TRIAL) == trial.mark), None)


def _is_attached(observed: Observed, trial: Trial) -> bool:
    mine = _find_marked(observed, trial)
    return mine is not None and mine.attachment is Attachment.YES


def _explain(host: Host, mine: Managed, log: KernelLog | None) -> str:
    """Why a scheduler on trial is not attached any more, or never was."""
    if ejected := _read_ejection(log):
        return ejected
    container = mine.container
    runtime = host.runtimes.find(container)
    if container.state is ContainerState.RUNNING:
        try:
            runtime.wait(container.id, _ENDING_SECONDS)
            container = runtime.fetch_container(container.id)
        except SchedkitError as error:  # no reason not to go back
            return f"it is not attached, and how it ended is not known: {error.message}"
        if ejected := _read_ejection(log):  # the kernel tells why when it is done with it
            return ejected
    if container.state is not ContainerState.EXITED:
        return "it runs and is not attached"
    began = container.started.timestamp() if container.started else None
    lines = containers.read_last_lines(runtime, container.id, since=began)
    return explain_end(container.name, lines, container.exit_code).message


def _read_ejection(log: KernelLog | None) -> str:
    ejection = log.read_ejection() if log else None
    return ejection.sentence if isinstance(ejection, Ejection) and ejection.is_fault else ""


def _discard_before(host: Host, trial: Trial) -> None:
    if trial.before is None:
        return
    for one in host.runtimes.fetch_containers():
        if one.id == trial.before.id and one.state is ContainerState.EXITED:
            containers.discard(host.runtimes.find(one), one.id, host.progress)
