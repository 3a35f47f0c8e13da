"""`schedctl keep`: what is on trial stays."""

import click

from schedkit.schedctl.lasting import check_systemd
from schedkit.schedctl.options import Command, output_option, pass_session
from schedkit.schedctl.session import Session


@click.command(
    cls=Command,
    short_help="Keep the scheduler that is on trial.",
    epilog="""
    schedctl trial scx_lavd --for 10m
    schedctl keep
    """,
)
@output_option
@pass_session
def command(session: Session) -> None:
    """End the trial and keep its scheduler, until it is stopped or the machine is rebooted.

    `schedctl enable` with the same name and arguments keeps it for every boot.
    """
    from schedkit.host.trial import keep

    session.require_root("keep")
    check_systemd(session, "schedctl keep", hint="without systemd no scheduler is on trial: schedctl status")
    trial = keep(session.host)
    session.output.show(
        lambda: {"scheduler": trial.scheduler},
        lambda: f"{trial.scheduler} stays; `schedctl enable {trial.scheduler}` starts it at boot, too",
    )
