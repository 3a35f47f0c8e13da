"""What `schedctl ps` shows: the schedulers' containers over all runtimes."""

from typing import TYPE_CHECKING

from schedkit.host.model import Observed
from schedkit.schedctl.output import Json
from schedkit.schedctl.session import Session
from schedkit.schedctl.views import SHORT_ID, format_uptime, managed_fields, unreachable_fields

if TYPE_CHECKING:
    from schedkit.schedctl.templates import Template

TITLES = ("PID", "ID", "NAME", "IMAGE", "DRIVER", "UPTIME", "ATTACHED", "VERIFIED")
SPARE = ("VERIFIED", "PID", "DRIVER", "ID")  # what a narrow terminal does without


def show_containers(
    session: Session, *, everything: bool, quiet: bool = False, template: "Template | None" = None
) -> None:
    """Ask everybody, and print those that run, or `everything`."""
    from schedkit.host.managed import observe

    observed = observe(session.machine, session.runtimes)
    for one in observed.hidden:
        session.progress.warn(f"{one}: its containers are not listed")
    if template:
        from schedkit.schedctl.templates import show_lines

        shown = observed.managed if everything else observed.running
        show_lines(session.output, template, map(managed_fields, shown))
        return
    text = _ids if quiet else _text
    session.output.show(lambda: _fields(observed, everything), lambda: text(observed, everything, session))


def _fields(observed: Observed, everything: bool) -> Json:
    shown = observed.managed if everything else observed.running
    return {
        "containers": [managed_fields(one) for one in shown],
        "unreachable": [unreachable_fields(one) for one in observed.unreachable],
    }


def _ids(observed: Observed, everything: bool, _session: Session) -> str:
    return "\n".join(one.container.id for one in (observed.managed if everything else observed.running))


def _text(observed: Observed, everything: bool, session: Session) -> str:
    now = session.machine.now()
    rows = [
        (
            str(one.container.pid or "-"),
            one.container.id[:SHORT_ID],
            one.container.name,
            session.output.shorten(str(managed_fields(one)["image"])),
            one.container.driver,
            format_uptime(one.container, now),
            one.attachment.value,
            one.verified or "unknown",
        )
        for one in (observed.managed if everything else observed.running)
    ]
    return session.output.table(TITLES, rows, elastic=("IMAGE", "NAME", "VERIFIED"), spare=SPARE)
