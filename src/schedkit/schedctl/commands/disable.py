"""`schedctl disable`: none at boot any more."""

import click

from schedkit.errors import NotFoundError
from schedkit.schedctl.lasting import check_systemd
from schedkit.schedctl.options import Command, output_option, pass_session
from schedkit.schedctl.planning import DryRun, dry_run_option, show_plan
from schedkit.schedctl.session import Session


@click.command(
    cls=Command,
    short_help="Stop starting a scheduler at boot.",
    epilog="""
    schedctl disable
    """,
)
@dry_run_option
@output_option
@pass_session
def command(session: Session, dry_run: bool) -> None:
    """Remove the unit that starts a scheduler at boot, and stop the scheduler if the unit runs it.

    A scheduler that was started in another way keeps running. Images are kept.
    """
    from schedkit.host.lasting import end_lasting
    from schedkit.host.units import ENABLED, is_running, read_choice
    from schedkit.unknown import Unknown

    session.require_root("disable")
    check_systemd(session, "schedctl disable", hint="without systemd no scheduler is enabled: schedctl stop")
    root = session.machine.root
    choice, ran = read_choice(root, ENABLED), is_running(root, ENABLED)
    scheduler = None if choice is None or isinstance(choice, Unknown) else choice.scheduler
    if dry_run and choice is not None:
        steps = (*((f"stop {scheduler or 'its scheduler'}",) if ran else ()), f"remove {ENABLED}")
        show_plan(session, DryRun(steps, scheduler))
        return
    if not end_lasting(session.machine, ENABLED):
        raise NotFoundError("no scheduler is enabled", hint="`schedctl status` shows what runs")
    stopped = ", and was stopped" if ran else ""
    session.output.show(
        lambda: {"scheduler": scheduler, "unit": ENABLED, "stopped": ran},
        lambda: f"{scheduler or ENABLED} is not enabled any more{stopped}",
    )
