"""`schedctl enable`: a scheduler now and at every boot."""

from typing import Any

import click

from schedkit.host.units import ENABLED, RESTARTS
from schedkit.schedctl.enabling import describe_lasted, enable, lasted_fields, plan_enable
from schedkit.schedctl.options import output_option, pass_session
from schedkit.schedctl.planning import dry_run_option, show_plan
from schedkit.schedctl.requests import RequestCommand, parse_order, request_options
from schedkit.schedctl.session import Session


@click.command(
    cls=RequestCommand,
    short_help="Run a scheduler now and at every boot.",
    epilog="""
    schedctl enable scx_lavd
    schedctl enable scx_bpfland --version v1.1.0 -- -m performance
    """,
)
@request_options
@dry_run_option
@output_option
@pass_session
def command(session: Session, /, name: str, args: tuple[str, ...], dry_run: bool, **options: Any) -> None:
    """Run a scheduler now and at every boot, with the systemd unit schedkit.service.

    The image is verified and pinned by digest, and the scheduler is attached in place of the running one. A scheduler
    that does not attach is not enabled. At boot, no network is needed if its signature was verified. systemd restarts
    it when it ends or is ejected, at most five times in a row. `journalctl -u schedkit` shows its output.
    """
    order = parse_order(name, args, restart=f"on-failure:{RESTARTS}", **options)
    session.check_known(name)
    session.require_root("enable")
    if dry_run:
        show_plan(session, plan_enable(session, order))
        return
    lasted = enable(session, order)
    session.output.show(
        lambda: lasted_fields(lasted),
        lambda: f"{describe_lasted(lasted)}\n{lasted.choice.scheduler} is enabled: {ENABLED} starts it at boot",
    )
