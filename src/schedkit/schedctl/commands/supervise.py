"""`schedctl supervise`: what `--restart` starts in the background; not for people."""

import sys

import click

from schedkit.schedctl.choosing import choose_container
from schedkit.schedctl.options import Command, pass_session
from schedkit.schedctl.output import format_time
from schedkit.schedctl.session import Session


@click.command(cls=Command, hidden=True)
@click.argument("id")
@pass_session
def command(session: Session, id: str) -> None:
    """Watch over the container ID and start it again as its restart policy says."""
    from schedkit.host.supervise import supervise

    def note(text: str) -> None:
        print(f"{format_time(session.machine.now())} {text}", file=sys.stderr, flush=True)

    runtime, container = choose_container(session, id)
    supervise(session.machine, runtime, container.id, note)
