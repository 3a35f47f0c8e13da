"""`schedctl ps`: the schedulers' containers over all runtimes."""

import click

from schedkit.host.model import Observed
from schedkit.schedctl.options import Command, output_option, pass_session
from schedkit.schedctl.output import Json
from schedkit.schedctl.session import Session
from schedkit.schedctl.views import SHORT_ID, format_uptime, managed_fields, silent_fields

TITLES = ("PID", "ID", "NAME", "IMAGE", "DRIVER", "UPTIME", "ATTACHED", "VERIFIED")


@click.command(
    cls=Command,
    short_help="List the schedulers' containers.",
    epilog="""
    schedctl ps
    schedctl ps --all
    schedctl ps -o json | jq -r '.containers[].id'
    """,
)
@click.option("-a", "--all", "everything", is_flag=True, help="Those that ended or never started, too.")
@output_option
@pass_session
def command(session: Session, everything: bool) -> None:
    """List the schedulers' containers over all runtimes that answer, and whether the kernel has them.

    UPTIME tells for a container that does not run what it is instead, with its exit code.
    """
    from schedkit.host.managed import observe

    runtimes, silent = session.find_runtimes()
    observed = observe(session.machine, runtimes, silent)
    for one in observed.silent:
        if not one.absent:
            session.talk.warn(f"{one.driver} could not be asked: {one.why}")
    session.output.show(lambda: _fields(observed, everything), lambda: _text(observed, everything, session))


def _fields(observed: Observed, everything: bool) -> Json:
    shown = observed.managed if everything else observed.running
    return {
        "containers": [managed_fields(one) for one in shown],
        "silent": [silent_fields(one) for one in observed.silent],
    }


def _text(observed: Observed, everything: bool, session: Session) -> str:
    now = session.machine.now()
    rows = [
        (
            str(one.container.pid or "-"),
            one.container.id[:SHORT_ID],
            one.container.name,
            str(managed_fields(one)["image"]),
            one.container.driver,
            format_uptime(one.container, now),
            one.attachment.value,
            one.verified or "unknown",
        )
        for one in (observed.managed if everything else observed.running)
    ]
    return session.output.table(TITLES, rows, elastic=("IMAGE", "NAME", "VERIFIED"))
