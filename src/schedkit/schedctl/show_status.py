"""What `schedctl status` shows: the kernel and the containers, and whether they agree."""

from typing import TYPE_CHECKING

from schedkit.host.model import Attachment, Managed, Status
from schedkit.kernel.holder import describe_holder
from schedkit.kernel.state import State
from schedkit.runtimes.container import ContainerState
from schedkit.schedctl.output import Json, plain, words
from schedkit.schedctl.session import Session
from schedkit.schedctl.views import (
    SHORT_ID,
    format_uptime,
    holder_fields,
    kernel_fields,
    managed_fields,
    unreachable_fields,
)
from schedkit.unknown import Unknown

if TYPE_CHECKING:
    from schedkit.schedctl.templates import Template

INDENT = 12  # of what is said, beside what it is about


def show_status(session: Session, template: "Template | None" = None) -> int:
    """Ask everybody, print it, and return how the command ends."""
    from schedkit.host.status import read_status

    status = read_status(session.machine, session.runtimes)
    driver = session.settings.driver
    if template:
        from schedkit.schedctl.templates import show_lines

        show_lines(session.output, template, [_fields(status, driver)])
    else:
        session.output.show(lambda: _fields(status, driver), lambda: _text(status, session))
    return status.summary.exit_code


def _fields(status: Status, driver: str) -> Json:
    running = [one for one in status.managed if one.container.state is ContainerState.RUNNING]
    troubled = status.summary.exit_code != 0
    return {
        "schema_version": "1",
        "status": status.summary.value,
        "driver": driver,
        "scheduler": _describe_for_go_scripts(running[0]) if len(running) == 1 else None,
        "kernel": kernel_fields(status.kernel),
        "discrepancy": status.explanation if troubled else None,
        "explanation": status.explanation,
        "remedy": status.remedy or None,
        "holder": holder_fields(status.holder),
        "managed": [managed_fields(one) for one in status.managed],
        "unreachable": [unreachable_fields(one) for one in status.unreachable],
        **_lasting_fields(status),
    }


def _lasting_fields(status: Status) -> Json:
    if status.lasting is None:
        return {"enabled": None, "restarted": None, "trial": None}
    from schedkit.schedctl.show_lasting import lasting_fields

    return lasting_fields(status.lasting)


def _describe_for_go_scripts(managed: Managed) -> Json:
    """The one scheduler in the words of the Go schedctl, for the scripts that read those."""
    container = managed.container
    fields = managed_fields(managed)
    return {
        "name": managed.scheduler,
        "container_id": container.id,
        "image": fields["image"],
        "image_id": fields["digest"],
        "pid": container.pid,
        "started_at": plain(container.started),
    }


def _text(status: Status, session: Session) -> str:
    code = status.summary.exit_code
    mood = "good" if code == 0 else "doubtful" if code == 1 else "bad"
    if code == 0 and status.kernel.state is State.UNSUPPORTED:
        mood = "doubtful"  # nothing is wrong, and nothing can run
    lines = [f"{'status':12}{session.output.paint(status.summary.value, mood)}", f"{'':12}{status.explanation}"]
    if status.remedy:
        lines.append(f"{'fix':12}{status.remedy}")
    lines += _kernel_lines(status)
    if status.lasting:
        from schedkit.schedctl.show_lasting import lasting_lines

        lines += lasting_lines(status.lasting, status, session.output)
    for one in status.managed:
        lines += _managed_lines(one, session)
    lines += [
        f"{'unreachable':12}{one.driver} at {one.socket}: {one.why}" for one in status.unreachable if not one.absent
    ]
    return "\n".join(part for line in lines for part in session.output.fill(line, INDENT))


def _kernel_lines(status: Status) -> list[str]:
    kernel = status.kernel
    counts = {"enable_seq": kernel.enable_seq, "nr_rejected": kernel.nr_rejected}
    told = ", ".join(f"{name} {words(value)}" for name, value in counts.items() if value is not None)
    ops = "" if kernel.ops is None else f" {words(kernel.ops)}"
    lines = [f"{'kernel':12}{words(kernel.state)}{ops}{f' ({told})' if told else ''}"]
    if status.holder is not None:
        lines.append(f"{'':12}{describe_holder(status.holder)}")
    if isinstance(kernel.events, Unknown):
        lines.append(f"{'events':12}{words(kernel.events)}")
    elif kernel.events:
        shown = [f"{name} {count}" for name, count in kernel.events.items() if count]
        lines.append(f"{'events':12}{', '.join(shown) or 'none'}")
    if isinstance(kernel.sub_schedulers, Unknown) or kernel.sub_schedulers:
        subs = kernel.sub_schedulers
        lines.append(f"{'below it':12}{words(subs) if isinstance(subs, Unknown) else ', '.join(subs)}")
    return lines


def _managed_lines(managed: Managed, session: Session) -> list[str]:
    container = managed.container
    attached = "attached" if managed.attachment is Attachment.YES else f"not attached: {managed.why}"
    if managed.attachment is Attachment.UNKNOWN:
        attached = f"attached: unknown ({managed.why})"
    uptime = format_uptime(container, session.machine.now())
    lines = [
        f"{'container':12}{container.name} ({container.driver} {container.id[:SHORT_ID]}), {uptime}, {attached}",
        f"{'':12}{session.output.shorten(str(managed_fields(managed)['image']))}",
    ]
    if managed.restart not in ("", "no"):
        nobody = ", but no unit of systemd restarts it" if managed.watched is False else ""
        lines.append(f"{'':12}restart {managed.restart}{nobody}")
    lines.append(f"{'':12}verified: {managed.verified or 'unknown (not recorded)'}")
    return lines
