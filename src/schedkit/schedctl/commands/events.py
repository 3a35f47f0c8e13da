"""`schedctl events`: what happens to the kernel's slot, as it happens."""

import os
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from schedkit.errors import UnavailableError, UsageError, needs_root
from schedkit.schedctl.durations import parse_since
from schedkit.schedctl.options import Command, output_option, pass_session
from schedkit.schedctl.output import format_json
from schedkit.schedctl.session import Session
from schedkit.schedctl.show_event import describe_event, event_fields
from schedkit.unknown import Unknown

if TYPE_CHECKING:
    from schedkit.host.events import KernelEvent


@click.command(
    cls=Command,
    short_help="Follow what the kernel attaches, detaches and ejects.",
    epilog="""
    schedctl events
    schedctl events --since 1d --no-follow
    schedctl events -o json | jq --unbuffered -r 'select(.event == "ejected") | .reason'
    """,
)
@click.option(
    "--since",
    metavar="TIME",
    help="First show earlier events: of the last 90s, 10m, 2h, 1d, or since a time such as 2026-11-16T10:00:00Z.",
)
@click.option("--no-follow", is_flag=True, help="End after the events of --since.")
@output_option
@pass_session
def command(session: Session, since: str | None, no_follow: bool) -> None:
    """Print a line when the kernel attaches, detaches or ejects a scheduler: when, which, whose, and why it ended.

    Ends with Ctrl-C. With -o json, each line is one document. The kernel's log, from which the reasons and earlier
    events come, is readable for root only; it does not go back forever, and does not show whose an earlier scheduler
    was.
    """
    from schedkit.host.events import SlotEvents

    if no_follow and since is None:
        raise UsageError("--no-follow needs --since", hint="for example: schedctl events --since 1d --no-follow")
    begin = None if since is None else parse_since(since, session.machine.now())
    with suppress(KeyboardInterrupt), SlotEvents(session.machine, session.observe) as events:
        if begin is not None:  # listening already: between the two, nothing is missed
            _show(session, _read_past(session, begin))
        while not no_follow:
            _show(session, events.wait())


def _read_past(session: Session, begin: float) -> "list[KernelEvent]":
    from schedkit.host.events import read_past_events

    found = read_past_events(session.machine, begin)
    if isinstance(found, Unknown):
        if os.geteuid() != 0:
            raise needs_root("schedctl events --since")
        raise UnavailableError(f"earlier events could not be read: {found.why}", hint="leave out --since")
    return found


def _show(session: Session, events: "list[KernelEvent]") -> None:
    output = session.output
    for event in events:
        output.write(f"{format_json(event_fields(event)) if output.json else describe_event(event)}\n")
