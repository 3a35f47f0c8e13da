"""`schedctl restart`: the same scheduler again."""

import click

from schedkit.errors import NotFoundError
from schedkit.schedctl.completing import complete_container
from schedkit.schedctl.durations import attach_timeout_option
from schedkit.schedctl.options import Command, output_option, pass_session
from schedkit.schedctl.output import format_seconds, format_span, words
from schedkit.schedctl.planning import DryRun, dry_run_option, name_container, show_plan
from schedkit.schedctl.session import Session
from schedkit.schedctl.views import attached_fields


@click.command(
    cls=Command,
    short_help="Stop a scheduler and start it again.",
    epilog="""
    schedctl restart
    schedctl restart scx_rusty
    """,
)
@click.argument("id", required=False, metavar="[ID|NAME]", shell_complete=complete_container)
@attach_timeout_option
@dry_run_option
@output_option
@pass_session
def command(session: Session, id: str | None, timeout: float, dry_run: bool) -> None:
    """Stop a scheduler and start its container again, with the same image and arguments.

    Defaults to the running scheduler. One that has ended can be started again until its container is removed. If it
    does not attach, its container is removed.
    """
    from schedkit.host.preparing import check_kernel
    from schedkit.host.restart import restart
    from schedkit.host.units import ENABLED, read_choice

    session.require_root("restart")
    check_kernel(session.machine, id or "a scheduler")
    try:
        if dry_run:
            show_plan(session, _plan(session, id, timeout))
            return
        attached = restart(session.host, id, timeout=timeout)
    except NotFoundError as error:
        if id is None and read_choice(session.machine.root, ENABLED):
            raise NotFoundError(error.message, hint="`schedctl restore` starts the enabled one") from error
        raise
    session.output.show(
        lambda: {"container": attached_fields(attached)},
        lambda: (
            f"{attached.container.name} is attached as {words(attached.ops)} after {format_seconds(attached.seconds)}"
        ),
    )


def _plan(session: Session, id: str | None, timeout: float) -> DryRun:
    from schedkit.host.restart import find_restartable

    _, one = find_restartable(session.host, id)
    wait = f"and wait up to {format_span(timeout)} for the kernel to attach it"
    steps = (f"stop {name_container(one.container)}",) if one.running else ()
    return DryRun((*steps, f"start {name_container(one.container)} again, {wait}"), one.scheduler)
