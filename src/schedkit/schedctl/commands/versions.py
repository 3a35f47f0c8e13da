"""`schedctl versions`: the tags of a scheduler's image."""

from typing import NamedTuple

import click

from schedkit.cli import Whole
from schedkit.errors import SchedkitError
from schedkit.schedctl.completing import complete_scheduler
from schedkit.schedctl.options import Command, output_option, pass_session
from schedkit.schedctl.output import Json, plain
from schedkit.schedctl.session import ResolvedName, Session
from schedkit.unknown import Unknown

AT_ONCE = 8  # questions to the registry


class VersionRow(NamedTuple):
    """One tag."""

    tag: str
    digest: str | Unknown
    here: bool | None  # None: nobody could be asked, or the digest is unknown


@click.command(
    cls=Command,
    short_help="List a scheduler's versions, newest first.",
    epilog="""
    schedctl versions scx_rusty
    schedctl versions ghcr.io/schedkit/scx_rusty --limit 0
    schedctl versions scx_rusty -o json | jq -r '.versions[0].digest'
    """,
)
@click.argument("name", metavar="NAME|IMAGE", shell_complete=complete_scheduler)
@click.option(
    "--limit",
    type=Whole(0),
    default=20,
    show_default=True,
    metavar="N",
    help="Maximum number to show (0 for all); each needs one request to the registry.",
)
@output_option
@pass_session
def command(session: Session, name: str, limit: int) -> None:
    """List a scheduler's versions (the tags of its image), newest first, and which of them are on this machine."""
    named = session.find(name)
    tags = session.registry.fetch_tags(named.reference)
    shown = tags[:limit] if limit else tags
    rows = _gather(session, named, shown)
    if len(shown) < len(tags):
        session.progress.step(f"{len(tags) - len(shown)} older ones are not shown: --limit 0 shows all")
    session.output.show(
        lambda: {"image": named.reference.repository, "total": len(tags), "versions": [_fields(row) for row in rows]},
        lambda: _text(rows, session),
    )


def _gather(session: Session, named: ResolvedName, tags: list[str]) -> list[VersionRow]:
    from concurrent.futures import ThreadPoolExecutor

    here = _fetch_digests(session)

    def look(tag: str) -> VersionRow:
        try:
            digests = session.registry.fetch_digests(named.reference._replace(tag=tag, digest=None))
        except SchedkitError as error:
            return VersionRow(tag, Unknown(error.message), None)
        return VersionRow(tag, digests[0], None if here is None else not here.isdisjoint(digests))

    with ThreadPoolExecutor(AT_ONCE) as threads:
        return list(threads.map(look, tags))


def _fetch_digests(session: Session) -> frozenset[str] | None:
    """Return the digests of all local images; None if a runtime that may have some does not respond."""
    if session.runtimes.hidden:
        return None
    try:
        return frozenset[str]().union(*(runtime.fetch_digests() for runtime in session.runtimes))
    except SchedkitError as error:
        session.progress.warn(error.message)
        return None


def _fields(row: VersionRow) -> Json:
    return {"tag": row.tag, "digest": plain(row.digest), "here": row.here}


def _text(rows: list[VersionRow], session: Session) -> str:
    cells = [
        (
            row.tag,
            "unknown" if isinstance(row.digest, Unknown) else session.output.shorten(row.digest),
            {True: "pulled", False: "-", None: "unknown"}[row.here],
        )
        for row in rows
    ]
    return session.output.table(("VERSION", "DIGEST", "HERE"), cells, elastic=("VERSION",))
