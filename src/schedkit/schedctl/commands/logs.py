"""`schedctl logs`: what a scheduler said."""

import click

from schedkit.schedctl.choosing import choose_container
from schedkit.schedctl.completing import complete_container
from schedkit.schedctl.durations import parse_since
from schedkit.schedctl.following import write_logs
from schedkit.schedctl.options import Command, pass_session
from schedkit.schedctl.session import Session


@click.command(
    cls=Command,
    short_help="Print what a scheduler said.",
    epilog="""
    schedctl logs
    schedctl logs scx_rusty -f --tail 20
    schedctl logs --since 10m
    """,
)
@click.argument("id", required=False, metavar="[ID|NAME]", shell_complete=complete_container)
@click.option("-f", "--follow", is_flag=True, help="Go on until it ends.")
@click.option("-n", "--tail", type=click.IntRange(min=0), metavar="N", help="Only the last N lines.")
@click.option(
    "--since", metavar="TIME", help="Only what came since: 90s, 10m, 2h, 1d, or a time as 2026-11-16T10:00:00Z."
)
@pass_session
def command(session: Session, id: str | None, follow: bool, tail: int | None, since: str | None) -> None:
    """Print what a scheduler said, both its outputs; of one that ended too, as long as its container is kept.

    Without ID it is the one there is, or the one of several that runs.
    """
    begin = None if since is None else parse_since(since, session.machine.now())
    runtime, container = choose_container(session, id)
    write_logs(session, runtime, container.id, follow=follow, tail=tail, since=begin)
