"""`schedctl ps`: the schedulers' containers over all runtimes."""

import click

from schedkit.schedctl.options import Command, output_option, pass_session
from schedkit.schedctl.session import Session
from schedkit.schedctl.show_containers import show_containers


@click.command(
    cls=Command,
    short_help="List the schedulers' containers.",
    epilog="""
    schedctl ps
    schedctl ps --all
    schedctl ps -q | xargs -n 1 schedctl stop
    schedctl ps -o json | jq -r '.containers[].id'
    """,
)
@click.option("-a", "--all", "everything", is_flag=True, help="Include containers that have ended or never started.")
@click.option("-q", "--quiet", is_flag=True, help="Print only IDs, one per line.")
@output_option
@pass_session
def command(session: Session, everything: bool, quiet: bool) -> None:
    """List the schedulers' containers in all runtimes that respond, and whether the kernel has attached them.

    For a container that does not run, UPTIME shows its state and exit code instead.
    """
    show_containers(session, everything=everything, quiet=quiet)
