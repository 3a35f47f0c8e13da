"""`schedctl list`: the catalog."""

from typing import TYPE_CHECKING, NamedTuple

import click

from schedkit.errors import SchedkitError
from schedkit.host.model import Attachment, Observed
from schedkit.kernel.names import is_same_scheduler
from schedkit.kernel.state import State
from schedkit.schedctl.options import Command, output_option, pass_session
from schedkit.schedctl.session import Session
from schedkit.schedctl.templates import Template, format_option, show_lines
from schedkit.unknown import Unknown

if TYPE_CHECKING:
    from schedkit.images.reference import Reference


class SchedulerRow(NamedTuple):
    """One scheduler of the catalog and what this machine has of it; None where nobody could be asked."""

    name: str
    description: str
    good_for: str
    image: str
    origin: str
    hidden: bool
    pulled: bool | None
    attached: bool | None


@click.command(
    cls=Command,
    short_help="List the schedulers in the catalog, and which are on this machine.",
    epilog="""
    schedctl list
    schedctl list | grep -w pulled
    schedctl list --wide --all
    schedctl list --format '{{.name}} {{.pulled}}'
    schedctl --catalog ./my-catalog.json list -o json
    """,
)
@click.option("--wide", is_flag=True, help="Show the images, too.")
@click.option("-a", "--all", "everything", is_flag=True, help="Include test images.")
@output_option
@format_option("list", "schedulers", "{{.name}} {{.pulled}}")
@pass_session
def command(session: Session, wide: bool, everything: bool, template: Template | None) -> None:
    """List the schedulers in the catalog, what they are good for, and which are pulled or attached on this machine.

    `schedctl info NAME` shows details.
    """
    rows = [row for row in _gather(session) if everything or not row.hidden or row.attached]
    if template:
        show_lines(session.output, template, (row._asdict() for row in rows))
        return
    session.output.show(
        lambda: {"schedulers": [row._asdict() for row in rows]}, lambda: _text(rows, session, wide=wide)
    )


def _gather(session: Session) -> list[SchedulerRow]:
    entries = sorted(session.catalog.entries.values(), key=lambda entry: entry.name)
    pulled, observed = _ask_runtimes(session)
    return [
        SchedulerRow(
            name=entry.name,
            description=entry.description,
            good_for=entry.good_for,
            image=str(entry.image),
            origin=entry.origin,
            hidden=entry.hidden,
            pulled=None if pulled is None else _is_pulled(session, entry.image, pulled),
            attached=_is_attached(entry.name, observed),
        )
        for entry in entries
    ]


def _ask_runtimes(session: Session) -> tuple[frozenset[str] | None, Observed]:
    """Repositories that are pulled, None if somebody who may know does not respond; and what runs."""
    from schedkit.host.managed import observe

    observed = observe(session.machine, session.runtimes)
    repositories: set[str] = set()
    for runtime in session.runtimes:
        try:
            repositories |= runtime.fetch_repositories()
        except SchedkitError as error:
            session.runtimes.hide(runtime, error)
    hidden = session.runtimes.hidden
    for one in hidden:
        session.progress.warn(f"{one}: what it has is not known")
    return (None if hidden else frozenset(repositories)), observed


def _is_pulled(session: Session, image: "Reference", pulled: frozenset[str]) -> bool:
    """Whether the image's repository is here, or that of a mirror, from which engines pull."""
    places = session.registry_settings.list_repositories(image.registry, image.path)
    return not pulled.isdisjoint(f"{registry}/{path}" for registry, path in places)


def _is_attached(name: str, observed: Observed) -> bool | None:
    """Whether the kernel has it, started by schedctl or by anybody else."""
    kernel = observed.kernel
    if kernel.state in (State.DISABLED, State.UNSUPPORTED):
        return False
    if isinstance(kernel.ops, str) and is_same_scheduler(name, kernel.ops):
        return True
    found = [one.attachment for one in observed.running if one.scheduler == name]
    if Attachment.YES in found:
        return True
    return None if observed.hidden or isinstance(kernel.state, Unknown) or Attachment.UNKNOWN in found else False


def _text(rows: list[SchedulerRow], session: Session, *, wide: bool) -> str:
    titles = ("NAME", "GOOD FOR", "HERE", *(("IMAGE",) if wide else ()))
    cells = [(row.name, row.good_for or row.description or "-", _mark(row), row.image)[: len(titles)] for row in rows]
    return session.output.table(titles, cells, elastic=("GOOD FOR", "IMAGE")[: len(titles) - 2])


def _mark(row: SchedulerRow) -> str:
    if row.attached:
        return "attached"
    if row.pulled is None:
        return "unknown"
    return "pulled" if row.pulled else "-"
