"""`schedctl logs`: what a scheduler said."""

from datetime import datetime

import click

from schedkit.errors import UnavailableError, UsageError
from schedkit.schedctl.choosing import choose_container
from schedkit.schedctl.completing import complete_container
from schedkit.schedctl.following import write_logs
from schedkit.schedctl.options import Command, pass_session
from schedkit.schedctl.session import Session

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


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
    if begin is not None and runtime.driver == "containerd":
        raise UnavailableError(
            "the output of a container of containerd is kept without times", hint="take its last lines: --tail N"
        )
    write_logs(session, runtime, container.id, follow=follow, tail=tail, since=begin)


def parse_since(text: str, now: datetime) -> float:
    """A moment: so long ago, or a time of day with its date."""
    number, unit = text[:-1], text[-1:]
    if unit in UNITS and number.isascii() and number.isdigit() and len(number) < 9:
        return now.timestamp() - int(number) * UNITS[unit]
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(f"--since {text}: not a time", hint="90s, 10m, 2h, 1d, or 2026-11-16T10:00:00Z") from error
    return moment.timestamp()  # without a zone it is this machine's
