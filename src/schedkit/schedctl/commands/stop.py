"""`schedctl stop`: end a scheduler that schedctl runs."""

import click

from schedkit.errors import NotFoundError, SchedkitError, UsageError
from schedkit.host.lasting import Service, end_lasting, end_waiting, find_waiting
from schedkit.host.model import Attachment
from schedkit.host.stop import STOP_SECONDS, NotStopped, Stopped, find, stop, stop_all
from schedkit.host.units import RERUN, read_choice
from schedkit.runtimes.view import unseen
from schedkit.schedctl.completing import complete_container
from schedkit.schedctl.durations import timeout_option
from schedkit.schedctl.options import Command, output_option, pass_session
from schedkit.schedctl.output import Json, format_seconds
from schedkit.schedctl.planning import DryRun, dry_run_option, name_container, show_plan
from schedkit.schedctl.session import Session
from schedkit.schedctl.views import SHORT_ID, container_fields
from schedkit.unknown import Unknown


@click.command(
    cls=Command,
    short_help="Stop a scheduler and wait until the kernel has detached it.",
    epilog="""
    schedctl stop
    schedctl stop scx_rusty --timeout 30
    schedctl stop --all
    """,
)
@click.argument("id", required=False, metavar="[ID|NAME]", shell_complete=complete_container)
@click.option("--all", "everything", is_flag=True, help="Stop all schedulers, and remove containers that have ended.")
@timeout_option(STOP_SECONDS, "it may take to leave before it is killed")
@dry_run_option
@output_option
@pass_session
def command(session: Session, id: str | None, everything: bool, timeout: float, dry_run: bool) -> None:
    """Stop a scheduler: send SIGTERM, then SIGKILL after --timeout, and wait until the kernel has detached it.

    Its container is removed, and systemd does not start it again before the next boot. Defaults to the running
    scheduler. ID is the beginning of a container ID; NAME is the name of a container or of a scheduler.
    """
    if everything and id:
        raise UsageError("--all cannot be used with an ID", hint="use one of the two")
    session.require_root("stop")
    host = session.host
    if dry_run:
        show_plan(session, _plan(session, id, everything))
        if everything and host.runtimes.hidden:
            raise unseen("these are what could be seen", host.runtimes.hidden)
        return
    ended = end_waiting(session.machine) if id is None else []
    failed: list[NotStopped] = []
    if everything:
        stopped, failed = stop_all(host, timeout=timeout)
    else:
        stopped = _stop_one(session, id, timeout, ended)
    if ended or any(one.was_attached for one in stopped):
        end_lasting(session.machine, RERUN)
    hidden = host.runtimes.hidden if everything else []
    nothing = "" if failed or hidden else "schedctl has no container"
    lines = [f"{one.unit}: stopped, {_name(one)} will not be started again" for one in ended]
    text = "\n".join([*lines, *(_text(one) for one in stopped)]) or nothing
    session.output.show(lambda: {"stopped": [_fields(one) for one in stopped]}, lambda: text)
    if failed:
        kinds = {type(one.error) for one in failed}
        raise (kinds.pop() if len(kinds) == 1 else SchedkitError)(
            "; ".join(f"{one.container.name} ({one.container.driver}): {one.error.message}" for one in failed),
            hint=failed[0].error.hint,
        )
    if hidden:
        raise unseen("everything that could be seen is stopped", hidden)


def _plan(session: Session, id: str | None, everything: bool) -> DryRun:
    from schedkit.host.managed import observe

    observed = observe(session.machine, session.runtimes)
    waiting = find_waiting(session.machine) if id is None else []
    try:
        chosen = list(observed.managed) if everything else [find(observed, id)]
    except NotFoundError:
        if not waiting:
            raise
        chosen = []
    steps = [f"stop {one.unit}, which is about to start {_name(one)} again" for one in waiting]
    for one in chosen:
        verb = "stop and remove" if one.running else "remove"
        wait = ", and wait until the kernel has let it go" if one.attachment is Attachment.YES else ""
        steps.append(f"{verb} {name_container(one.container)}{wait}")
    attached = any(one.attachment is Attachment.YES for one in chosen)
    if (waiting or attached) and read_choice(session.machine.root, RERUN):
        steps.append(f"remove {RERUN}")
    return DryRun(tuple(steps), chosen[0].scheduler if len(chosen) == 1 else None)


def _stop_one(session: Session, id: str | None, timeout: float, ended: list[Service]) -> list[Stopped]:
    try:
        return [stop(session.host, id, timeout=timeout)]
    except NotFoundError:
        if id is None and ended:  # that was what is meant: it waited to be started again
            return []
        raise


def _name(service: Service) -> str:
    return "it" if isinstance(service.choice, Unknown) else service.choice.scheduler


def _fields(stopped: Stopped) -> Json:
    return {
        **container_fields(stopped.container),
        "exit_code": stopped.exit_code,
        "scheduler": stopped.scheduler,
        "was_attached": stopped.was_attached,
        "killed": stopped.killed,
        "seconds": round(stopped.seconds, 3),
    }


def _text(stopped: Stopped) -> str:
    what = "detached and removed" if stopped.was_attached else "removed"
    killed = ", killed" if stopped.killed else ""
    container = stopped.container
    where = f"({container.driver} {container.id[:SHORT_ID]})"
    return f"{container.name} {where}: {what}{killed} after {format_seconds(stopped.seconds)}"
