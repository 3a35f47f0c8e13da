"""`schedctl keep`: what is on trial stays."""

import click

from schedkit.schedctl.lasting import check_systemd
from schedkit.schedctl.options import Command, output_option, pass_session
from schedkit.schedctl.planning import DryRun, dry_run_option, show_plan
from schedkit.schedctl.session import Session


@click.command(
    cls=Command,
    short_help="Keep the scheduler that is on trial.",
    epilog="""
    schedctl trial scx_lavd --for 10m
    schedctl keep
    """,
)
@dry_run_option
@output_option
@pass_session
def command(session: Session, dry_run: bool) -> None:
    """End the trial and keep its scheduler, until it is stopped or the machine is rebooted.

    `schedctl enable` with the same name and arguments keeps it for every boot; `keep` prints that command.
    """
    from schedkit.host.trial import keep, require_trial

    session.require_root("keep")
    check_systemd(session, "schedctl keep", hint="without systemd no scheduler is on trial: schedctl status")
    if dry_run:
        scheduler = require_trial(session.machine).scheduler
        steps = (f"end the trial of {scheduler}", f"keep {scheduler}")
        show_plan(session, DryRun(steps, scheduler))
        return
    trial = keep(session.host)
    command_line = trial.command or f"schedctl enable {trial.scheduler}"
    session.output.show(
        lambda: {"scheduler": trial.scheduler, "command": command_line},
        lambda: f"{trial.scheduler} stays; `{command_line}` starts it at boot, too",
    )
