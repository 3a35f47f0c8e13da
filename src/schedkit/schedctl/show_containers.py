"""What `schedctl ps` shows: the schedulers' containers over all runtimes."""

from schedkit.host.model import Observed
from schedkit.schedctl.output import Json
from schedkit.schedctl.session import Session
from schedkit.schedctl.views import SHORT_ID, format_uptime, managed_fields, silent_fields

TITLES = ("PID", "ID", "NAME", "IMAGE", "DRIVER", "UPTIME", "ATTACHED", "VERIFIED")


def show_containers(session: Session, *, everything: bool) -> None:
    """Ask everybody, and print those that run, or `everything`."""
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
