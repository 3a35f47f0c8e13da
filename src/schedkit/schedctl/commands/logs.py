"""`schedctl logs`: what a scheduler said."""

import click

from schedkit.cli import Whole
from schedkit.schedctl.choosing import choose_container
from schedkit.schedctl.completing import complete_container
from schedkit.schedctl.durations import parse_since
from schedkit.schedctl.following import write_logs
from schedkit.schedctl.options import Command, pass_session
from schedkit.schedctl.session import Session


@click.command(
    cls=Command,
    short_help="Show a scheduler's output.",
    epilog="""
    schedctl logs
    schedctl logs scx_rusty -f --tail 20
    schedctl logs --since 10m -t
    """,
)
@click.argument("id", required=False, metavar="[ID|NAME]", shell_complete=complete_container)
@click.option("-f", "--follow", is_flag=True, help="Follow the output until it ends.")
@click.option("-n", "--tail", type=Whole(0), metavar="N", help="Show only the last N lines.")
@click.option(
    "--since",
    metavar="TIME",
    help="Only output newer than 90s, 10m, 2h, 1d, or since a time such as 2026-11-16T10:00:00Z.",
)
@click.option("-t", "--timestamps", is_flag=True, help="Show the time of each line, as the runtime recorded it.")
@pass_session
def command(
    session: Session, id: str | None, follow: bool, tail: int | None, since: str | None, timestamps: bool
) -> None:
    """Show a scheduler's stdout and stderr, also after it has ended, until its container is removed.

    Defaults to the running scheduler, or to the one that ended last.
    """
    begin = None if since is None else parse_since(since, session.machine.now())
    runtime, container = choose_container(session, id)
    write_logs(session, runtime, container.id, follow=follow, tail=tail, since=begin, timestamps=timestamps)
