"""`schedctl wait`: until the kernel has attached, detached or ejected a scheduler."""

from typing import TYPE_CHECKING

import click

from schedkit.errors import NotFoundError, UsageError
from schedkit.schedctl.completing import complete_container
from schedkit.schedctl.durations import timeout_option
from schedkit.schedctl.options import Command, output_option, pass_session
from schedkit.schedctl.output import Json, format_seconds, words
from schedkit.schedctl.session import Session
from schedkit.schedctl.show_event import describe_event, event_fields
from schedkit.schedctl.views import kernel_fields

if TYPE_CHECKING:
    from schedkit.host.waiting import Waited

# Here, and not from the host, so that --help does not import it; a test compares the two.
CONDITIONS = ("attached", "detached", "ejected")


@click.command(
    cls=Command,
    short_help="Wait until a scheduler is attached, detached or ejected.",
    epilog="""
    schedctl wait
    schedctl wait --for detached --timeout 10s
    schedctl wait scx_rusty --for ejected && schedctl restore
    """,
)
@click.argument("id", required=False, metavar="[ID|NAME]", shell_complete=complete_container)
@click.option(
    "--for",
    "condition",
    type=click.Choice(CONDITIONS),
    default="attached",
    show_default=True,
    help="What to wait for, as the kernel reports it.",
)
@timeout_option(None, "to wait; then the exit code is 124 [default: no limit]", above=0.0)
@output_option
@pass_session
def command(session: Session, id: str | None, condition: str, timeout: float | None) -> None:
    """Wait until the kernel has attached a scheduler, detached it, or ejected it for an error or a stall.

    If it is attached or detached already, the command returns at once; an ejection counts from now on. ID is the
    beginning of a container ID; NAME is the name of a container or of a scheduler, also of one that schedctl does not
    manage. Defaults to any scheduler.
    """
    from schedkit.host.events import EventKind
    from schedkit.host.waiting import wait_for

    if id == "":
        raise UsageError("the name is empty", hint="leave it out to wait for any scheduler")
    if id is not None:
        _check_known(session, id)
    waited = wait_for(session.machine, session.observe, EventKind(condition), id, timeout)
    session.output.show(lambda: _fields(waited), lambda: _text(waited, id))


def _check_known(session: Session, which: str) -> None:
    """What is misspelt would be waited for forever."""
    from schedkit.host.stop import find
    from schedkit.host.waiting import is_meant

    observed = session.observe()
    ops = observed.kernel.ops
    if any(is_meant(which, "", one) for one in observed.managed) or (
        isinstance(ops, str) and is_meant(which, ops, None)
    ):
        return
    for one in observed.hidden:
        session.progress.warn(f"{one}: its containers are not known")
    if "/" in which:
        find(observed, which)
    try:
        session.check_known(which)
    except NotFoundError as error:
        raise NotFoundError(
            f"there is no container and no scheduler called {which}",
            hint="`schedctl ps` and `schedctl list` show the names",
        ) from error


def _fields(waited: "Waited") -> Json:
    return {
        "condition": waited.condition.value,
        "seconds": round(waited.seconds, 3),
        "kernel": kernel_fields(waited.kernel) if waited.kernel else None,
        "event": event_fields(waited.event) if waited.event else None,
    }


def _text(waited: "Waited", which: str | None) -> str:
    if waited.event:
        return describe_event(waited.event)
    if waited.condition == "attached" and waited.kernel:
        what = f"{words(waited.kernel.ops)} is attached"
    else:
        what = f"{which} is not attached" if which else "no scheduler is attached"
    return f"{what}, after {format_seconds(waited.seconds)}"
